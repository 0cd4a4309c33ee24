"""Blocks of tokens, and the events that tell of their changes."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmserve.server.kv_events.blocks import BLOCK_SIZE, ModelBlocks, chain
from llmserve.types import CachedTokens


def tokens(*blocks: int, rest: int = 0) -> memoryview[int]:
    """Blocks of one token each, repeated, and some tokens more."""
    ids = [block for block in blocks for _ in range(BLOCK_SIZE)] + [7] * rest
    return memoryview(array("i", ids)).toreadonly()


def cached(*in_slots: memoryview[int], parked: Iterable[memoryview[int]] = ()) -> CachedTokens:
    return CachedTokens(in_slots=in_slots, parked=tuple(parked))


def test_a_hash_stands_for_all_that_is_before_a_block() -> None:
    first, second = chain(tokens(1, 2, 3)), chain(tokens(1, 2, 4))
    assert first[:2] == second[:2] and first[2] != second[2]
    assert len({*chain(tokens(1, 1)), *chain(tokens(2, 1))}) == 4
    assert all(0 <= block < 2**64 for block in first)


def test_only_whole_blocks_count() -> None:
    assert len(chain(tokens(1, rest=BLOCK_SIZE - 1))) == 1
    assert chain(tokens(rest=BLOCK_SIZE - 1)) == []


def test_new_blocks_follow_those_that_are_known() -> None:
    blocks = ModelBlocks()
    a, b, c = chain(tokens(1, 2, 3))
    assert blocks.update(cached(tokens(1))) == [
        ("BlockStored", [a], None, [1] * BLOCK_SIZE, BLOCK_SIZE, None, "GPU", None)
    ]
    assert blocks.update(cached(tokens(1, 2, 3, rest=3))) == [
        ("BlockStored", [b, c], a, [2] * BLOCK_SIZE + [3] * BLOCK_SIZE, BLOCK_SIZE, None, "GPU", None)
    ]
    assert blocks.update(cached(tokens(1, 2, 3))) == []


def test_a_shared_beginning_is_told_once() -> None:
    events = ModelBlocks().update(cached(tokens(1, 2), tokens(1, 3)))
    a, b = chain(tokens(1, 2))
    assert [event[1:3] for event in events] == [([a, b], None), (chain(tokens(1, 3))[1:], a)]


def test_what_moves_to_host_memory_leaves_the_slots() -> None:
    blocks = ModelBlocks()
    blocks.update(cached(tokens(1)))
    (block,) = chain(tokens(1))
    removal, storage = blocks.update(cached(parked=[tokens(1)]))
    assert removal == ("BlockRemoved", [block], "GPU")
    assert (storage[0], storage[1], storage[6]) == ("BlockStored", [block], "CPU")


def test_the_end_of_a_model() -> None:
    blocks = ModelBlocks()
    assert blocks.clear() == []
    blocks.update(cached(tokens(1), parked=[tokens(2)]))
    assert [event[0] for event in blocks.clear()] == ["BlockRemoved", "BlockRemoved", "AllBlocksCleared"]
    assert blocks.clear() == []


@given(st.lists(st.lists(st.lists(st.integers(0, 2), max_size=4), max_size=4), max_size=6))
def test_whoever_follows_the_events_knows_the_blocks(states: Sequence[Sequence[Sequence[int]]]) -> None:
    blocks, followed = ModelBlocks(), set[int]()
    for state in states:
        sequences = [tokens(*sequence) for sequence in state]
        for event in blocks.update(cached(*sequences)):
            follow(event, followed)
        assert followed == {block for sequence in sequences for block in chain(sequence)}


def follow(event: tuple[Any, ...], followed: set[int]) -> None:
    hashes = set(event[1])
    if event[0] == "BlockRemoved":
        assert hashes <= followed
        followed -= hashes
    else:
        parent, ids = event[2], event[3]
        assert not hashes & followed
        assert parent is None or parent in followed
        assert len(ids) == len(event[1]) * BLOCK_SIZE
        followed |= hashes


@pytest.mark.parametrize("size", [0, 1, BLOCK_SIZE])
def test_sequences_of_any_length(size: int) -> None:
    assert len(chain(memoryview(array("i", range(size))))) == size // BLOCK_SIZE
