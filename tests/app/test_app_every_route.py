"""What holds for every route that generates text, asked over all of them: the wire makes no difference."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from serving import Answer, RawStream, Server, post, read_metrics, serve_in_process, wait_until

PROMPT = "Once upon a time"


@dataclass(frozen=True)
class Route:
    """A route by its names of what all have."""

    path: str
    max_tokens: str
    text: Callable[[Any], str]
    """The text of a whole answer."""
    delta: Callable[[Any], str]
    """The text of an event."""
    seed: str = "seed"
    prompt: Callable[[str], dict[str, Any]] = lambda prompt: {"prompt": prompt}
    options: str = ""
    """The object that all fields about the text are in, if there is one."""
    mark: str = "data: "
    """What a line of a stream begins with that has a part of the answer."""

    def body(self, prompt: str, num_tokens: int, **fields: Any) -> dict[str, Any]:
        """A request; `seed` is given by that name."""
        if "seed" in fields:
            fields = {**fields, **_nested(self.seed, fields["seed"])}
            if self.seed != "seed":
                del fields["seed"]
        fields = {self.max_tokens: num_tokens, **fields}
        if self.options:
            outside = {"stream": fields.pop("stream", False)}
            fields = {**outside, self.options: fields}
        return {**self.prompt(prompt), **fields}

    def ask(self, server: Server, prompt: str, num_tokens: int, **fields: Any) -> str:
        """The text of a whole answer or a stream."""
        return self.read(self.answer(server, prompt, num_tokens, **fields), bool(fields.get("stream")))

    def answer(self, server: Server, prompt: str, num_tokens: int, **fields: Any) -> Answer:
        answer = post(server.port, self.path, self.body(prompt, num_tokens, **fields))
        assert answer.status == 200, answer.text
        return answer

    def read(self, answer: Answer, is_stream: bool) -> str:
        return self.joined(answer.text.split("\n")) if is_stream else self.text(answer.json)

    def joined(self, lines: list[str]) -> str:
        data = [line.removeprefix(self.mark) for line in lines if line.startswith(self.mark)]
        return "".join(self.delta(json.loads(item)) for item in data if item not in ("", "[DONE]"))


def _nested(name: str, value: Any) -> dict[str, Any]:
    *outer, last = name.split(".")
    fields = {last: value}
    for key in reversed(outer):
        fields = {key: fields}
    return fields


def routes(model: Path) -> dict[str, Route]:
    return {
        "llamacpp": Route(
            "/completions",
            "max_tokens",
            lambda body: str(body["message"]),
            lambda event: str(event["message"]),
            seed="options.random_seed",
            prompt=lambda prompt: {"model": str(model), "prompt": prompt},
        ),
        "completions": Route(
            "/v1/completions",
            "max_tokens",
            lambda body: str(body["choices"][0]["text"]),
            lambda event: str(event["choices"][0]["text"]),
            prompt=lambda prompt: {"model": model.stem, "prompt": prompt},
        ),
        "native": Route(
            "/completion",
            "n_predict",
            lambda body: str(body["content"]),
            lambda event: str(event["content"]),
        ),
        "chat": Route(
            "/v1/chat/completions",
            "max_tokens",
            lambda body: str(body["choices"][0]["message"]["content"]),
            lambda event: str(event["choices"][0]["delta"].get("content") or ""),
            prompt=lambda prompt: {"model": model.stem, "messages": [{"role": "user", "content": prompt}]},
        ),
        "responses": Route(
            "/v1/responses",
            "max_output_tokens",
            lambda body: str(body["output"][0]["content"][0]["text"]),
            lambda event: str(event["delta"]) if event["type"] == "response.output_text.delta" else "",
            prompt=lambda prompt: {"model": model.stem, "input": prompt},
        ),
        "messages": Route(
            "/v1/messages",
            "max_tokens",
            lambda body: "".join(block["text"] for block in body["content"]),
            lambda event: str(event["delta"]["text"]) if event["type"] == "content_block_delta" else "",
            prompt=lambda prompt: {"model": model.stem, "messages": [{"role": "user", "content": prompt}]},
        ),
        "sie": Route(
            f"/v1/generate/{model.stem}",
            "max_new_tokens",
            lambda body: str(body["text"]),
            lambda event: str(event["text_delta"]),
        ),
        "ollama-chat": Route(
            "/api/chat",
            "num_predict",
            lambda body: str(body["message"]["content"]),
            lambda line: str(line["message"]["content"]),
            prompt=lambda prompt: {"model": model.stem, "messages": [{"role": "user", "content": prompt}]},
            options="options",
            mark="",
        ),
        "ollama-generate": Route(
            "/api/generate",
            "num_predict",
            lambda body: str(body["response"]),
            lambda line: str(line["response"]),
            prompt=lambda prompt: {"model": model.stem, "prompt": prompt},
            options="options",
            mark="",
        ),
    }


@pytest.fixture(scope="module")
def server(tiny_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serve_in_process(tmp_path_factory.mktemp("server"), tiny_model) as running:
        yield running


NAMES = (
    "llamacpp",
    "completions",
    "native",
    "chat",
    "responses",
    "messages",
    "sie",
    "ollama-chat",
    "ollama-generate",
)


@pytest.fixture(params=NAMES)
def route(request: pytest.FixtureRequest, tiny_model: Path) -> Route:
    return routes(tiny_model)[request.param]


def test_sampling(server: Server, route: Route) -> None:
    """Default, greedy and seeded, whole and streamed."""
    assert route.ask(server, PROMPT, 8)
    greedy = route.ask(server, PROMPT, 8, temperature=0)
    assert route.ask(server, PROMPT, 8, temperature=0, stream=True) == greedy
    answer = route.answer(server, PROMPT, 8, temperature=1.0, seed=7)
    assert answer.header("x-llmserve-seed") == "7"
    seeded = route.read(answer, False)
    assert route.ask(server, PROMPT, 8, temperature=1.0, seed=7, stream=True) == seeded
    assert any(route.ask(server, PROMPT, 8, temperature=1.0, seed=seed) != seeded for seed in (8, 9, 10))
    drawn = route.answer(server, PROMPT, 8, temperature=1.0)
    seed = int(drawn.header("x-llmserve-seed") or "")
    assert route.ask(server, PROMPT, 8, temperature=1.0, seed=seed) == route.read(drawn, False)


def test_a_reader_that_pauses_loses_nothing_and_slows_nobody(
    server: Server, route: Route, tiny_model: Path
) -> None:
    """It reads on when its whole text has long been generated, and others have been served meanwhile."""
    label = f'{{model="{tiny_model.stem}"}}'

    def num_ended() -> float:
        samples = read_metrics(server.port)
        return sum(samples[f"llmserve_requests_{reason}_total{label}"] for reason in ("stopped", "length"))

    whole = route.ask(server, PROMPT, 200, temperature=0)
    before = num_ended()
    body = route.body(PROMPT, 200, temperature=0, stream=True)
    with RawStream(server.port, route.path, body, receive_buffer=4096) as stream:
        status, _ = stream.read_head()
        assert status == 200
        assert route.ask(server, PROMPT, 2)
        wait_until(lambda: num_ended() == before + 2)
        assert route.joined([line for line in stream.lines() if not line.startswith(":")]) == whole


def test_200_quick_requests_in_a_row(server: Server, tiny_model: Path) -> None:
    every = list(routes(tiny_model).values())
    first = [route.ask(server, PROMPT, 2, temperature=0) for route in every]
    for number in range(200):
        index = number % len(every)
        is_stream = number % 2 == 1
        assert every[index].ask(server, PROMPT, 2, temperature=0, stream=is_stream) == first[index]


def test_16_in_parallel_answer_as_alone(server: Server, tiny_model: Path) -> None:
    every = list(routes(tiny_model).values())

    def ask(number: int) -> str:
        route = every[number % len(every)]
        prompt = f"The number {number} and the letter {chr(65 + number)} are"
        return route.ask(server, prompt, 8, temperature=0, stream=number % 2 == 0)

    alone = [ask(number) for number in range(16)]
    with ThreadPoolExecutor(16) as pool:
        together = list(pool.map(ask, range(16)))
    # Near-ties may flip with the shape of a batch; an answer to another's question would not begin alike.
    same = [one == two for one, two in zip(alone, together, strict=True)]
    assert sum(same) >= 14, list(zip(alone, together, strict=True))
