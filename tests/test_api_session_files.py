"""Saved sessions: other processes, other models, damaged files, and saves that are cut off."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from llmserve import (
    GenerationError,
    LoraAdapter,
    ModelConfig,
    SessionError,
    SyncEngine,
    SyncSession,
    inspect_session,
)
from llmserve.cli import main
from synthetic import KINDS, Kind, main_file

CONFIG = ModelConfig(context_length=512, max_sequences=2, threads=1)
PROMPT = list(range(20, 60))
NUM_TOKENS = len(PROMPT) + 20
TIMEOUT_S = 120
NUM_KILLS = 12


@pytest.fixture(scope="module")
def engine(tiny_model: Path) -> Iterator[SyncEngine]:
    with SyncEngine.load(tiny_model, CONFIG) as engine:
        yield engine


@pytest.fixture
def session(engine: SyncEngine) -> SyncSession:
    """One with 60 tokens."""
    session = engine.session()
    engine.generate(PROMPT, session=session, max_tokens=20, ignore_eos=True, templated=True)
    return session


@pytest.fixture
def saved(session: SyncSession, tmp_path: Path) -> Path:
    path = tmp_path / "saved session"
    session.save(path)
    return path


def go_on(engine: SyncEngine, session: SyncSession, max_tokens: int = 20) -> list[int]:
    completion = engine.generate([70, 71], session=session, max_tokens=max_tokens, ignore_eos=True)
    return [token.id for token in completion.tokens]


def refusal(call: Callable[[], object]) -> str:
    """The reason of the `SessionError` that a call raises."""
    with pytest.raises(SessionError) as raised:
        call()
    assert raised.value.code == "session_failed"
    assert "/" not in str(raised.value)
    assert "/" in raised.value.detail
    return raised.value.reason


IN_ANOTHER_PROCESS = """
import json, sys
from llmserve import ModelConfig, SyncEngine
model, path = sys.argv[1:]
with SyncEngine.load(model, ModelConfig(context_length=2048, max_sequences=16, threads=1)) as engine:
    session = engine.session()
    session.load(path)
    result = engine.generate(" Then he", session=session, max_tokens=40)
    print(json.dumps([[token.id for token in result.tokens], result.usage.cached_tokens]))
