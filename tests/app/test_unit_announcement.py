"""What the start says about memory."""

from __future__ import annotations

from typing import Any

import pytest

from llmserve.model_config import ModelConfig
from llmserve.server import announcement
from llmserve.server.announcement import remarks
from llmserve.server.machine import memory_bytes

GIB = 1 << 30


class Info:
    """30 layers with 3 heads of 64 values for keys and values."""

    kv_bytes_per_token = 23_040
    trained_context_length = 8192

    def __init__(self, context_length: int = 8192, num_slots: int = 8) -> None:
        self.context_length, self.num_slots = context_length, num_slots
        self.num_cells = context_length * num_slots


def said(info: Any, config: ModelConfig | None = None) -> list[str]:
    return remarks(info, config or ModelConfig())


def test_a_cache_that_is_large_for_the_machine_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(announcement, "memory_bytes", lambda: 8 * GIB)
    assert said(Info()) == [
        "the KV cache may take 1.4 GiB of 8.0 GiB; with --context-length 4096 --max-sequences 2 it is 180 MiB"
    ]
    monkeypatch.setattr(announcement, "memory_bytes", lambda: 64 * GIB)
    assert said(Info()) == []
    monkeypatch.setattr(announcement, "memory_bytes", lambda: None)
    assert said(Info()) == []
    # No advice that would hardly help.
    monkeypatch.setattr(announcement, "memory_bytes", lambda: GIB // 2)
    assert said(Info(context_length=4096, num_slots=2), ModelConfig(context_length=4096)) == []


def test_a_context_that_memory_made_short_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(announcement, "memory_bytes", lambda: None)
    (line,) = said(Info(context_length=256))
    assert line.startswith("memory is short: the context length is 256 of 8192 tokens; ")
    # Who chose a length knows it.
    assert said(Info(context_length=256), ModelConfig(context_length=256)) == []


def test_a_context_longer_than_trained_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(announcement, "memory_bytes", lambda: None)
    config = ModelConfig(context_length=16384)
    assert said(Info(context_length=16384), config) == [
        "the context length is 16384 tokens, and the model was trained with 8192"
    ]
    assert said(Info(context_length=16384), ModelConfig(context_length=16384, rope_scaling="yarn")) == []


def test_the_machine_has_memory() -> None:
    found = memory_bytes()
    assert found is None or found > 1 << 24
