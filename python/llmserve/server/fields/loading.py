"""The load options that a client may set."""

from __future__ import annotations

from llmserve.model_config import ModelConfig
from llmserve.server.fields.table import table

LOADING = table(
    ModelConfig,
    common={
        "context_length": {"minimum": 1, "maximum": 2**27, "example": 4096},
        "threads": {"minimum": 1, "maximum": 512, "example": 4},
        "use_mmap": {"example": True},
        "flash_attention": {"example": False},
        "batch_size": {"minimum": 1, "maximum": 65536, "example": 512},
        "gpu_layers": {"minimum": 0, "maximum": 2**31 - 1, "example": 0},
    },
    rare={},
)
"""Fields of `ModelConfig`."""