"""


@pytest.mark.model
def test_a_session_goes_on_in_another_process_with_the_identical_text(
    model_path: Path, tmp_path: Path
) -> None:
    path = tmp_path / "session"
    with SyncEngine.load(model_path, ModelConfig(context_length=2048, max_sequences=16, threads=1)) as engine:
        session = engine.session()
        engine.generate("Once upon a time there was a king who", session=session, max_tokens=60)
        num_tokens = session.num_tokens
        session.save(path)
        here = engine.generate(" Then he", session=session, max_tokens=40)
    command = [sys.executable, "-c", IN_ANOTHER_PROCESS, str(model_path), str(path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=True)
    assert json.loads(done.stdout) == [[token.id for token in here.tokens], num_tokens - 1]
    assert here.usage.cached_tokens == num_tokens - 1


def test_a_load_takes_the_session_back(engine: SyncEngine, session: SyncSession, saved: Path) -> None:
    before = session.tokens()
    expected = go_on(engine, session)
    session.load(saved)
    assert (session.tokens(), session.is_templated) == (before, True)
    assert go_on(engine, session) == expected
    # Into another session too, as often as wanted.
    for _ in range(3):
        other = engine.session()
        other.load(saved)
        assert go_on(engine, other) == expected


def test_an_empty_session_can_be_saved_and_loaded(
    engine: SyncEngine, session: SyncSession, tmp_path: Path
) -> None:
    path = tmp_path / "empty"
    engine.session().save(path)
    assert inspect_session(path).num_tokens == 0
    session.load(path)
    assert session.tokens() == []
    assert len(go_on(engine, session)) == 20


@pytest.mark.parametrize(
    "change",
    [
        {"kv_type_k": "f32", "kv_type_v": "f32", "flash_attention": False},
        {"max_sequences": 3},
        {"kv_layout": "unified"},
        {"parking_bytes": 0},
        {"prefix_cache": False},
    ],
)
def test_a_state_that_does_not_fit_is_computed_again(
    change: dict[str, object], tiny_model: Path, session: SyncSession, saved: Path
) -> None:
    with SyncEngine.load(tiny_model, dataclasses.replace(CONFIG, **change)) as other:  # type: ignore[arg-type]
        loaded = other.session()
        loaded.load(saved)
        assert loaded.tokens() == session.tokens()
        completion = other.generate([70], session=loaded, max_tokens=5, ignore_eos=True)
        assert completion.usage.cached_tokens == 0
        assert completion.usage.prompt_tokens == NUM_TOKENS + 1


def reseal(data: bytes) -> bytes:
    """A right checksum, whatever stands before it."""
    return data[:-32] + hashlib.sha256(data[:-32]).digest()


@pytest.mark.parametrize("kind", KINDS)
def test_a_made_up_state_does_not_end_the_process(kind: Kind, tiny_models: Path, tmp_path: Path) -> None:
    """Checksum and layout are right, and the numbers that the state begins with are not."""
    path = tmp_path / "session"
    with SyncEngine.load(tiny_models / main_file(kind), CONFIG) as engine:
        session = engine.session()
        engine.generate(PROMPT, session=session, max_tokens=20, ignore_eos=True)
        session.save(path)
        expected = go_on(engine, session)
    data = path.read_bytes()
    start = len(data) - 32 - inspect_session(path).state_bytes
    num_right = 0
    for offset in range(0, 48, 4):
        for value in (0, 0xFFFFFFFF, 0x7FFFFFFE):
            changed = bytearray(data)
            changed[start + offset : start + offset + 4] = value.to_bytes(4, "little")
            path.write_bytes(reseal(bytes(changed)))
            # A new one each time: the last one's cells are not to be found instead.
            with SyncEngine.load(tiny_models / main_file(kind), CONFIG) as engine:
                session = engine.session()
                session.load(path)
                # What llama.cpp refuses is computed again; what it takes gives another text, or no number.
                with contextlib.suppress(GenerationError):
                    num_right += go_on(engine, session) == expected
    assert num_right >= 18


def test_every_class_of_truncation_is_refused(engine: SyncEngine, session: SyncSession, saved: Path) -> None:
    data = saved.read_bytes()
    header_end = 16 + int.from_bytes(data[12:16], "little")
    state = header_end + 4 * NUM_TOKENS
    borders = [0, 1, 7, 8, 11, 12, 15, 16, 40, header_end, state, len(data) - 32, len(data)]
    lengths = {border + step for border in borders for step in (-1, 0, 1)} | {len(data) // 2}
    expected = go_on(engine, session)
    session.load(saved)
    for length in sorted(length for length in lengths if 0 <= length < len(data)):
        saved.write_bytes(data[:length])
        assert refusal(lambda: session.load(saved)) == ("damaged" if length else "not_a_session")
        assert refusal(lambda: inspect_session(saved)) == ("damaged" if length else "not_a_session")
    saved.write_bytes(data + b"\0")
    assert refusal(lambda: session.load(saved)) == "damaged"
    assert go_on(engine, session) == expected, "what was refused changed nothing"


def test_flipped_bits_are_refused_wherever_they_are(
    engine: SyncEngine, session: SyncSession, saved: Path
) -> None:
    data = saved.read_bytes()
    header_end = 16 + int.from_bytes(data[12:16], "little")
    state = header_end + 4 * NUM_TOKENS
    places = [*range(state), *range(state, len(data), 997), *range(len(data) - 32, len(data))]
    expected = go_on(engine, session)
    session.load(saved)
    for place in places:
        changed = bytearray(data)
        changed[place] ^= 1 << (place % 8)
        saved.write_bytes(changed)
        reason = "not_a_session" if place < 8 else "wrong_version" if place < 12 else "damaged"
        assert refusal(lambda: session.load(saved)) == reason, place
    assert session.num_tokens == NUM_TOKENS
    assert go_on(engine, session) == expected


def test_sessions_of_other_models_and_adapters_are_refused(
    tiny_models: Path, session: SyncSession, saved: Path, tmp_path: Path
) -> None:
    adapter = LoraAdapter(path=tiny_models / "lora.gguf")
    others = [
        (main_file("swa"), CONFIG),
        (main_file("llama"), dataclasses.replace(CONFIG, lora=(adapter,))),
        (main_file("llama"), dataclasses.replace(CONFIG, lora=(dataclasses.replace(adapter, scale=0.5),))),
    ]
    fingerprints = {inspect_session(saved).fingerprint}
    for name, config in others:
        with SyncEngine.load(tiny_models / name, config) as other:
            assert refusal(lambda other=other: other.session().load(saved)) == "other_model"  # type: ignore[misc]
            fingerprints.add(other.info.fingerprint)
    assert len(fingerprints) == 4
    with SyncEngine.load(
        tiny_models / main_file("llama"), dataclasses.replace(CONFIG, context_length=32)
    ) as short:
        assert refusal(lambda: short.session().load(saved)) == "too_long"
    # A copy of the model is the same model.
    copy = shutil.copy(tiny_models / main_file("llama"), tmp_path / "copy.gguf")
    with SyncEngine.load(copy, CONFIG) as same:
        same.session().load(saved)


def test_paths_that_cannot_be(session: SyncSession, saved: Path, tmp_path: Path) -> None:
    before = session.tokens()
    (tmp_path / "notes").write_text("not to be lost")
    for path, load, save in (
        (tmp_path / "missing", "not_found", None),
        (tmp_path / "no folder" / "file", "not_found", "not_writable"),
        (tmp_path, "not_readable", "not_replaceable"),
        (tmp_path / "notes", "not_a_session", "not_replaceable"),
        (tmp_path / ("x" * 300), "not_readable", "not_writable"),
        (f"{tmp_path}/nul\0", "not_readable", "not_writable"),
    ):
        assert refusal(lambda path=path: session.load(path)) == load  # type: ignore[misc]
        if save is not None:
            assert refusal(lambda path=path: session.save(path)) == save  # type: ignore[misc]
    assert session.tokens() == before
    assert (tmp_path / "notes").read_text() == "not to be lost"
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["notes", "saved session"]
    for wrong in (None, 5):
        with pytest.raises(TypeError):
            session.save(wrong)  # type: ignore[arg-type]


def test_inspect_shows_the_header(
    session: SyncSession, saved: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    info = inspect_session(saved)
    assert (info.version, info.num_tokens, info.is_templated) == (1, NUM_TOKENS, True)
    assert info.num_state_tokens == NUM_TOKENS - 1
    assert info.file_bytes == saved.stat().st_size
    assert main(["inspect", "--json", str(saved)]) == 0
    assert json.loads(capsys.readouterr().out) == dataclasses.asdict(info)
    assert main(["inspect", str(saved)]) == 0
    shown = capsys.readouterr().out
    for fact in (info.fingerprint, f"tokens:      {NUM_TOKENS}\n", "templated:   yes", info.state_layout):
        assert fact in shown
    assert main(["inspect", str(saved / "nothing")]) == 1
    assert capsys.readouterr().err == f"llmserve: {saved / 'nothing'}: there is no such session file\n"


FULL_DISK = """
import resource, sys
from llmserve import ModelConfig, SessionError, SyncEngine
model, path = sys.argv[1:]
with SyncEngine.load(model, ModelConfig(context_length=512, max_sequences=2, threads=1)) as engine:
    session = engine.session()
    engine.generate(list(range(20, 60)), session=session, max_tokens=200, ignore_eos=True)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, resource.RLIM_INFINITY))
    try:
        session.save(path)
    except SessionError as error:
        print(error.reason, session.num_tokens)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="limits of POSIX")
