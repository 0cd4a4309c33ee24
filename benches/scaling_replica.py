"""A replica in the simulation: steps of the engine's scheduler, at the cost of a line over their rows."""

from __future__ import annotations

import math
from collections import OrderedDict, deque
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Machine:
    """What a replica computes on."""

    name: str
    step_s: float
    """A step takes this long, and for each row..."""
    row_s: float
    slots: int
    cache_tokens: int
    """Tokens of finished prompts and answers that stay, in slots and in host memory."""
    stall_s: float = 0.15
    """How long prompts may hold up running streams."""

    def step(self, rows: int) -> float:
        """The time of a step."""
        return self.step_s + self.row_s * rows


@dataclass(slots=True)
class Work:
    """One request in a replica."""

    conversation: int
    system: int
    system_tokens: int
    prompt: int
    answer: int
    sent_s: float
    to_compute: int = 0
    left: int = 0
    first_s: float = math.nan


@dataclass(slots=True)
class Cache:
    """Prefixes by their name, the least recently used out first."""

    capacity: int
    _tokens: OrderedDict[int, int] = field(default_factory=OrderedDict)
    _total: int = 0

    def have(self, name: int) -> int:
        """How many tokens of a prefix are there."""
        if name not in self._tokens:
            return 0
        self._tokens.move_to_end(name)
        return self._tokens[name]

    def put(self, name: int, tokens: int) -> None:
        """Keeps a prefix."""
        self._total += tokens - self._tokens.pop(name, 0)
        self._tokens[name] = tokens
        while self._total > self.capacity:
            self._total -= self._tokens.popitem(last=False)[1]


class Replica:
    """Runs its requests step by step. Steps in which nothing changes are taken together."""

    def __init__(self, machine: Machine) -> None:
        self.busy_s = 0.0
        self.cached = self.prompted = 0
        self.version = 0
        """Of the plan: an end that was announced under another version does not come."""
        self._machine = machine
        self._cache = Cache(machine.cache_tokens)
        self._waiting: deque[Work] = deque()
        self._prompts: deque[Work] = deque()
        self._streams: list[Work] = []
        self._begin_s = 0.0
        self._one_s = 0.0
        self._chunk = 0
        self._steps = 0

    @property
    def load(self) -> int:
        """Requests that are here."""
        return len(self._waiting) + len(self._prompts) + len(self._streams)

    def take(self, work: Work, now: float) -> float | None:
        """Takes a request. The time at which the current steps end, if that has changed."""
        self._waiting.append(work)
        if not self._steps:
            return self._plan(now)
        if self._steps > 1 and not self._prompts and len(self._streams) < self._machine.slots:
            # The step that is running ends; what was to follow is planned anew.
            self._steps = max(1, math.ceil((now - self._begin_s) / self._one_s))
            self.version += 1
            return self._begin_s + self._steps * self._one_s
        return None

    def end_steps(self, now: float) -> tuple[list[Work], float | None]:
        """The requests that end with the current steps, and the end of the next ones."""
        self.busy_s += self._steps * self._one_s
        done = self._decode(now)
        self._prefill(now)
        return done, self._plan(now)

    def _decode(self, now: float) -> list[Work]:
        for work in self._streams:
            work.left -= self._steps
        done = [work for work in self._streams if work.left <= 0]
        self._streams = [work for work in self._streams if work.left > 0]
        for work in done:
            self._cache.put(work.conversation, work.prompt + work.answer)
        return done

    def _prefill(self, now: float) -> None:
        rows = self._chunk
        while self._prompts and rows >= self._prompts[0].to_compute:
            work = self._prompts.popleft()
            rows -= work.to_compute
            work.first_s = now
            # The step has drawn its first token; one that is the whole answer ends with the next step.
            work.left = max(1, work.answer - 1)
            self._cache.put(-1 - work.system, work.system_tokens)
            self._cache.put(work.conversation, work.prompt)
            self._streams.append(work)
        if self._prompts:
            self._prompts[0].to_compute -= rows

    def _plan(self, now: float) -> float | None:
        while self._waiting and len(self._prompts) + len(self._streams) < self._machine.slots:
            self._admit(self._waiting.popleft())
        self._begin_s, self._chunk, self._steps = now, 0, 0
        rows = len(self._streams)
        if self._prompts:
            left_s = self._machine.stall_s - self._machine.step(rows)
            budget = max(64, int(left_s / self._machine.row_s))
            self._chunk = min(budget, sum(work.to_compute for work in self._prompts))
            self._steps = 1
        elif rows:
            self._steps = min(work.left for work in self._streams)
        if not self._steps:
            return None
        self._one_s = self._machine.step(rows + self._chunk)
        self.version += 1
        return now + self._steps * self._one_s

    def _admit(self, work: Work) -> None:
        shared = min(self._cache.have(-1 - work.system), work.system_tokens)
        cached = min(max(shared, self._cache.have(work.conversation)), work.prompt - 1)
        self.cached += cached
        self.prompted += work.prompt
        work.to_compute = work.prompt - cached
        self._prompts.append(work)
