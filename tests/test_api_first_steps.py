"""What programs are written with first: a chat in one call, and errors that name the right call."""

from __future__ import annotations

import dataclasses
import os
import pickle
import subprocess
import sys
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from llmserve import Embedder, Engine, InvalidParameterError, LoadError, SyncEmbedder, SyncEngine
from llmserve.templates.plain import PLAIN_STOP

MESSAGES: list[dict[str, Any]] = [{"role": "user", "content": "Is it late?"}]


@pytest.fixture(scope="module")
def blocking(tiny_model: Path) -> Iterator[SyncEngine]:
    with SyncEngine.load(tiny_model, context_length=512, max_sequences=2, threads=1) as engine:
        yield engine


def test_chat_is_generate_with_the_rendered_messages(blocking: SyncEngine) -> None:
    expected = blocking.generate(blocking.chat_prompt(MESSAGES), max_tokens=12, ignore_eos=True)
    assert blocking.chat(MESSAGES, max_tokens=12, ignore_eos=True).text == expected.text
    with blocking.chat_stream(MESSAGES, max_tokens=12, ignore_eos=True) as stream:
        assert "".join(delta.text for delta in stream) == expected.text


@pytest.mark.anyio
async def test_chat_can_be_awaited(tiny_model: Path, blocking: SyncEngine) -> None:
    expected = blocking.chat(MESSAGES, max_tokens=12, ignore_eos=True)
    async with Engine.load(tiny_model, context_length=512, max_sequences=2, threads=1) as engine:
        completion = await engine.chat(MESSAGES, max_tokens=12, ignore_eos=True)
        async with await engine.chat_stream(MESSAGES, max_tokens=12, ignore_eos=True) as stream:
            texts = [delta.text async for delta in stream]
    assert completion.text == "".join(texts) == expected.text


def test_variables_and_tools_reach_the_template(blocking: SyncEngine) -> None:
    template = "{{ mood }} {{ tools | length if tools else 0 }} {{ messages[0].content }}"
    prompt = blocking.chat_prompt(MESSAGES, template=template, mood="calm")
    expected = blocking.generate(prompt, max_tokens=8, ignore_eos=True)
    answer = blocking.chat(
        MESSAGES, template=template, variables={"mood": "calm"}, max_tokens=8, ignore_eos=True
    )
    assert answer.tokens == expected.tokens
    assert blocking.chat(MESSAGES, template=template, max_tokens=1).usage != expected.usage


def test_the_stop_strings_of_the_plain_layout_join_those_of_the_request(
    blocking: SyncEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[tuple[str, ...]] = []
    stream = type(blocking).stream

    def spy(engine: SyncEngine, prompt: Any, params: Any, **arguments: Any) -> Any:
        seen.append(tuple(params.stop))
        return stream(engine, prompt, params, **arguments)

    plain = blocking.chat_prompt(MESSAGES)
    monkeypatch.setattr(type(blocking), "stream", spy)
    monkeypatch.setattr(
        type(blocking._chat), "prompt", lambda *_, **__: type(plain)(text="a", marked="a", stop=PLAIN_STOP)
    )
    blocking.chat(MESSAGES, stop=["END"], max_tokens=1)
    assert seen == [("END", *PLAIN_STOP)]


def test_messages_are_not_a_prompt(blocking: SyncEngine) -> None:
    wrong: list[Any] = [MESSAGES, MESSAGES[0]]
    for prompt in wrong:
        with pytest.raises(InvalidParameterError, match=r"got messages: call `chat\(messages\)`") as raised:
            blocking.generate(prompt)
        assert raised.value.field == "prompt"


@pytest.mark.parametrize("kind", [Engine, SyncEngine, Embedder, SyncEmbedder])
def test_a_class_is_not_called_with_a_path(kind: Callable[..., object]) -> None:
    given: tuple[tuple[object, ...], ...] = (("model.gguf",), ("model.gguf", {}), ())
    for arguments in given:
        with pytest.raises(TypeError, match=r"(\w+) is made by \1\.load\(path\), not by \1\(path\)"):
            kind(*arguments)


def test_options_that_are_not_options() -> None:
    load: Callable[..., object] = SyncEngine.load
    with pytest.raises(TypeError, match="must be a ModelConfig, got dict; options are keyword arguments"):
        load("model.gguf", {"context_length": 5})
    with pytest.raises(TypeError, match="`contxt_length` is not a load option; the closest are `context_"):
        load("model.gguf", contxt_length=5)


def test_a_failed_load_names_its_file(tmp_path: Path) -> None:
    path = tmp_path / "missing.gguf"
    with pytest.raises(LoadError) as raised:
        SyncEngine.load(path)
    error = raised.value
    assert error.path == path
    # Servers show the text to clients.
    assert str(path) not in str(error)
    assert f"the model is {path}" in "".join(traceback.format_exception(error))
    assert pickle.loads(pickle.dumps(error)).path == path  # noqa: S301 - our own
    named = error.named("model")
    assert (named.path, str(named)) == (path, f"model: {error}")


def test_a_completion_is_shown_without_its_tokens(blocking: SyncEngine) -> None:
    completion = blocking.generate("a", max_tokens=100, ignore_eos=True)
    text = completion.text[:80] + "…" if len(completion.text) > 80 else completion.text
    tokens = f"{completion.usage.prompt_tokens}+100"
    assert repr(completion) == f"<Completion {text!r}, finish_reason='length', tokens={tokens}>"
    assert len(repr(dataclasses.replace(completion, text="a" * 1000))) < 200


def test_the_application_is_found_by_its_name_without_reading_the_environment() -> None:
    check = (
        "import sys, llmserve; assert not any(name.startswith('llmserve.server') for name in sys.modules)\n"
        "import llmserve.app; print(callable(vars(llmserve.app)['app']))"
    )
    env = {**os.environ, "LLMSERVE_GRACE_S": "wrong"}
    done = subprocess.run([sys.executable, "-c", check], env=env, capture_output=True, text=True, check=True)
    assert done.stdout == "True\n"
