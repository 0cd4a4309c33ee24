"""Which replica gets a request, by rules alone."""

from __future__ import annotations

import ast
import json
from pathlib import Path
from typing import Any

import pytest

from llmserve import routing
from llmserve.routing import BLOCK_BYTES, Affinity, Choice, RoutingKey, blocks_of, key_of
from llmserve.routing.affinity import REQUEST_BLOCKS, SLACK
from llmserve.routing.keys import SESSION_HEADER
from llmserve.server.web.session_names import SESSION

SLOTS = 8
IDLE: dict[str, int] = {}


def text(number: int, length: int = 10) -> bytes:
    """A text of so many blocks that shares nothing with that of another number."""
    return b"".join(
        f"{number:{BLOCK_BYTES // 2}}{place:{BLOCK_BYTES // 2}}".encode() for place in range(length)
    )


def prompt(*parts: bytes) -> RoutingKey:
    return RoutingKey(blocks=blocks_of(b"".join(parts)))


def affinity(*replicas: str, max_blocks: int = 1000, max_sessions: int = 1000) -> Affinity[str]:
    made: Affinity[str] = Affinity(SLOTS, max_blocks, max_sessions)
    made.update(replicas)
    return made


def key(body: Any, path: str = "/v1/chat/completions", **headers: str) -> RoutingKey:
    return key_of(path, headers, json.dumps(body).encode())


def chat(*contents: str) -> dict[str, Any]:
    return {"model": "m", "messages": [{"role": "user", "content": content} for content in contents]}


def test_a_block_stands_for_all_before_it() -> None:
    one, other = blocks_of(text(1, 4)), blocks_of(text(2, 1) + text(1, 4)[BLOCK_BYTES:])
    assert len(one) == len(other) == 4
    assert not set(one) & set(other)
    assert blocks_of(text(1, 4) + b"x") == one
    assert blocks_of(b"x" * (BLOCK_BYTES - 1)) == ()


def test_a_turn_begins_with_the_turns_before_it() -> None:
    first, second = key(chat("a" * 200)), key(chat("a" * 200, "b" * 200))
    assert first.blocks
    assert second.blocks[: len(first.blocks)] == first.blocks
    assert len(second.blocks) > len(first.blocks)


@pytest.mark.parametrize(
    "other",
    [
        {**chat("a" * 200), "model": "n"},
        {**chat("a" * 200), "system": "s"},
        {**chat("a" * 200), "tools": [{"name": "t"}]},
    ],
)
def test_what_comes_before_the_messages_counts(other: dict[str, Any]) -> None:
    assert not set(key(other).blocks) & set(key(chat("a" * 200)).blocks)


def test_sampling_fields_do_not_count() -> None:
    assert key({**chat("a" * 200), "temperature": 0.5, "stream": True}) == key(chat("a" * 200))


@pytest.mark.parametrize(
    ("body", "headers", "session"),
    [
        ({}, {SESSION_HEADER: "Ada"}, "Ada"),
        ({"sessionId": "Ada"}, {}, "Ada"),
        ({"id_slot": 3}, {}, "slot-3"),
        ({"id_slot": -1}, {}, None),
        ({"sessionId": "../Ada"}, {}, None),
        ({"sessionId": 7}, {}, None),
        ({}, {}, None),
    ],
)
def test_a_session_is_named_in_the_header_or_a_field(
    body: dict[str, Any], headers: dict[str, str], session: str | None
) -> None:
    assert key(body, **headers).session == session


def test_the_rules_need_nothing_else_of_llmserve() -> None:
    folder = Path(routing.__file__).parent
    nodes = [node for path in folder.glob("*.py") for node in ast.walk(ast.parse(path.read_text()))]
    modules = [node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)]
    ours = [module for module in modules if module.startswith("llmserve")]
    assert ours
    assert all(module.startswith("llmserve.routing") for module in ours)


def test_the_header_is_that_of_the_server() -> None:
    assert SESSION.name.lower() == SESSION_HEADER


@pytest.mark.parametrize("body", [b"", b"{", b"[1]", b'"x"', b"\xff"])
def test_a_body_that_is_no_object_has_no_key(body: bytes) -> None:
    assert key_of("/v1/completions", {}, body) == RoutingKey()


def test_embeddings_have_no_prefix() -> None:
    assert key({"input": "a" * 1000}, path="/v1/embeddings") == RoutingKey()


def test_an_unknown_prompt_may_go_anywhere() -> None:
    table = affinity("a", "b")
    assert table.choose(prompt(text(1)), IDLE) == Choice()
    table.routed(prompt(text(1)), "a")
    assert table.choose(prompt(text(2)), IDLE) == Choice()


def test_the_longest_prefix_wins() -> None:
    table = affinity("a", "b", "c")
    table.routed(prompt(text(1, 6)), "a")
    table.routed(prompt(text(1, 8), text(2, 2)), "b")
    assert table.choose(prompt(text(1, 8), text(3, 2)), IDLE).replicas == ("b",)


