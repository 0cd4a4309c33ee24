"""Tiny GGUF models with random weights, one for each kind of llama.cpp memory.

They load in milliseconds and their greedy text depends on every token before it, so a test that compares
texts notices wrong cache contents. The same sources give the same bytes on every machine.
"""

from __future__ import annotations

from .architectures import KINDS, Kind, Model, build
from .embedding_models import EMBEDDING_FILES
from .store import (
    FILES,
    SENTENCEPIECE_FILE,
    main_file,
    write_adapter,
    write_all,
    write_embedding_model,
    write_model,
    write_sentencepiece,
    write_split,
)
from .vocabulary import BOS, CHAT_TEMPLATE, EOS, IM_END, IM_START, VOCABULARY

__all__ = [
    "BOS",
    "CHAT_TEMPLATE",
    "EMBEDDING_FILES",
    "EOS",
    "FILES",
    "IM_END",
    "IM_START",
    "KINDS",
    "SENTENCEPIECE_FILE",
    "VOCABULARY",
    "Kind",
    "Model",
    "build",
    "main_file",
    "write_adapter",
    "write_all",
    "write_embedding_model",
    "write_model",
    "write_sentencepiece",
    "write_split",
]
