"""The load options as settings: names, defaults and docs are those of `ModelConfig`."""

from __future__ import annotations

import dataclasses
import math
import typing
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from llmserve.model_config import ModelConfig
from llmserve.server.attribute_docs import docs_of
from llmserve.server.settings import kinds
from llmserve.server.settings.kinds import Kind, choice, integer, number
from llmserve.server.settings.sizes import byte_count, token_count
from llmserve.server.settings.variable import Group, Variable

INT31_MAX = 2**31 - 1

_COUNT = integer(1, INT31_MAX)
_TOKENS = token_count(1, INT31_MAX)
_ANY_NUMBER = number(-math.inf)
_MILLISECONDS = integer(1, 60_000)

_KINDS: Mapping[str, Kind] = MappingProxyType(
    {
        "context_length": _TOKENS,
        "max_sequences": integer(1, 256),
        "kv_cells": _TOKENS,
        "batch_size": _TOKENS,
        "ubatch_size": _TOKENS,
        "threads": integer(1, 1024),
        "flash_attention": kinds.AUTO_SWITCH,
        "gpu_layers": integer(0, INT31_MAX),
        "main_gpu": integer(0, 255),
        "tensor_split": kinds.NUMBERS,
        "rope_freq_base": number(0),
        "rope_freq_scale": number(0),
        "yarn_ext_factor": _ANY_NUMBER,
        "yarn_attn_factor": _ANY_NUMBER,
        "yarn_beta_fast": _ANY_NUMBER,
        "yarn_beta_slow": _ANY_NUMBER,
        "yarn_orig_ctx": _TOKENS,
        "metadata_overrides": kinds.METADATA,
        "lora": kinds.ADAPTERS,
        "chat_template": kinds.TEXT,
        "max_queued_requests": _COUNT,
        "max_queued_tokens": token_count(1, 2**40),
        "max_stall_ms": _MILLISECONDS,
        "idle_step_ms": _MILLISECONDS,
        "parking_bytes": byte_count(0, 2**50),
    }
)
"""Kinds that the type alone does not say: limits above all."""

_GROUPS: Mapping[Group, tuple[str, ...]] = MappingProxyType(
    {
        "model": ("metadata_overrides", "lora", "chat_template"),
        "memory": (
            "context_length",
            "max_sequences",
            "kv_cells",
            "kv_layout",
            "kv_type_k",
            "kv_type_v",
            "offload_kv",
            "swa_full",
            "use_mmap",
            "use_mlock",
            "prefix_cache",
            "parking_bytes",
        ),
        "computing": (
            "batch_size",
            "ubatch_size",
            "threads",
            "flash_attention",
            "deterministic",
            "gpu_layers",
            "main_gpu",
            "tensor_split",
            "max_stall_ms",
            "idle_step_ms",
        ),
        "rope": (
            "rope_scaling",
            "rope_freq_base",
            "rope_freq_scale",
            "yarn_ext_factor",
            "yarn_attn_factor",
            "yarn_beta_fast",
            "yarn_beta_slow",
            "yarn_orig_ctx",
        ),
        "limits": ("max_queued_requests", "max_queued_tokens"),
    }
)
_GROUP_OF: Mapping[str, Group] = {name: group for group, names in _GROUPS.items() for name in names}

_ALIASES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "context_length": ("-c", "--ctx-size"),
        "max_sequences": ("-np", "--parallel"),
        "batch_size": ("-b",),
        "ubatch_size": ("-ub",),
        "threads": ("-t",),
        "kv_type_k": ("-ctk", "--cache-type-k"),
        "kv_type_v": ("-ctv", "--cache-type-v"),
        "flash_attention": ("-fa", "--flash-attn"),
        "gpu_layers": ("-ngl", "--n-gpu-layers"),
    }
)
"""The names that llama-server has for options."""


def _variables() -> tuple[Variable, ...]:
    hints, docs = typing.get_type_hints(ModelConfig), docs_of(ModelConfig)
    return tuple(
        Variable(
            field.name,
            _kind(field.name, hints[field.name]),
            _default(field),
            docs.get(field.name, ""),
            _GROUP_OF[field.name],
            aliases=_ALIASES.get(field.name, ()),
        )
        for field in dataclasses.fields(ModelConfig)
    )


def _kind(name: str, hint: Any) -> Kind:
    if name in _KINDS:
        return _KINDS[name]
    if hint is bool:
        return kinds.SWITCH
    # `Literal[...]`, or that with None.
    literal = next((arg for arg in typing.get_args(hint) if typing.get_args(arg)), hint)
    return choice(*typing.get_args(literal))


def _default(field: dataclasses.Field[Any]) -> str:
    if field.name == "flash_attention":
        return "auto"
    if isinstance(field.default, bool):
        return str(field.default).lower()
    return str(field.default) if isinstance(field.default, int | str) else ""


MODEL_VARIABLES = _variables()

TEMPLATE_FILE = Variable(
    "chat_template_file",
    kinds.TEXT_FILE,
    "",
    "File with the chat template, instead of `chat_template`.",
    "model",
)
