"""llmserve: serves GGUF language models from a Rust engine over llama.cpp.

    import asyncio
    import llmserve

    async def main() -> None:
        async with llmserve.Engine.load("model.gguf") as engine:
            async for delta in engine.stream("The capital of France is", max_tokens=32):
                print(delta.text, end="", flush=True)

    asyncio.run(main())

`llmserve.sync` is the same without an event loop. Importing this package imports no web framework and no
template engine.
"""

from __future__ import annotations

import importlib
import logging
from typing import TYPE_CHECKING, Any

from llmserve._core import __version__
from llmserve.chat import ChatPrompt, NextTurn
from llmserve.drafting import Drafting
from llmserve.embeddings import Embeddings
from llmserve.errors import (
    BudgetTooSmallError,
    ContextExceededError,
    DocumentTooLongError,
    EmptyPromptError,
    EngineClosedError,
    EngineDeadError,
    GenerationError,
    InputTooLongError,
    InvalidParameterError,
    LlmserveError,
    LoadError,
    NoDraftHeadError,
    QueueFullError,
    RequestError,
    SessionError,
    TemplateError,
    TokenizeError,
    WrongModelKindError,
)
from llmserve.inspection import inspect_session
from llmserve.model_config import LoraAdapter, ModelConfig
from llmserve.ranking import Scores
from llmserve.sampling_params import SamplingParams
from llmserve.tenant import Tenant
from llmserve.types import (
    CachedTokens,
    Completion,
    Delta,
    ModelInfo,
    PromptProgress,
    PromptToken,
    SessionInfo,
    Stats,
    Timings,
    Token,
    TokenLogprobs,
    Usage,
)

if TYPE_CHECKING:
    from llmserve import sync
    from llmserve.embedder import Embedder, SyncEmbedder
    from llmserve.engine import Engine, SyncEngine
    from llmserve.loading import Loading
    from llmserve.session import Session, SyncSession
    from llmserve.stream import Stream, SyncStream

__all__ = [
    "BudgetTooSmallError",
    "CachedTokens",
    "ChatPrompt",
    "Completion",
    "ContextExceededError",
    "Delta",
    "DocumentTooLongError",
    "Drafting",
    "Embedder",
    "Embeddings",
    "EmptyPromptError",
    "Engine",
    "EngineClosedError",
    "EngineDeadError",
    "GenerationError",
    "InputTooLongError",
    "InvalidParameterError",
    "LlmserveError",
    "LoadError",
    "Loading",
    "LoraAdapter",
    "ModelConfig",
    "ModelInfo",
    "NextTurn",
    "NoDraftHeadError",
    "PromptProgress",
    "PromptToken",
    "QueueFullError",
    "RequestError",
    "SamplingParams",
    "Scores",
    "Session",
    "SessionError",
    "SessionInfo",
    "Stats",
    "Stream",
    "SyncEmbedder",
    "SyncEngine",
    "SyncSession",
    "SyncStream",
    "TemplateError",
    "Tenant",
    "Timings",
    "Token",
    "TokenLogprobs",
    "TokenizeError",
    "Usage",
    "WrongModelKindError",
    "__version__",
    "inspect_session",
    "sync",
]

# These import an event loop library, which not every program needs.
_LAZY = {
    "Embedder": "embedder",
    "Engine": "engine",
    "Loading": "loading",
    "Session": "session",
    "Stream": "stream",
    "SyncEmbedder": "embedder",
    "SyncEngine": "engine",
    "SyncSession": "session",
    "SyncStream": "stream",
}

# A program that did not set logging up is not to see llama.cpp's warnings on its terminal.
logging.getLogger("llmserve").addHandler(logging.NullHandler())


def __getattr__(name: str) -> Any:
    if name == "sync":
        return importlib.import_module("llmserve.sync")
    if name in _LAZY:
        return getattr(importlib.import_module(f"llmserve.{_LAZY[name]}"), name)
    raise AttributeError(f"module 'llmserve' has no attribute '{name}'")


def __dir__() -> list[str]:
    return sorted(__all__)
