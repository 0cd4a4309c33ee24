"""Simulates 1 to 256 replicas under a production-like trace: `python -m benches.scaling`.

It compares ways to choose a replica; the one that looks at prefixes is the code that routes in Ray Serve. The
replicas are modelled (`scaling_replica`), the requests are drawn (`scaling_trace`).
"""

from __future__ import annotations

import argparse
import heapq
import random
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from llmserve.routing import Affinity, RoutingKey

from .scaling_replica import Machine, Replica, Work
from .scaling_trace import Talk, trace

# Lines over rows: of the benchmarks of November 2026 (155 tokens a second alone, 321 with sixteen streams),
# and of the order of an 8B model in 8 bits on a data-centre GPU.
MACHINES = {
    "cpu": Machine("two cores, 135M parameters", 0.0035, 0.0029, slots=16, cache_tokens=60_000),
    "gpu": Machine("one GPU, 8B parameters", 0.010, 0.0001, slots=64, cache_tokens=400_000),
}
RATES = {"cpu": 0.045, "gpu": 1.1}
"""Conversations a second for each replica."""

Choose = Callable[[RoutingKey, Sequence[int]], int]


class Chance:
    """Any replica."""

    def __init__(self, num_replicas: int, slots: int, seed: int) -> None:
        self._random = random.Random(seed)  # noqa: S311 - no secret

    def __call__(self, key: RoutingKey, loads: Sequence[int]) -> int:
        """The number of the chosen replica."""
        return self._random.randrange(len(loads))


class TwoChoices(Chance):
    """The less busy of two random replicas, as in Ray Serve."""

    def __call__(self, key: RoutingKey, loads: Sequence[int]) -> int:
        """The number of the chosen replica."""
        two = self._random.sample(range(len(loads)), min(2, len(loads)))
        return min(two, key=loads.__getitem__)


class LeastLoaded(Chance):
    """The idlest replica."""

    def __call__(self, key: RoutingKey, loads: Sequence[int]) -> int:
        """The number of the chosen replica."""
        least = min(loads)
        return self._random.choice([number for number, load in enumerate(loads) if load == least])


class PrefixAware(TwoChoices):
    """The rules of `llmserve.routing`; among equals the least busy, else the less busy of two."""

    def __init__(self, num_replicas: int, slots: int, seed: int) -> None:
        super().__init__(num_replicas, slots, seed)
        self._affinity: Affinity[int] = Affinity(slots)
        self._affinity.update(range(num_replicas))

    def __call__(self, key: RoutingKey, loads: Sequence[int]) -> int:
        """The number of the chosen replica."""
        best = self._affinity.choose(key, dict(enumerate(loads))).replicas
        chosen = min(best, key=loads.__getitem__) if best else super().__call__(key, loads)
        self._affinity.routed(key, chosen)
        return chosen


ROUTINGS: Mapping[str, type[Chance]] = {
    "random": Chance,
    "two choices": TwoChoices,
    "least loaded": LeastLoaded,
    "prefix-aware": PrefixAware,
}


@dataclass(slots=True)
class Outcome:
    """What was measured."""

    first_token_s: list[float] = field(default_factory=list)
    output_tokens: int = 0
    busy_s: float = 0.0
    cached: int = 0
    prompted: int = 0

    def first_token(self, share: float) -> float:
        """A quantile of the time to first token, in seconds."""
        ordered = sorted(self.first_token_s)
        return ordered[int(share * (len(ordered) - 1))]

    @property
    def machine_h_per_million(self) -> float:
        """Hours of one replica's computing for a million output tokens."""
        return self.busy_s / 3600 / self.output_tokens * 1e6


class Simulation:
    """Events in the order of their times: turns that are sent, and steps that end."""

    def __init__(self, machine: Machine, num_replicas: int, routing: type[Chance], seed: int) -> None:
        self._choose: Choose = routing(num_replicas, machine.slots, seed)
        self._replicas = [Replica(machine) for _ in range(num_replicas)]
        self._events: list[tuple[float, int, Callable[[float], None]]] = []
        self._count = 0
        self._turns: dict[int, tuple[Talk, int]] = {}
        self._outcome = Outcome()

    def run(self, talks: Sequence[Talk]) -> Outcome:
        """Runs all conversations to their ends."""
        for talk in talks:
            self._send_later(talk, 0, talk.begin_s)
        while self._events:
            now, _, happen = heapq.heappop(self._events)
            happen(now)
        for replica in self._replicas:
            self._outcome.busy_s += replica.busy_s
            self._outcome.cached += replica.cached
            self._outcome.prompted += replica.prompted
        return self._outcome

    def _at(self, when: float, happen: Callable[[float], None]) -> None:
        self._count += 1
        heapq.heappush(self._events, (when, self._count, happen))

    def _send_later(self, talk: Talk, turn: int, when: float) -> None:
        self._at(when, lambda now: self._send(talk, turn, now))

    def _send(self, talk: Talk, turn: int, now: float) -> None:
        chosen = self._choose(talk.key(turn), [replica.load for replica in self._replicas])
        prompt, answer = talk.prompt_tokens(turn), talk.turns[turn].answer
        self._turns[talk.number] = (talk, turn)
        replica = self._replicas[chosen]
        work = Work(talk.number, talk.system, talk.system_tokens, prompt, answer, now)
        self._end_later(replica, replica.take(work, now))

    def _end_later(self, replica: Replica, when: float | None) -> None:
        if when is not None:
            version = replica.version
            self._at(when, lambda now: self._end(replica, version, now))

    def _end(self, replica: Replica, version: int, now: float) -> None:
        if version != replica.version:
            return
        done, when = replica.end_steps(now)
        self._end_later(replica, when)
        for work in done:
            self._outcome.first_token_s.append(work.first_s - work.sent_s)
            self._outcome.output_tokens += work.answer
            talk, turn = self._turns.pop(work.conversation)
            if turn + 1 < len(talk.turns):
                self._send_later(talk, turn + 1, now + talk.turns[turn].think_s)


def main() -> int:
    """Prints a table."""
    parser = argparse.ArgumentParser(description="Simulates replicas and the choice among them.")
    parser.add_argument("--machine", choices=MACHINES, nargs="*", default=list(MACHINES))
    parser.add_argument("--replicas", type=int, nargs="*", default=[1, 4, 16, 64, 256])
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--load", type=float, default=1.0, help="factor of the conversations a second")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    for name in options.machine:
        machine = MACHINES[name]
        print(f"{machine.name}: {machine.step_s * 1e3:g} ms a step and {machine.row_s * 1e3:g} ms a row")
        print("| replicas | routing | prompt tokens cached | first token, p50 / p95 | h / 1M tokens |")
        print("| --- | --- | --- | --- | --- |")
        for num_replicas in options.replicas:
            rate = RATES[name] * options.load * num_replicas
            talks = list(trace(rate, options.seconds, options.seed))
            for routing, choose in ROUTINGS.items():
                made = Simulation(machine, num_replicas, choose, options.seed).run(talks)
                print(
                    f"| {num_replicas} | {routing} | {made.cached / made.prompted:.0%} | "
                    f"{made.first_token(0.5):.2f} s / {made.first_token(0.95):.2f} s | "
                    f"{made.machine_h_per_million:.2f} |",
                    flush=True,
                )
    return 0


if __name__ == "__main__":
    sys.exit(main())
