"""The simulation of many replicas: its clock and its counts."""

from __future__ import annotations

import pytest
from benches.scaling import ROUTINGS, Chance, Simulation
from benches.scaling_replica import Machine
from benches.scaling_trace import BLOCK_TOKENS, Talk, Turn, trace

MACHINE = Machine("test", 0.01, 0.001, slots=2, cache_tokens=10_000, stall_s=1.0)


def talk(number: int, *turns: Turn, begin_s: float = 0.0, system: int = 0) -> Talk:
    return Talk(number, begin_s, system, 64, turns)


def test_one_request_takes_its_steps() -> None:
    outcome = Simulation(MACHINE, 1, Chance, 1).run([talk(0, Turn(36, 11, 0.0))])
    assert outcome.first_token_s == [pytest.approx(0.01 + 0.001 * 100)]
    assert outcome.busy_s == pytest.approx(0.11 + 10 * 0.011)
    assert outcome.output_tokens == 11


def test_a_turn_computes_only_what_is_new() -> None:
    outcome = Simulation(MACHINE, 1, Chance, 1).run([talk(0, Turn(36, 11, 5.0), Turn(20, 5, 0.0))])
    assert outcome.prompted == 100 + 131
    assert outcome.cached == 111
    assert outcome.first_token_s[1] == pytest.approx(0.01 + 0.001 * 20)


def test_one_request_too_many_waits_for_a_slot() -> None:
    talks = [talk(number, Turn(36, 11, 0.0)) for number in range(3)]
    outcome = Simulation(MACHINE, 1, Chance, 1).run(talks)
    assert outcome.first_token_s[-1] > 2 * outcome.first_token_s[0]
    assert outcome.output_tokens == 33


def test_an_arrival_joins_streams_at_the_next_step() -> None:
    talks = [talk(0, Turn(36, 1001, 0.0)), talk(1, Turn(36, 2, 0.0), begin_s=1.0, system=1)]
    outcome = Simulation(MACHINE, 1, Chance, 1).run(talks)
    assert 0.11 < min(outcome.first_token_s[0], outcome.first_token_s[1]) + 0.001 < 0.13


def test_a_key_is_the_system_prompts_then_the_conversations() -> None:
    one, other = talk(0, Turn(64, 16, 0.0), Turn(16, 1, 0.0)), talk(1, Turn(64, 16, 0.0))
    shared = 64 // BLOCK_TOKENS
    assert one.key(0).blocks[:shared] == other.key(0).blocks[:shared]
    assert not set(one.key(0).blocks[shared:]) & set(other.key(0).blocks)
    assert one.key(1).blocks[: len(one.key(0).blocks)] == one.key(0).blocks


def test_every_routing_serves_every_turn_and_prefixes_pay_off() -> None:
    talks = list(trace(0.5, 120, seed=3))
    turns = sum(len(one.turns) for one in talks)
    cached = {}
    for name, routing in ROUTINGS.items():
        outcome = Simulation(MACHINE, 4, routing, 1).run(talks)
        assert len(outcome.first_token_s) == turns
        cached[name] = outcome.cached / outcome.prompted
    assert cached["prefix-aware"] > 1.2 * cached["two choices"]
