"""The native module: its probe, its wake-ups and its log lines."""

from __future__ import annotations

import asyncio
import json
import logging
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from llmserve import Engine, LoadError, ModelConfig, _core
from llmserve._binding import loads
from synthetic.architectures import HEAD_SIZE, NUM_KV_HEADS, NUM_LAYERS

CONFIG = ModelConfig(context_length=256, max_sequences=2, threads=1)


def probe(path: Path, **options: object) -> subprocess.CompletedProcess[str]:
    command = loads._probe_command()
    assert command is not None
    arguments = [*command, str(path), json.dumps(options)]
    return subprocess.run(arguments, capture_output=True, text=True, check=False)


def test_a_probe_tells_by_its_exit_code(tiny_model: Path, tmp_path: Path) -> None:
    good = probe(tiny_model)
    assert (good.returncode, good.stdout, good.stderr) == (0, "", "")
    path = tmp_path / "text.gguf"
    path.write_text("no model")
    bad = probe(path)
    assert (bad.returncode, bad.stdout.split("\t")[0], bad.stderr) == (3, "not_gguf", "")


def test_a_file_that_ends_its_process_is_refused(
    tiny_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = tmp_path / "copy.gguf"
    copy.write_bytes(tiny_model.read_bytes())
    crash = [sys.executable, "-c", "import os, sys; print('why', file=sys.stderr, flush=True); os.abort()"]
    with monkeypatch.context() as patch:
        patch.setattr(loads, "_probe_command", lambda: crash)
        with pytest.raises(LoadError, match="ends the process that opens it") as failure:
            asyncio.run(Engine.load(copy, CONFIG))
    assert (failure.value.reason, failure.value.detail) == ("damaged", "why\n")

    async def load() -> None:
        await (await Engine.load(copy, CONFIG)).close()

    asyncio.run(load())
    # It is known now: the probe does not run again.
    monkeypatch.setattr(loads, "_probe_command", lambda: crash)
    asyncio.run(load())


def test_without_an_interpreter_there_is_no_probe(
    tiny_model: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(sys, "executable", "")
    assert loads._probe_command() is None
    assert caplog.messages == [
        "no Python interpreter to probe model files with: a damaged file may end this process"
    ]


def test_the_size_of_a_cache_is_told_before_a_load(tiny_models: Path) -> None:
    def told(name: str, **options: object) -> int | None:
        return _core.kv_bytes_per_token(tiny_models / name, ModelConfig(**options))  # type: ignore[arg-type]

    f16 = told("llama.gguf")
    assert f16 == NUM_LAYERS * NUM_KV_HEADS * HEAD_SIZE * 2 * 2
    assert told("llama.gguf", kv_type_k="q8_0", kv_type_v="q8_0") == f16 // 2 * 34 // 32
    # A layer with a window may have larger heads: the figure is a bound.
    wide = {
        "llama.attention.key_length_swa": 2 * HEAD_SIZE,
        "llama.attention.value_length_swa": 2 * HEAD_SIZE,
    }
    assert told("llama.gguf", metadata_overrides=wide) == 2 * f16
    assert told("embed-last.gguf") == f16
    for without in ("recurrent.gguf", "hybrid.gguf", "bert-mean.gguf"):
        assert told(without) is None


def test_the_size_of_no_cache_is_told_of_a_file_that_is_no_model(tmp_path: Path) -> None:
    path = tmp_path / "text.gguf"
    path.write_text("no model")
    with pytest.raises(LoadError) as failure:
        _core.kv_bytes_per_token(path, ModelConfig())
    assert failure.value.reason == "not_gguf"


def test_a_wake_up_signals_until_it_is_drained() -> None:
    wakeup = _core.Wakeup()
    assert wakeup.wait(0) is False
    assert wakeup.drain() == []
    number = wakeup.fileno()
    assert wakeup.fileno() == number > 2
    waited: list[bool] = []
    thread = threading.Thread(target=lambda: waited.append(wakeup.wait()))
    thread.start()
    wakeup.close()
    wakeup.close()
    thread.join()
    assert waited == [False]
    with pytest.raises(ValueError, match="closed"):
        wakeup.fileno()
    with pytest.raises((ValueError, OverflowError)):
        _core.Wakeup().wait(-1)


def test_log_lines_reach_python(tiny_model: Path, caplog: pytest.LogCaptureFixture, tmp_path: Path) -> None:
    arrived = threading.Event()

    class Watch(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if record.getMessage().startswith("loaded "):
                arrived.set()

    logger = logging.getLogger("llmserve.engine")
    watch = Watch()
    logger.addHandler(watch)
    try:
        with caplog.at_level(logging.INFO, "llmserve.engine"):

            async def load() -> None:
                await (await Engine.load(tiny_model, CONFIG)).close()

            asyncio.run(load())
            assert arrived.wait(120)
    finally:
        logger.removeHandler(watch)
    lines = [record for record in caplog.records if record.name == "llmserve.engine"]
    loaded = next(record for record in lines if record.getMessage().startswith("loaded "))
    assert loaded.levelno == logging.INFO
    assert "context length 256" in loaded.getMessage()
