"""Loads that fail: by the file, by an option, by the memory they need."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from llmserve import Engine, LoadError, LoraAdapter, ModelConfig

SMALL = ModelConfig(context_length=256, max_sequences=2, threads=1)

pytestmark = pytest.mark.anyio


def bad_files(folder: Path, good: Path) -> dict[str, Path]:
    whole = good.read_bytes()
    contents = {
        "empty": b"",
        "text": b"This is no model.\n" * 100,
        "version": whole[:4] + (99).to_bytes(4, "little") + whole[8:],
        "truncated": whole[: len(whole) // 2],
        "header": whole[:40],
    }
    for name, content in contents.items():
        (folder / name).write_bytes(content)
    return {name: folder / name for name in contents} | {"missing": folder / "missing", "folder": folder}


@pytest.mark.parametrize(
    ("name", "reasons"),
    [
        ("missing", {"not_found"}),
        ("folder", {"not_readable"}),
        ("empty", {"not_gguf", "truncated"}),
        ("text", {"not_gguf"}),
        ("version", {"unsupported_version"}),
        ("truncated", {"truncated"}),
        ("header", {"truncated", "damaged"}),
    ],
)
async def test_a_bad_file_gives_its_reason_without_its_path(
    name: str, reasons: set[str], tiny_model: Path, tmp_path: Path
) -> None:
    path = bad_files(tmp_path, tiny_model)[name]
    values: list[float] = []
    with pytest.raises(LoadError) as failure:
        await Engine.load(path, SMALL, on_progress=values.append)
    assert failure.value.reason in reasons
    assert failure.value.code == "load_failed"
    assert str(tmp_path) not in str(failure.value)
    assert values[:1] == [0]
    assert 1 not in values
    loading = Engine.load(path, SMALL)
    for _ in range(2):
        with pytest.raises(LoadError):
            await loading
    async with await Engine.load(tiny_model, SMALL) as engine:
        engine.check_alive()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"context_length": 0}, "context_length: must be from 1 to"),
        ({"context_length": -1}, "context_length: must be an integer from 0 to 4294967295, got -1"),
        ({"context_length": True}, "context_length: must be an integer from 0 to 4294967295, got True"),
        ({"context_length": 2.0}, "context_length: must be an integer from 0 to 4294967295, got 2.0"),
        ({"context_length": 1 << 40}, f"context_length: must be .*, got {1 << 40}"),
        ({"max_sequences": 257}, "max_sequences: must be from 1 to 256, got 257"),
        (
            {"kv_layout": "pooled"},
            "kv_layout: must be one of 'auto', 'per_sequence', 'unified', got 'pooled'",
        ),
        ({"kv_type_k": 5}, "kv_type_k: must be one of 'f32', 'f16', .*, got 5"),
        ({"rope_scaling": "cubic"}, "rope_scaling: must be one of 'none', 'linear', .*, got 'cubic'"),
        ({"use_mmap": 1}, "use_mmap: must be True or False, got 1"),
        ({"flash_attention": "on"}, "flash_attention: must be True or False, got 'on'"),
        ({"rope_freq_base": "x"}, "rope_freq_base: must be a number, got 'x'"),
        ({"tensor_split": "1,2"}, "tensor_split: must be a sequence, got '1,2'"),
        ({"metadata_overrides": []}, r"metadata_overrides: must be a mapping, got \[\]"),
        ({"metadata_overrides": {"a": None}}, "metadata_overrides: must be an int of 64 bits, .*, got None"),
        ({"metadata_overrides": {1: 1}}, "metadata_overrides: must be a str, got 1"),
        ({"lora": ["adapter.gguf"]}, "lora: must be an object with `path`, got 'adapter.gguf'"),
        ({"lora": [LoraAdapter(path="a", scale=math.nan)]}, "lora: "),
        ({"max_queued_requests": None}, "max_queued_requests: must be an integer from 0 to .*, got None"),
    ],
)
async def test_a_bad_option_is_named(options: dict[str, object], message: str, tiny_model: Path) -> None:
    with pytest.raises(LoadError, match=f"^{message}") as failure:
        await Engine.load(tiny_model, ModelConfig(**options))  # type: ignore[arg-type]
    assert failure.value.reason in {"invalid_option", "not_found"}


async def test_too_long_a_context_is_refused_with_the_numbers(tiny_model: Path) -> None:
    with pytest.raises(
        LoadError, match=r"needs \d+ MiB, but only \d+ MiB are free; lower `context_length`"
    ) as failure:
        await Engine.load(tiny_model, ModelConfig(context_length=1 << 26, max_sequences=16))
    assert failure.value.reason == "not_enough_memory"
