"""What `llmserve.ray` does without Ray: the plan of a deployment, and calls that pass through plain data."""

from __future__ import annotations

import asyncio
import pickle
from pathlib import Path
from typing import Any

import pytest
from starlette.types import Message, Receive, Scope, Send

from llmserve.ray.calls import Call, ClientLeftError, Head, read_call
from llmserve.ray.exchange import Exchange
from llmserve.ray.plan import Plan, plan_of
from llmserve.routing import RoutingKey
from llmserve.server.settings import SettingsError

SCOPE: dict[str, Any] = {
    "type": "http",
    "method": "POST",
    "path": "/v1/completions",
    "headers": [(b"x-llmserve-session", b"Ada")],
    "extensions": {"not": object},
}


def plan(folder: Path = Path("/models"), **args: Any) -> Plan:
    return plan_of({}, args, folder)


def test_arguments_are_settings_and_counts(tmp_path: Path) -> None:
    made = plan(
        tmp_path, **{"model": "m.gguf", "context-length": "4k", "replicas": 3, "cpus": "2", "gpus": 0.5}
    )
    assert made.settings.model == tmp_path / "m.gguf"
    assert made.settings.model_config.context_length == 4096
    assert made.settings.model_config.threads == 2
    assert (made.min_replicas, made.max_replicas, made.cpus, made.gpus) == (3, 3, 2, 0.5)


def test_the_environment_and_a_file_of_settings_count_too(tmp_path: Path) -> None:
    (tmp_path / "models.toml").write_text('model = "m.gguf"\nmax_sequences = 6\n')
    made = plan_of({"LLMSERVE_THREADS": "3"}, {"config": "models.toml"}, tmp_path)
    assert made.settings.model == tmp_path / "m.gguf"
    assert (made.slots, made.cpus) == (6, 3)


@pytest.mark.parametrize(
    ("args", "slots", "ongoing"),
    [
        ({"max_sequences": 8, "max_queued_requests": 10}, 8, 18),
        ({"threads": 2}, 8, 136),
        ({"threads": 1, "gpus": 1}, 16, 144),
    ],
)
def test_a_replica_takes_what_it_computes_and_what_it_queues(
    args: dict[str, Any], slots: int, ongoing: int
) -> None:
    made = plan(**args)
    assert (made.slots, made.max_ongoing_requests) == (slots, ongoing)


def test_the_models_of_a_catalogue_count_together(tmp_path: Path) -> None:
    entries = [f'[[models]]\nid = "m{n}"\npath = "m{n}.gguf"\nmax_sequences = {n}\n' for n in (2, 5)]
    (tmp_path / "models.toml").write_text("".join(entries))
    made = plan(tmp_path, catalogue="models.toml", max_queued_requests="10")
    assert (made.slots, made.max_ongoing_requests) == (5, 27)


@pytest.mark.parametrize(
    ("args", "expected"), [({}, (1, 1)), ({"max_replicas": 4}, (1, 4)), ({"min_replicas": 3}, (3, 3))]
)
def test_bounds_of_the_replicas(args: dict[str, Any], expected: tuple[int, int]) -> None:
    made = plan(**args)
    assert (made.min_replicas, made.max_replicas) == expected


@pytest.mark.parametrize(
    ("args", "words"),
    [
        ({"replcas": 2}, "did you mean replicas?"),
        ({"contextlength": 2}, "did you mean context_length?"),
        ({"replicas": "two"}, "replicas must be a whole number"),
        ({"replicas": 2, "max_replicas": 3}, "choose one"),
        ({"min_replicas": 3, "max_replicas": 2}, "min_replicas must be at most"),
    ],
)
def test_a_wrong_argument_is_refused(args: dict[str, Any], words: str) -> None:
    with pytest.raises(SettingsError, match=words):
        plan(**args)


def test_settings_reach_replicas_by_pickle() -> None:
    made = plan(api_key="secret", default_sampling='{"temperature": 0.5}')
    again = pickle.loads(pickle.dumps(made.settings))  # noqa: S301
    assert b"secret" not in pickle.dumps(made.settings)
    assert again.api_key.authorize("secret")
    assert (again.default_sampling, again.model_config) == (
        made.settings.default_sampling,
        made.settings.model_config,
    )


def receiving(*messages: Message) -> Receive:
    left = list(messages)

    async def receive() -> Message:
        return left.pop(0)

    return receive


def part(body: bytes, *, more: bool = False) -> Message:
    return {"type": "http.request", "body": body, "more_body": more}


def test_a_request_is_read_whole_into_plain_data() -> None:
    call = asyncio.run(read_call(SCOPE, receiving(part(b'{"pro', more=True), part(b'mpt":1}')), 100))
    assert call.body == b'{"prompt":1}'
    assert call.key.session == "Ada"
    assert pickle.loads(pickle.dumps(call)) == call  # noqa: S301


def test_a_body_over_the_limit_is_cut_behind_it() -> None:
    call = asyncio.run(
        read_call(SCOPE, receiving(part(b"x" * 50, more=True), part(b"y" * 80, more=True)), 100)
    )
    assert len(call.body) == 101


def test_a_client_that_leaves_while_it_sends() -> None:
    with pytest.raises(ClientLeftError):
        asyncio.run(read_call(SCOPE, receiving(part(b"x", more=True), {"type": "http.disconnect"}), 100))


CALL = Call({"type": "http"}, b"body", RoutingKey())


async def answer_of(app: Any) -> list[Head | bytes]:
    return [item async for item in Exchange(app, CALL).answer()]


async def start(send: Send) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": [(b"a", b"b")]})


def test_an_answer_is_its_head_and_its_bytes() -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        assert await receive() == part(b"body")
        await start(send)
        await send({"type": "http.response.body", "body": b"one", "more_body": True})
        await asyncio.sleep(0.01)
        for text in (b"two", b"three"):
            await send({"type": "http.response.body", "body": text, "more_body": True})
        await send({"type": "http.response.body"})

    answer = asyncio.run(answer_of(app))
    assert answer == [Head(200, ((b"a", b"b"),)), b"one", b"twothree"]


def test_what_the_application_raises_ends_the_answer() -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await start(send)
        raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        asyncio.run(answer_of(app))


def test_a_closed_answer_is_a_client_that_left() -> None:
    seen: list[str] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await receive()
        await start(send)
        seen.append((await receive())["type"])

    async def leave() -> None:
        answer = Exchange(app, CALL).answer()
        await anext(answer)
        assert seen == []
        await answer.aclose()

    asyncio.run(leave())
    assert seen == ["http.disconnect"]
