"""Chooses replicas by what they have computed: sessions first, then the longest prefix, at like load."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from llmserve.routing.keys import RoutingKey

R = TypeVar("R", bound=Hashable)

REQUEST_BLOCKS = 16
"""How many blocks of a prompt it is worth to have one request less beside it. `benches/scaling.py` shows what
other values do: with fewer, a system prompt that many share makes one replica hot.
"""
SLACK = 1
"""How many requests a replica may have more than the idlest one without a penalty."""
MIN_SHARE = 0.5
"""The share of a prompt from which on a common beginning counts. Less is a system prompt that many share:
each replica soon has it, and new conversations are to be spread.
"""


@dataclass(frozen=True, slots=True)
class Choice(Generic[R]):
    """The replicas that are equally good for a request; none if it does not matter which."""

    replicas: tuple[R, ...] = ()
    is_binding: bool = False
    """Whether no other may get the request: it continues a session."""
    has_lost_session: bool = False
    """Whether the replica that had the session is gone."""


class Affinity(Generic[R]):
    """Remembers which replica has what. It asks nobody: the router tells it.

    What was not seen for the longest time is forgotten first.
    """

    def __init__(self, slots: int, max_blocks: int = 200_000, max_sessions: int = 100_000) -> None:
        """``slots`` are the requests that a replica computes together; more of them wait."""
        self._slots = slots
        self._max_blocks = max_blocks
        self._max_sessions = max_sessions
        self._replicas: frozenset[R] = frozenset()
        self._owners: OrderedDict[int, set[R]] = OrderedDict()
        # Those with which a prompt ended. They alone are enough to find a conversation again.
        self._ends: OrderedDict[int, set[R]] = OrderedDict()
        self._sessions: OrderedDict[str, R] = OrderedDict()
        # Sessions whose replica is gone.
        self._lost: OrderedDict[str, None] = OrderedDict()

    def update(self, replicas: Collection[R]) -> None:
        """Tells which replicas there are now."""
        gone = self._replicas - set(replicas)
        self._replicas = frozenset(replicas)
        if not gone:
            return
        for name in [name for name, owner in self._sessions.items() if owner in gone]:
            del self._sessions[name]
            self._lost[name] = None
        _shorten(self._lost, self._max_sessions)
        for table in (self._owners, self._ends):
            for block in [block for block, owners in table.items() if not owners - gone]:
                del table[block]

    def report(self, replica: R, sessions: Iterable[str], blocks: Iterable[int] = ()) -> None:
        """Takes what a replica says that it has: sessions, and blocks with which prompts ended.

        It may have got them from other routers. What this one did itself counts more: a report is older.
        """
        if replica not in self._replicas:
            return
        for name in sessions:
            if name not in self._sessions:
                self._own(name, replica)
        for block in blocks:
            self._remember((block,), replica)

    def choose(self, key: RoutingKey, loads: Mapping[R, int]) -> Choice[R]:
        """The best replicas for a request. ``loads`` are the requests that the replicas have."""
        if key.session is not None and (owner := self._sessions.get(key.session)) is not None:
            return Choice((owner,), is_binding=True)
        return Choice(self._cheapest(key.blocks, loads), has_lost_session=key.session in self._lost)

    def routed(self, key: RoutingKey, replica: R) -> None:
        """Tells where a request went."""
        if replica not in self._replicas:
            return
        if key.session is not None:
            self._own(key.session, replica)
        self._remember(key.blocks, replica)

    def _own(self, name: str, replica: R) -> None:
        self._lost.pop(name, None)
        self._sessions[name] = replica
        self._sessions.move_to_end(name)
        _shorten(self._sessions, self._max_sessions)

    def _remember(self, blocks: tuple[int, ...], replica: R) -> None:
        for table, part in ((self._owners, blocks), (self._ends, blocks[-1:])):
            for block in part:
                table.setdefault(block, set()).add(replica)
                table.move_to_end(block)
            _shorten(table, self._max_blocks)

    def _cheapest(self, blocks: tuple[int, ...], loads: Mapping[R, int]) -> tuple[R, ...]:
        matched, continued = self._matched(blocks)
        if not matched:
            return ()
        idlest = min(loads.get(replica, 0) for replica in self._replicas)
        costs = {}
        for replica in self._replicas:
            load = loads.get(replica, 0)
            free = idlest + SLACK
            if replica in continued:
                # A conversation stays while it need not wait: its next turns are worth something, too.
                free = max(free, self._slots - 1)
            unmatched = 0 if replica in continued else len(blocks) - matched.get(replica, 0)
            costs[replica] = unmatched + REQUEST_BLOCKS * max(0, load - free)
        least = min(costs.values())
        return tuple(replica for replica, cost in costs.items() if cost == least)

    def _matched(self, blocks: tuple[int, ...]) -> tuple[dict[R, int], set[R]]:
        """How many of the blocks, from the first, each replica has: a block stands for all before it.

        Then those where the longest match is a whole earlier prompt: the request continues that, and its
        answer, which no router sees, is there, too.
        """
        total = len(blocks)
        matched: dict[R, int] = {}
        continued: set[R] = set()
        for number in range(total, 0, -1):
            block = blocks[number - 1]
            ends = self._ends.get(block, set())
            owners = ((self._owners.get(block, set()) | ends) & self._replicas) - matched.keys()
            if owners and not matched and number < total:
                continued = ends & owners
            matched |= dict.fromkeys(owners, number)
            if len(matched) == len(self._replicas):
                break
        enough = MIN_SHARE * total
        return {r: n for r, n in matched.items() if r in continued or n >= enough}, continued


def _shorten(table: OrderedDict[Any, Any], length: int) -> None:
    while len(table) > length:
        table.popitem(last=False)
