"""Fields of other servers in the OpenAI dialect: honoured, or refused by name, on a real server process."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from serving import Answer, ServerProcess, post
from serving.openai_requests import CAPITAL, MODEL, chat, chunks, complete

pytestmark = pytest.mark.model


def native(server: ServerProcess, **body: Any) -> Answer:
    return post(server.port, "/completion", {"prompt": CAPITAL, "temperature": 0, "n_predict": 5, **body})


def respond(server: ServerProcess, **body: Any) -> Answer:
    whole = {"model": MODEL, "input": "Say hello", "temperature": 0, "max_output_tokens": 8, **body}
    return post(server.port, "/v1/responses", whole)


def text_of(answer: Answer) -> str:
    assert answer.status == 200, answer.text
    return str(answer.json["choices"][0]["text"])


def text_in(answer: Answer) -> object:
    """The part of an answer that the tokens decide."""
    assert answer.status == 200, answer.text
    made = answer.json
    if "output" in made:
        return made["output"][0]["content"]
    return made.get("content") or [choice.get("text") or choice["message"] for choice in made["choices"]]


def tokens_of(server: ServerProcess, text: str) -> list[int]:
    return list(post(server.port, "/tokenize", {"content": text}).json["tokens"])


def test_tokens_that_end_a_text(server: ServerProcess) -> None:
    (paris,) = tokens_of(server, " Paris")
    made = complete(server, stop_token_ids=[paris]).json["choices"][0]
    assert (made["text"], made["finish_reason"]) == ("", "stop")
    assert native(server, stop_token_ids=[paris]).json["content"] == ""
    answer = complete(server, stop_token_ids=[paris], guided_json={"type": "integer"}, max_tokens=20)
    assert answer.header("x-llmserve-ignored") == "stop_token_ids"


def test_tokens_that_alone_may_be_drawn(server: ServerProcess) -> None:
    allowed = [*tokens_of(server, " Rome"), *tokens_of(server, " Oslo")]
    for drawn in ({"temperature": 0}, {"temperature": 2, "seed": 5}):
        body = {"allowed_token_ids": allowed, "max_tokens": 6, **drawn}
        (choice,) = complete(server, **body, logprobs=1).json["choices"]
        assert set(tokens_of(server, choice["text"])) <= set(allowed)
        assert choice["finish_reason"] == "length"
    body = {"allowed_token_ids": allowed, "stop_token_ids": allowed}
    assert complete(server, **body).json["choices"][0]["text"] == ""


@pytest.mark.parametrize(
    "body",
    [
        {"bad_words": ["Paris"]},
        {"bad_words": [" Paris"]},
        {"bad_words": ["Paris", "antidisestablishmentarianism"]},
        {"logit_bias": {" Paris": -100}},
        {"logit_bias": [[" Paris", False]]},
    ],
    ids=str,
)
def test_banned_words(server: ServerProcess, body: dict[str, Any]) -> None:
    assert text_of(complete(server)).startswith(" Paris")
    assert not text_of(complete(server, **body)).startswith(" Paris")
    assert not native(server, **body).json["content"].startswith(" Paris")


def test_biases_of_texts_go_to_each_of_their_tokens(server: ServerProcess) -> None:
    ids = tokens_of(server, "Paris Rome")
    by_text = complete(server, logit_bias={"Paris Rome": 100}, max_tokens=3)
    assert text_of(by_text) == text_of(
        complete(server, logit_bias=dict.fromkeys(map(str, ids), 100), max_tokens=3)
    )
    hello = chat(server).json["choices"][0]["message"]["content"]
    assert chat(server, bad_words=[hello.split()[0]]).json["choices"][0]["message"]["content"] != hello


def test_words_of_several_tokens_are_banned(server: ServerProcess) -> None:
    assert len(tokens_of(server, " Paris.")) == 2
    assert text_of(complete(server)).startswith(" Paris.")
    for body in ({"bad_words": ["Paris."]}, {"bad_words": [" Paris.", "Rome"]}):
        for text in (text_of(complete(server, **body)), native(server, **body).json["content"]):
            # The last token of the word is another one, and the others stay.
            assert text.startswith(" Paris")
            assert not text.startswith(" Paris.")
    hello = chat(server).json["choices"][0]["message"]["content"]
    for ask in (chat, respond):
        answer = ask(server, bad_words=[hello])
        assert answer.status == 200
        assert hello not in json.dumps(answer.json, ensure_ascii=False)


def test_more_tokens_than_can_be_banned(server: ServerProcess) -> None:
    for ask in (complete, chat, native, respond):
        answer = ask(server, bad_words=["a b " * 20_000])
        assert (answer.status, answer.json["error"]["param"]) == (400, "bad_words")


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({"bad_words": [" "]}, "bad_words[0]"),
        ({"bad_words": ["a"] * 4097}, "bad_words"),
        ({"logit_bias": {f"word {number}": 1 for number in range(4097)}}, "logit_bias"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_wrong_words(server: ServerProcess, body: dict[str, Any], param: str) -> None:
    for ask in (complete, chat):
        answer = ask(server, **body)
        assert (answer.status, answer.json["error"]["param"]) == (400, param)


def test_truncated_prompts(server: ServerProcess) -> None:
    ids = tokens_of(server, "One two three. " + CAPITAL)
    num_tokens = len(tokens_of(server, CAPITAL))
    made = complete(server, prompt=ids, truncate_prompt_tokens=num_tokens, echo=True).json
    assert made["choices"][0]["text"].lstrip() == CAPITAL + text_of(
        complete(server, prompt=ids[-num_tokens:])
    )
    assert made["usage"]["prompt_tokens"] == num_tokens
    assert text_of(complete(server, truncate_prompt_tokens=100)) == text_of(complete(server))
    refused = complete(server, truncate_prompt_tokens=-1)
    assert (refused.status, refused.json["error"]["param"]) == (400, "truncate_prompt_tokens")


def test_a_stop_string_in_the_output(server: ServerProcess) -> None:
    body = {"max_tokens": 20, "logprobs": 0, "stop": [" is"]}
    whole = complete(server, prompt="One two three. The sea", **body).json["choices"][0]
    assert (" is" in whole["text"], whole["finish_reason"]) == (False, "stop")
    shown = complete(server, prompt="One two three. The sea", include_stop_str_in_output=True, **body)
    made = shown.json["choices"][0]
    assert made["text"] == whole["text"] + " is"
    assert "".join(made["logprobs"]["tokens"]) == made["text"]
    body = {**body, "include_stop_str_in_output": True, "stream": True}
    parts = [
        part["choices"][0] for part in chunks(complete(server, prompt="One two three. The sea", **body).text)
    ]
    assert "".join(part["text"] for part in parts) == made["text"]


LOOP = " one two three four five six seven eight" * 10


def test_the_window_of_penalties(server: ServerProcess) -> None:
    for ask in (complete, chat, native, respond):
        plain, off = ask(server), ask(server, repeat_penalty=2.0, repeat_last_n=0)
        assert text_in(off) == text_in(plain) == text_in(ask(server, repeat_last_n=64))
        penalized = ask(server, repeat_penalty=2.0, repeat_last_n=-1)
        assert text_in(penalized) == text_in(ask(server, repeat_penalty=2.0, repeat_last_n=2000))
        assert text_in(penalized) != text_in(plain)


def test_the_window_of_llama_server_is_64_tokens(server: ServerProcess) -> None:
    def continues(ask: Any, **body: Any) -> bool:
        answer = ask(server, prompt=LOOP, frequency_penalty=2, **body)
        made = text_of(answer) if ask is complete else answer.json["content"]
        return bool(made.startswith(" one"))

    assert not continues(native)
    assert not continues(native, repeat_last_n=64)
    # The next word of the loop is not among the last four.
    assert continues(native, repeat_last_n=4)
    # OpenAI's penalties look at the output only.
    assert continues(complete)
    assert not continues(complete, repeat_last_n=64)


def test_other_names_of_the_limit(server: ServerProcess) -> None:
    assert (
        post(server.port, "/v1/completions", {"model": MODEL, "prompt": CAPITAL, "n_predict": 2}).json[
            "usage"
        ]["completion_tokens"]
        == 2
    )
    body = {"model": MODEL, "messages": [{"role": "user", "content": "Count"}], "n_predict": 2}
    answer = post(server.port, "/v1/chat/completions", body)
    assert answer.json["usage"]["completion_tokens"] == 2
    answer = post(server.port, "/completion", {"prompt": CAPITAL, "max_tokens": 2})
    assert answer.json["tokens_predicted"] == 2


@pytest.mark.parametrize("ask", [complete, chat, native, respond])
@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"mirostat": 3}, "mirostat must be at most 2, got 3"),
        ({"typical_p": 1.5}, "typical_p must be at most 1, got 1.5"),
        ({"top_n_sigma": -2}, "top_n_sigma must be at least -1, got -2"),
        ({"xtc_probability": -0.5}, "xtc_probability must be at least 0, got -0.5"),
        ({"dry_base": 0.5}, "dry_base must be at least 1, got 0.5"),
        ({"dry_allowed_length": 0}, "dry_allowed_length must be at least 1, got 0"),
        ({"dry_sequence_breakers": "x"}, "dry_sequence_breakers must be an array of strings, got a string"),
        ({"repeat_last_n": -2}, "repeat_last_n must be at least -1, got -2"),
        ({"adaptive_target": 2}, "adaptive_target must be at most 1, got 2"),
        ({"penalty_last_n": 5}, "penalty_last_n must be -1, got the number 5: use repeat_last_n"),
        ({"allowed_token_ids": []}, "allowed_token_ids"),
        ({"allowed_token_ids": [2**31 - 1]}, "allowed_token_ids"),
        ({"allowed_token_ids": [1], "regex": "a"}, "allowed_token_ids"),
        ({"use_beam_search": True}, "use_beam_search must be false"),
        ({"max_new_tokens": 5}, "max_new_tokens is not supported"),
    ],
    ids=str,
)
def test_what_would_change_the_answer_is_refused(
    server: ServerProcess, ask: Any, body: dict[str, Any], words: str
) -> None:
    answer = ask(server, **body)
    assert answer.status == 400, answer.text
    assert answer.json["error"]["param"] == next(iter(body))
    assert answer.json["error"]["message"].startswith(words)


@pytest.mark.parametrize("ask", [complete, chat, native, respond])
def test_unknown_samplers_are_named(server: ServerProcess, ask: Any) -> None:
    for samplers, place in ((["top_k", "tfs_z"], 1), ("ktz", 2), ([7], 0)):
        answer = ask(server, samplers=samplers)
        assert (answer.status, answer.json["error"]["param"]) == (400, f"samplers[{place}]")
    assert "got 'tfs_z'" in ask(server, samplers=["tfs_z"]).json["error"]["message"]


@pytest.mark.parametrize("ask", [complete, chat, native, respond])
def test_samplers_change_the_answer(server: ServerProcess, ask: Any) -> None:
    body = {"temperature": 1.5, "seed": 7}
    drawn = text_in(ask(server, **body))
    greedy = text_in(ask(server, temperature=0))
    assert text_in(ask(server, **body, samplers=["top_k", "temperature"], top_k=1)) == greedy
    assert text_in(ask(server, **body, samplers="kta", top_k=2, adaptive_target=0)) != greedy
    assert text_in(ask(server, **body, samplers="kt", top_k=1)) == greedy
    assert text_in(ask(server, **body, samplers=["top-k", "temp"], top_k=1)) == greedy
    # Without the temperature, 0 is not greedy.
    assert text_in(ask(server, temperature=0, seed=7, samplers=[])) != greedy
    for change in (
        {"top_n_sigma": 0.01},
        {"typical_p": 0.01},
        {"xtc_probability": 1, "xtc_threshold": 0.001},
        {"mirostat": 2, "mirostat_tau": 0.1},
        {"mirostat": 1, "mirostat_tau": 0.1},
        {"dynatemp_range": 1.5},
    ):
        changed = text_in(ask(server, **body, **change))
        assert changed != drawn, change
        assert text_in(ask(server, **body, **change)) == changed, change


def test_dry_ends_a_loop(server: ServerProcess) -> None:
    def made(**body: Any) -> str:
        return str(native(server, prompt=LOOP, **body).json["content"])

    assert made() == " one two three four five"
    assert not made(dry_multiplier=9).startswith(" one")
    breakers = [" two", " four", " six", " eight"]
    assert made(dry_multiplier=9, dry_sequence_breakers=breakers) == made()


NEUTRAL: dict[str, object] = {
    "mirostat": 0,
    "mirostat_tau": 5,
    "typical_p": 1.0,
    "xtc_probability": 0,
    "xtc_threshold": 0.1,
    "dry_multiplier": 0,
    "dry_base": 1.75,
    "dynatemp_range": 0,
    "top_n_sigma": -1,
    "repeat_last_n": -1,
    "allowed_token_ids": None,
    "include_stop_str_in_output": False,
    "prompt_logprobs": None,
    "use_beam_search": False,
    "structured_outputs": {},
}


@pytest.mark.parametrize("ask", [complete, chat, native, respond])
def test_neutral_values_pass(server: ServerProcess, ask: Any) -> None:
    answer = ask(server, **NEUTRAL)
    assert answer.status == 200, answer.text
    assert answer.header("x-llmserve-ignored") is None


@pytest.mark.parametrize(
    ("ask", "body"),
    [
        (respond, {"max_tokens": 5}),
        (respond, {"response_format": {"type": "json_object"}}),
        (respond, {"reasoning_effort": "low"}),
        (respond, {"n": 2}),
        (chat, {"max_output_tokens": 5}),
        (chat, {"chat_template": "{{ messages }}"}),
        (respond, {"reasoning_format": "deepseek-legacy"}),
        (native, {"reasoning_format": "none"}),
        (chat, {"reasoning_format": "both"}),
        (respond, {"chat_template": "{{ messages }}"}),
        (respond, {"documents": [{"text": "a"}]}),
        (chat, {"echo": True}),
        (native, {"n": 2}),
        (native, {"logprobs": 2}),
        (complete, {"messages": [{"role": "user", "content": "a"}]}),
        (complete, {"max_completion_tokens": 5}),
        (native, {"prompt_logprobs": 1}),
        (respond, {"prompt_logprobs": 1}),
    ],
)
def test_fields_of_other_routes(server: ServerProcess, ask: Any, body: dict[str, Any]) -> None:
    answer = ask(server, **body)
    assert (answer.status, answer.json["error"]["param"]) == (400, next(iter(body)))


def test_documents_that_the_template_does_not_read_are_refused(server: ServerProcess) -> None:
    for documents, param in (([{"text": "a"}], "documents"), (["text"], "documents[0]")):
        refused = chat(server, documents=documents)
        assert (refused.status, refused.json["error"]["param"]) == (400, param)
    assert chat(server, documents=[]).status == 200


LIMITS = ("n_predict", "max_completion_tokens", "max_tokens")
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}


@pytest.mark.parametrize("name", LIMITS)
def test_limits_are_named_as_the_client_has_them(server: ServerProcess, name: str) -> None:
    body = {"model": MODEL, "messages": [{"role": "user", "content": "a"}], name: 2}
    for more in (
        {"min_tokens": 9},
        {"response_format": {"type": "json_schema", "json_schema": {"schema": SCHEMA}}},
    ):
        error = post(server.port, "/v1/chat/completions", {**body, **more}).json["error"]
        assert name in error["message"]
        assert not (set(LIMITS) - {name}) & set(re.findall("[a-z_]+", error["message"]))
