"""Tiny GGUF models with random weights, one for each kind of llama.cpp memory.

They load in milliseconds and their greedy text depends on every token before it, so a test that compares
texts notices wrong cache contents. The same sources give the same bytes on every machine.
"""

from __future__ import annotations

from .architectures import KINDS, Kind, Model, build
from .draft_rules import Rules, rules
from .draft_simulator import Drafted, greedy, simulate
from .embedding_models import EMBEDDING_FILES
from .store import (
    DRAFT_AGREEMENT,
    DRAFT_HEAD_FILE,
    FILES,
    HYBRID_HEAD_FILE,
    MISSING_HEAD_FILE,
    SENTENCEPIECE_FILE,
    WRONG_HEAD_FILE,
    main_file,
    write_adapter,
    write_all,
    write_draft_models,
    write_embedding_model,
    write_memory_bound,
    write_model,
    write_sentencepiece,
    write_split,
)
from .vocabulary import BOS, CHAT_TEMPLATE, EOS, IM_END, IM_START, VOCABULARY

__all__ = [
    "BOS",
    "CHAT_TEMPLATE",
    "DRAFT_AGREEMENT",
    "DRAFT_HEAD_FILE",
    "EMBEDDING_FILES",
    "EOS",
    "FILES",
    "HYBRID_HEAD_FILE",
    "IM_END",
    "IM_START",
    "KINDS",
    "MISSING_HEAD_FILE",
    "SENTENCEPIECE_FILE",
    "VOCABULARY",
    "WRONG_HEAD_FILE",
    "Drafted",
    "Kind",
    "Model",
    "Rules",
    "build",
    "greedy",
    "main_file",
    "rules",
    "simulate",
    "write_adapter",
    "write_all",
    "write_draft_models",
    "write_embedding_model",
    "write_memory_bound",
    "write_model",
    "write_sentencepiece",
    "write_split",
]