def test_a_save_that_fails_half_way_leaves_the_old_file_and_nothing_else(
    tiny_model: Path, saved: Path
) -> None:
    before = saved.read_bytes()
    command = [sys.executable, "-c", FULL_DISK, str(tiny_model), str(saved)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=True)
    assert done.stdout == "not_writable 240\n"
    assert saved.read_bytes() == before
    assert [entry.name for entry in saved.parent.iterdir()] == [saved.name]


SAVE_FOR_EVER = """
import sys
from llmserve import ModelConfig, SyncEngine
model, path = sys.argv[1:]
with SyncEngine.load(model, ModelConfig(context_length=512, max_sequences=2, threads=1)) as engine:
    sessions = [engine.session(), engine.session()]
    for session, length in zip(sessions, (100, 400)):
        engine.generate(list(range(20, 60)), session=session, max_tokens=length, ignore_eos=True)
    print("ready", flush=True)
    while True:
        for session in sessions:
            session.save(path)
            print("saved", flush=True)
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="kills")
def test_a_killed_save_leaves_the_old_file_or_the_new_one(tiny_model: Path, saved: Path) -> None:
    folder = saved.parent
    num_cut_off = 0
    command = [sys.executable, "-c", SAVE_FOR_EVER, str(tiny_model), str(saved)]
    for number in range(NUM_KILLS):
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
            assert child.stdout is not None
            # Some are killed right after a save, the others in the midst of the next.
            for _ in range(1 + number % 4):
                assert child.stdout.readline()
            if number % 4:
                while child.poll() is None and not any(folder.glob(".llmserve-*.tmp")):
                    os.sched_yield()
            child.kill()
        left = list(folder.glob(".llmserve-*.tmp"))
        num_cut_off += bool(left)
        for file in left:
            file.unlink()
        assert inspect_session(saved).num_tokens in {NUM_TOKENS, 140, 440}
        assert [entry.name for entry in folder.iterdir()] == [saved.name]
    assert num_cut_off >= NUM_KILLS // 5, "hardly any save was cut off"