def test_where_a_prompt_ended_its_answer_follows() -> None:
    table = affinity("a", "b")
    table.routed(prompt(text(1, 2)), "a")
    # Most of the next turn is the answer, which this router has never seen.
    assert table.choose(prompt(text(1, 2), text(2, 20)), IDLE).replicas == ("a",)


def test_a_shared_beginning_does_not_bind_new_conversations() -> None:
    table = affinity("a", "b")
    table.routed(prompt(text(1, 4), text(2, 6)), "a")
    assert table.choose(prompt(text(1, 4), text(3, 6)), IDLE) == Choice()
    assert table.choose(prompt(text(1, 4), text(3, 4)), IDLE).replicas == ("a",)


@pytest.mark.parametrize(
    ("busy", "short", "long"), [(SLACK, "a", "a"), (SLACK + 2, "b", "a"), (SLACK + 6, "b", "b")]
)
def test_a_shared_prefix_weighs_as_much_as_its_length(busy: int, short: str, long: str) -> None:
    assert 8 < 2 * REQUEST_BLOCKS < 80 < 6 * REQUEST_BLOCKS
    for number, length, expected in ((1, 8, short), (2, 80, long)):
        table = affinity("a", "b")
        table.routed(prompt(text(number, length), text(3, 1)), "a")
        key = prompt(text(number, length), text(4, 1))
        assert table.choose(key, {"a": busy + 3, "b": 3}).replicas == (expected,)


def test_a_conversation_stays_until_it_would_wait() -> None:
    table = affinity("a", "b")
    table.routed(prompt(text(1, 4)), "a")
    next_turn = prompt(text(1, 4), text(2, 4))
    assert table.choose(next_turn, {"a": SLOTS - 1}).replicas == ("a",)
    assert table.choose(next_turn, {"a": SLOTS + 1}).replicas == ("b",)
    # Elsewhere it would wait, too.
    assert table.choose(next_turn, {"a": SLOTS + 1, "b": SLOTS + 1}).replicas == ("a",)


def test_a_session_stays_whatever_the_load() -> None:
    table = affinity("a", "b")
    table.routed(RoutingKey("Ada"), "a")
    assert table.choose(RoutingKey("Ada"), {"a": 1000}) == Choice(("a",), is_binding=True)
    assert table.choose(RoutingKey("Bob"), {"a": 1000}) == Choice()


def test_a_session_is_lost_with_its_replica_until_it_goes_on_elsewhere() -> None:
    table = affinity("a", "b")
    table.routed(RoutingKey("Ada"), "a")
    table.update(["b"])
    assert table.choose(RoutingKey("Ada"), IDLE) == Choice(has_lost_session=True)
    table.routed(RoutingKey("Ada"), "b")
    assert table.choose(RoutingKey("Ada"), IDLE) == Choice(("b",), is_binding=True)


def test_what_replicas_report_is_known_but_what_was_seen_counts_more() -> None:
    table = affinity("a", "b")
    table.routed(RoutingKey("Ada"), "a")
    ends = prompt(text(1, 5)).blocks[-1:]
    table.report("b", ["Ada", "Bob"], ends)
    assert table.choose(RoutingKey("Ada"), IDLE).replicas == ("a",)
    assert table.choose(RoutingKey("Bob"), IDLE).replicas == ("b",)
    assert table.choose(prompt(text(1, 5), text(2, 5)), IDLE).replicas == ("b",)
    table.update(["a"])
    table.report("b", ["Cleo"])
    assert table.choose(RoutingKey("Cleo"), IDLE) == Choice()


def test_a_lost_session_that_a_replica_reports_is_found() -> None:
    table = affinity("a", "b")
    table.routed(RoutingKey("Ada"), "a")
    table.update(["b", "c"])
    table.report("c", ["Ada"])
    assert table.choose(RoutingKey("Ada"), IDLE) == Choice(("c",), is_binding=True)


def test_a_replica_that_is_gone_is_never_chosen() -> None:
    table = affinity("a", "b")
    table.routed(prompt(text(1)), "a")
    table.routed(prompt(text(2)), "a")
    table.routed(prompt(text(2)), "b")
    table.update(["b"])
    table.routed(prompt(text(1)), "a")
    assert table.choose(prompt(text(1)), IDLE) == Choice()
    assert table.choose(prompt(text(2)), IDLE).replicas == ("b",)


def test_a_conversation_is_found_by_its_end_alone() -> None:
    table = affinity("a", "b", max_blocks=10)
    table.routed(prompt(text(1)), "a")
    table.routed(prompt(text(2)), "b")
    assert table.choose(prompt(text(1), text(3)), IDLE).replicas == ("a",)


def test_the_oldest_is_forgotten_first() -> None:
    table = affinity("a", max_blocks=2, max_sessions=2)
    for number in range(3):
        table.routed(prompt(text(number)), "a")
        table.routed(RoutingKey(f"s{number}"), "a")
    assert [bool(table.choose(prompt(text(number)), IDLE).replicas) for number in range(3)] == [
        False,
        True,
        True,
    ]
    assert [table.choose(RoutingKey(f"s{number}"), IDLE).is_binding for number in range(3)] == [
        False,
        True,
        True,
    ]
