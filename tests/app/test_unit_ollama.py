"""What Ollama's names, durations and messages mean here, without a server."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncGenerator
from typing import Any

import pytest

from llmserve.server.apis.ollama.answers import chat_part
from llmserve.server.apis.ollama.convert import (
    chat_conversation,
    sampling_params,
    thinking_variables,
)
from llmserve.server.apis.ollama.names import listed, match
from llmserve.server.apis.ollama.parts import Parts
from llmserve.server.apis.ollama.schema import OllamaChatRequest, OllamaGenerateRequest
from llmserve.server.apis.ollama.sources import source_of
from llmserve.server.apis.ollama.thinking import thinks
from llmserve.server.conversation import CallArguments, CallBegin, Piece, Reasoning, Tag, TurnEnd, Words
from llmserve.server.fields.sampling import with_defaults
from llmserve.server.refusals import FieldError, ModelsFolderError
from llmserve.server.web.schema import read
from llmserve.types import Timings, Usage
from serving.scripted import scripted

IDS = (
    "SmolLM2-135M-Instruct.Q4_1",
    "bartowski/Llama-3.2-1B-Instruct-Q4_K_M",
    "bartowski/Llama-3.2-1B-Instruct-Q8_0",
    "unsloth/Qwen3-0.6B-UD-IQ1_S",
    "mine:3b",
    "plain",
)
USER = {"role": "user", "content": "Hi"}


def chat(**fields: Any) -> OllamaChatRequest:
    return read(OllamaChatRequest, {"model": "m", **fields}).value


def generate(**fields: Any) -> OllamaGenerateRequest:
    return read(OllamaGenerateRequest, {"model": "m", **fields}).value


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("plain", "plain"),
        ("PLAIN:latest", "plain"),
        ("plain:8b", None),
        ("mine:3b", None),  # the catalogue finds whole ids
        ("smollm2-135m-instruct", IDS[0]),
        ("SmolLM2-135M-Instruct:Q4_1", IDS[0]),
        ("smollm2-135m-instruct:q4_k_m", None),
        ("hf.co/bartowski/Llama-3.2-1B-Instruct-GGUF:Q8_0", IDS[2]),
        ("huggingface.co/bartowski/Llama-3.2-1B-Instruct-GGUF:q4_k_m", IDS[1]),
        ("llama-3.2-1b-instruct:q8_0", IDS[2]),
        # Which of the two is not said.
        ("hf.co/bartowski/Llama-3.2-1B-Instruct-GGUF", None),
        ("hf.co/other/Llama-3.2-1B-Instruct-GGUF:Q8_0", None),
        ("hf:unsloth/Qwen3-0.6B-GGUF:UD-IQ1_S", IDS[3]),
        ("llama3.2", None),
        ("", None),
    ],
)
def test_a_name_means_one_model_or_none(name: str, expected: str | None) -> None:
    assert match(name, IDS) == expected


def test_names_are_listed_with_a_tag() -> None:
    assert [listed(model_id) for model_id in ("mine:3b", "Org/Name")] == ["mine:3b", "Org/Name:latest"]


@pytest.mark.parametrize(
    ("given", "seconds"),
    [
        (0, 0),
        (-1, math.inf),
        (1.5, 1.5),
        ("5m", 300),
        ("1h30m", 5400),
        ("300ms", 0.3),
        ("-1m", math.inf),
        ("-1", math.inf),
        ("30", 30),
    ],
)
def test_keep_alive(given: Any, seconds: float) -> None:
    assert chat(keep_alive=given).keep_alive == seconds


@pytest.mark.parametrize("given", ["", "5 m", "m", "1d", True, [], "1m1"])
def test_a_wrong_keep_alive(given: Any) -> None:
    if given == "1m1":  # a number without a unit is one of seconds
        assert chat(keep_alive=given).keep_alive == 61
        return
    with pytest.raises(FieldError, match="keep_alive"):
        chat(keep_alive=given)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"format": "xml"}, 'format must be "json" or a JSON Schema'),
        ({"think": "much"}, "think must be a boolean, low, medium, high or max, got 'much'"),
        ({"messages": [{**USER, "images": ["aGk="]}]}, r"messages\[0\].images is not supported"),
        ({"messages": [{"role": "user", "content": []}]}, r"messages\[0\].content must be a string"),
        ({"images": ["aGk="]}, "images is not supported: llmserve reads text only"),
        ({"temperature": 0.5}, "temperature is not supported: put it into options"),
        ({"options": {"temp": 1}}, "options.temp is not supported: use temperature"),
        ({"options": {"tfs_z": 0.5}}, "options.tfs_z must be 1"),
        ({"options": {"format": "json"}}, "options.format is not supported: it belongs beside options"),
        ({"response_format": {"type": "json_object"}}, "response_format must be .*: use format"),
    ],
)
def test_what_is_refused(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(FieldError, match=message):
        chat(**fields)


def test_what_changes_nothing_is_reported() -> None:
    parsed = read(OllamaChatRequest, {"model": "m", "options": {"num_ctx": 8192, "penalize_newline": False}})
    assert parsed.unknown == ("options.num_ctx", "options.penalize_newline")


def test_options_become_the_engines_parameters() -> None:
    default = sampling_params(chat())
    assert (default.temperature, default.top_k, default.repetition_penalty) == (0.8, 40, 1.1)
    assert (default.repeat_last_n, default.max_tokens) == (64, None)
    given = {"temperature": 0, "top_k": -1, "num_predict": 5, "seed": 7, "stop": "x", "repeat_last_n": 0}
    params = sampling_params(chat(options=given, format="json", logprobs=True, top_logprobs=2))
    assert (params.temperature, params.top_k, params.max_tokens, params.seed) == (0, 0, 5, 7)
    assert (params.stop, params.repeat_last_n, params.logprobs) == (("x",), 0, 2)
    assert params.json_schema == '{"type":"object"}'
    assert sampling_params(chat(options={"num_predict": -1})).max_tokens is None
    with pytest.raises(FieldError, match="top_logprobs needs logprobs"):
        sampling_params(chat(top_logprobs=2))


def test_the_models_settings_hold_where_the_request_says_nothing() -> None:
    request = chat(options={"top_k": 3})
    defaults = {"temperature": 0.1, "top_k": 9}
    params = with_defaults(sampling_params(request), defaults, request.options.sampling)
    assert (params.temperature, params.top_k) == (0.1, 3)


def test_calls_and_results_get_the_ids_that_templates_want() -> None:
    calls = [
        {"function": {"name": name, "arguments": {"n": index}}} for index, name in enumerate(("a", "b", "a"))
    ]
    results = [
        {"role": "tool", "content": content, "tool_name": name}
        for content, name in (("1", "b"), ("2", "a"), ("3", "a"))
    ]
    unnamed = [{"role": "assistant", "tool_calls": calls[:1]}, {"role": "tool", "content": "4"}]
    request = chat(messages=[USER, {"role": "assistant", "tool_calls": calls}, *results, *unnamed])
    messages = chat_conversation(request).messages
    ids = [call["id"] for call in messages[1]["tool_calls"]]
    assert len(set(ids)) == 3
    assert all(len(id_) == 9 and id_.isalnum() for id_ in ids)
    assert messages[1]["tool_calls"][1]["function"] == {"name": "b", "arguments": '{"n":1}'}
    assert [message["tool_call_id"] for message in messages[2:5]] == [ids[1], ids[0], ids[2]]
    assert messages[6] == {
        "role": "tool",
        "content": "4",
        "name": "a",
        "tool_call_id": messages[5]["tool_calls"][0]["id"],
    }


@pytest.mark.parametrize("calls", ["a", [{}], [{"function": {"name": "a", "arguments": "{}"}}]])
def test_wrong_calls(calls: Any) -> None:
    with pytest.raises(FieldError, match=r"messages\[0\].tool_calls"):
        chat_conversation(chat(messages=[{"role": "assistant", "tool_calls": calls}]))


def test_a_last_message_of_the_assistant_is_continued() -> None:
    begun = {"role": "assistant", "content": "The"}
    assert chat_conversation(chat(messages=[USER, begun])).variables["continue_final_message"] is True
    assert "continue_final_message" not in chat_conversation(chat(messages=[begun, USER])).variables


def test_thinking() -> None:
    assert thinking_variables(None) == {}
    assert thinking_variables("high") == {
        "enable_thinking": True,
        "thinking": True,
        "reasoning_effort": "high",
    }
    assert thinking_variables(False)["enable_thinking"] is False
    off, free = (chat_conversation(chat(messages=[USER], think=think)) for think in (False, None))
    assert (off.reasoning_limit.max_tokens, free.reasoning_limit.max_tokens) == (0, None)
    assert thinks("{% if enable_thinking %}a{% endif %}")
    assert thinks("<think>{{ messages }}")
    assert not thinks("{{ messages }}")


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("hf.co/org/Repo-GGUF", "hf:org/Repo-GGUF"),
        ("hf.co/org/Repo-GGUF:latest", "hf:org/Repo-GGUF"),
        ("https://huggingface.co/org/Repo-GGUF:Q4_K_M", "hf:org/Repo-GGUF:Q4_K_M"),
        ("hf:org/Repo-GGUF:File-a.gguf", "hf:org/Repo-GGUF:File-a.gguf"),
        ("https://example.org/a.gguf", "https://example.org/a.gguf"),
        (
            "https://huggingface.co/org/Repo/resolve/main/a.gguf",
            "https://huggingface.co/org/Repo/resolve/main/a.gguf",
        ),
    ],
)
def test_where_a_name_is_downloaded_from(name: str, expected: str) -> None:
    assert source_of(name, may_be_url=True) == expected


def test_names_that_are_not_downloaded() -> None:
    with pytest.raises(
        FieldError, match=r"such as hf\.co/ORG/REPO:Q4_K_M; 'llama3\.2' is a name of Ollama's"
    ):
        source_of("llama3.2", may_be_url=True)
    with pytest.raises(FieldError, match=r"such as hf\.co/org/Repo:Q4_K_M"):
        source_of("org/Repo", may_be_url=True)
    for name in ("hf.co/a/b/../c", "file:///etc/passwd", "../x"):
        with pytest.raises(FieldError, match=r"must name a repository of Hugging Face.* got"):
            source_of(name, may_be_url=True)
    with pytest.raises(ModelsFolderError, match="the server's own machine only"):
        source_of("http://10.0.0.1/a.gguf", may_be_url=False)


class Given:
    """An output of given pieces."""

    def __init__(self, *pieces: Piece) -> None:
        self._pieces = pieces
        self.end = TurnEnd(
            finish_reason="stop",
            is_complete=True,
            num_calls=0,
            usage=Usage(),
            timings=Timings(),
            reasoning_tokens=0,
            stop=None,
        )

    async def pieces(self) -> AsyncGenerator[Piece, None]:
        for piece in self._pieces:
            yield piece

    async def extra(self) -> dict[str, Any]:
        return {}


def shown(*pieces: Piece) -> list[dict[str, Any]]:
    async def main() -> list[dict[str, Any]]:
        parts = Parts(scripted(), Given(*pieces), has_logprobs=False)
        return [chat_part(part)["message"] async for part in parts.read()]

    return asyncio.run(main())


def test_reasoning_and_words_are_apart() -> None:
    assert shown(Tag("<think>"), Reasoning("why"), Tag("</think>"), Words("so", ()), Words("", ())) == [
        {"role": "assistant", "content": "", "thinking": "why"},
        {"role": "assistant", "content": "so"},
    ]


def test_calls_are_shown_once_they_are_whole() -> None:
    pieces = (
        Words("Hm", ()),
        CallBegin(0, "id0", "a"),
        CallArguments(0, '{"n":'),
        CallArguments(0, "1}"),
        CallBegin(1, "id1", "b"),
        CallArguments(1, "{}"),
        CallBegin(2, "id2", "cut"),
    )
    assert shown(*pieces) == [
        {"role": "assistant", "content": "Hm"},
        *(
            {
                "role": "assistant",
                "content": "",
                "tool_calls": [
                    {"id": f"id{index}", "function": {"index": index, "name": name, "arguments": arguments}}
                ],
            }
            for index, name, arguments in ((0, "a", {"n": 1}), (1, "b", {}))
        ),
    ]
