"""Log-probabilities of prompts over HTTP: `echo` with `logprobs`, and vLLM's `prompt_logprobs`."""

from __future__ import annotations

from typing import Any

import pytest

from serving import ServerProcess
from serving.client import post
from serving.openai_requests import CAPITAL, chat, chunks, complete, user

pytestmark = pytest.mark.model

NOISE = 0.3
"""Decoding beside others, and one row by itself, are rounded differently (docs/architecture.md)."""
UMLAUTS = "Grüße aus Köln 🙂, 你好"


def tokens_of(server: ServerProcess, text: str) -> list[int]:
    return list(post(server.port, "/tokenize", {"content": text}).json["tokens"])


def lists_of(choice: Any) -> list[tuple[Any, ...]]:
    lists = choice["logprobs"]
    names = ("tokens", "token_logprobs", "top_logprobs", "text_offset")
    return list(zip(*(lists[name] for name in names), strict=True))


def direct(server: ServerProcess, ids: list[int], place: int) -> tuple[float, dict[str, float]]:
    """What the completion of a prefix reports for the token that follows it."""
    forced = {str(ids[place]): 100}
    (entry,) = lists_of(
        complete(server, prompt=ids[:place], max_tokens=1, logprobs=2, logit_bias=forced).json["choices"][0]
    )
    return entry[1], entry[2]


def test_an_echoed_prompt_has_its_log_probabilities(server: ServerProcess) -> None:
    made = complete(server, echo=True, logprobs=2).json
    (choice,) = made["choices"]
    ids = tokens_of(server, CAPITAL)
    entries = lists_of(choice)
    num_tokens = made["usage"]["prompt_tokens"] + made["usage"]["completion_tokens"]
    assert len(entries) == num_tokens == len(ids) + 5
    assert "".join(entry[0] for entry in entries) == choice["text"]
    assert all(choice["text"].startswith(name, offset) for name, _, _, offset in entries)
    assert entries[0][1:] == (None, None, 0)
    for place in range(1, len(ids)):
        logprob, top = direct(server, ids, place)
        assert entries[place][1] == pytest.approx(logprob, abs=NOISE)
        assert max(entries[place][2].values()) == pytest.approx(max(top.values()), abs=NOISE)
    plain = complete(server, logprobs=2).json["choices"][0]["logprobs"]
    assert choice["logprobs"]["tokens"][len(ids) :] == plain["tokens"]
    assert choice["logprobs"]["text_offset"][len(ids) :] == [
        len(CAPITAL) + offset for offset in plain["text_offset"]
    ]


def test_it_is_the_same_in_pieces(server: ServerProcess) -> None:
    body = {"echo": True, "logprobs": 1, "n": 2, "prompt": [CAPITAL, UMLAUTS]}
    whole = complete(server, **body).json
    parts = chunks(complete(server, **body, stream=True, stream_options={"include_usage": True}).text)
    assert parts[-1]["usage"] == whole["usage"]
    for choice in whole["choices"]:
        own = [part["choices"][0] for part in parts[:-1] if part["choices"][0]["index"] == choice["index"]]
        assert "".join(part["text"] for part in own) == choice["text"]
        streamed = [entry for part in own if part["logprobs"] for entry in lists_of(part)]
        assert [entry[0] for entry in streamed] == choice["logprobs"]["tokens"]
        assert [entry[3] for entry in streamed] == choice["logprobs"]["text_offset"]


@pytest.mark.parametrize("is_stream", [False, True])
def test_a_prompt_without_output(server: ServerProcess, is_stream: bool) -> None:
    ids = [tokens_of(server, CAPITAL), tokens_of(server, UMLAUTS)]
    body = {"prompt": ids, "echo": True, "logprobs": 0, "max_tokens": 0}
    answer = complete(server, **body, stream=is_stream)
    if is_stream:
        shown = [part["choices"][0] for part in chunks(answer.text)]
        choices = [choice for choice in shown if choice["logprobs"] and choice["logprobs"]["tokens"]]
        assert sorted(part["index"] for part in shown if part["finish_reason"] == "length") == [0, 1]
    else:
        choices = answer.json["choices"]
        assert [choice["finish_reason"] for choice in choices] == ["length", "length"]
        usage = answer.json["usage"]
        assert (usage["prompt_tokens"], usage["completion_tokens"]) == (sum(map(len, ids)), 0)
    choices.sort(key=lambda choice: choice["index"])
    assert [choice["text"] for choice in choices] == [CAPITAL, UMLAUTS]
    for choice, prompt in zip(choices, ids, strict=True):
        lists = choice["logprobs"]
        assert len(lists["tokens"]) == len(lists["token_logprobs"]) == len(prompt)
        assert lists["top_logprobs"] is None
        assert lists["token_logprobs"][0] is None
        assert all(logprob <= 0 for logprob in lists["token_logprobs"][1:])
        # A token within a character has the character's offset.
        assert lists["text_offset"] == sorted(lists["text_offset"])
        assert lists["text_offset"][-1] < len(choice["text"])


def test_vllms_shape(server: ServerProcess) -> None:
    (choice,) = complete(server, prompt_logprobs=2).json["choices"]
    ids = tokens_of(server, CAPITAL)
    assert choice["text"] == complete(server).json["choices"][0]["text"]
    first, *others = choice["prompt_logprobs"]
    assert first is None
    echoed = complete(server, echo=True, logprobs=2, max_tokens=0).json["choices"][0]["logprobs"]
    for place, entries in enumerate(others, 1):
        own = entries[str(ids[place])]
        assert own["decoded_token"] == echoed["tokens"][place]
        assert own["logprob"] == pytest.approx(echoed["token_logprobs"][place], abs=1e-4)
        assert sorted({1, 2, own["rank"]}) == sorted(entry["rank"] for entry in entries.values())
    assert complete(server, prompt_logprobs=0, max_tokens=0).json["choices"][0]["text"] == ""


def test_a_conversation(server: ServerProcess) -> None:
    body = {"messages": user("Say hello"), "prompt_logprobs": 1, "n": 2}
    made = chat(server, **body).json
    scores = made["prompt_logprobs"]
    assert len(scores) == made["usage"]["prompt_tokens"]
    assert scores[0] is None
    assert all(1 <= len(entries) <= 2 for entries in scores[1:])
    assert all(min(entry["rank"] for entry in entries.values()) == 1 for entries in scores[1:])
    assert "prompt_logprobs" not in chat(server).json


@pytest.mark.parametrize(
    ("ask", "body", "param"),
    [
        (complete, {"prompt_logprobs": 1, "stream": True}, "prompt_logprobs"),
        (chat, {"prompt_logprobs": 1, "stream": True}, "prompt_logprobs"),
        (complete, {"prompt_logprobs": -1}, "prompt_logprobs"),
        (complete, {"prompt_logprobs": 101}, "prompt_logprobs"),
        (complete, {"prompt": ["word " * 500] * 8, "prompt_logprobs": 100}, "prompt_logprobs"),
        (complete, {"prompt": ["word " * 500] * 8, "echo": True, "logprobs": 100}, "logprobs"),
    ],
    ids=[
        "completion-stream",
        "chat-stream",
        "below-zero",
        "above-the-bound",
        "prompt_logprobs-too-large-in-all",
        "echo-too-large-in-all",
    ],
)
def test_refusals(server: ServerProcess, ask: Any, body: dict[str, Any], param: str) -> None:
    answer = ask(server, **body)
    assert (answer.status, answer.json["error"]["param"]) == (400, param), answer.text
