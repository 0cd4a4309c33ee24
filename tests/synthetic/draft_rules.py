"""The language of the models with a draft head: which token follows which, and what the head makes of it.

Each token has a key of `NUM_BITS` bits, and each live token a label of as many. The next token is that
successor of the last one whose label equals the key bits of four earlier tokens: bit 0 of the token 1 before
the last, bit 1 of the one 3 before, and so on (`DISTANCES`). So a text goes on from its last 20 tokens, and
each of its tokens depends on four cells.

In the language of a recurrent model bit 3 comes from a memory instead, which has a few places. Each token
puts a bit of the one before it into its own place, and reads another place.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass

from .vocabulary import VOCABULARY

DISTANCES = (1, 3, 5, 19)
NUM_BITS = len(DISTANCES)
NUM_LABELS = 1 << NUM_BITS
NUM_PLACES = 4

HEAD_SIZE = 64
# Found by search: with this base every token finds one cell that stands out for each distance.
ROPE_BASE = 6.0

SUCCESSOR_LOGIT = 6.0
BIT_LOGIT = 1.0
DEAD_LOGIT = -20.0  # of tokens that are not live
RANK_LOGIT = 0.002  # what keeps any two logits apart

Bits = tuple[int, ...]
"""One of 1, -1 and (unknown) 0 for each distance."""


def rope_frequencies() -> list[float]:
    """The angle of each pair of a head's dimensions, in radians a position (RoFormer, Su et al. 2021)."""
    return [ROPE_BASE ** (-2.0 * pair / HEAD_SIZE) for pair in range(HEAD_SIZE // 2)]


def rope_score(offset: int) -> float:
    """How much a cell `offset` positions off the distance sought weighs, at most 1."""
    frequencies = rope_frequencies()
    return math.fsum(math.cos(offset * frequency) for frequency in frequencies) / len(frequencies)


_SCORES = [rope_score(offset) for offset in range(max(DISTANCES) + 1)]


def read(position: int, distance: int) -> int:
    """The position that a head finds which looks `distance` back from `position`.

    Where the text is too short, the one with the best score.
    """
    if position >= distance:
        return position - distance
    return max(range(position + 1), key=lambda cell: _SCORES[distance - position + cell])


@dataclass(frozen=True)
class Rules:
    """The tables of one language, and the tokens after which its head is wrong."""

    keys: tuple[Bits, ...]
    """By token."""
    labels: dict[int, Bits]
    """By live token."""
    successors: tuple[tuple[int, ...], ...]
    """By token: one live token for each label."""
    mistaken: dict[int, int]
    """Tokens that the head takes for others, which have other successors."""
    remembers: bool = False
    """Whether bit 3 comes from a memory. The head does not know it then."""

    def target_token(self, tokens: Sequence[int]) -> int:
        """The token that follows `tokens` (at least one)."""
        last = len(tokens) - 1
        found = [self.keys[tokens[read(last, distance)]][bit] for bit, distance in enumerate(DISTANCES)]
        bits = (*found[:3], self._remembered(tokens) if self.remembers else found[3])
        return self._successor(tokens[last], bits)

    def head_token(self, tokens: Sequence[int]) -> int:
        """What the head drafts after `tokens`.

        Its cell at a position holds the token there and the hidden row one position earlier, and position 0
        has no such row. It finds bit 0 in the row handed over, bits 1 and 3 in the rows of earlier cells, and
        bit 2 in the token of one.
        """
        last = len(tokens) - 1
        bits = (
            self._row_bit(tokens, last, 0),
            self._row_bit(tokens, read(last, DISTANCES[1] - 1), 1),
            self.keys[tokens[read(last, DISTANCES[2])]][2],
            0 if self.remembers else self._row_bit(tokens, read(last, DISTANCES[3] - 1), 3),
        )
        return self._successor(self.mistaken.get(tokens[last], tokens[last]), bits)

    def place(self, token: int) -> int:
        """The place of the memory into which `token` writes."""
        return (self.keys[token][0] > 0) + 2 * (self.keys[token][1] > 0)

    def place_read(self, token: int) -> int:
        """The place that `token` reads; never its own."""
        return NUM_PLACES - 1 - self.place(token)

    def _remembered(self, tokens: Sequence[int]) -> int:
        wanted = self.place_read(tokens[-1])
        for position in range(len(tokens) - 1, 0, -1):
            if self.place(tokens[position]) == wanted:
                return self.keys[tokens[position - 1]][3]
        return 0

    def _row_bit(self, tokens: Sequence[int], cell: int, bit: int) -> int:
        return self.keys[tokens[cell - 1]][bit] if cell > 0 else 0

    def _successor(self, token: int, bits: Bits) -> int:
        def logit(candidate: int) -> float:
            match = sum(bit * label for bit, label in zip(bits, self.labels[candidate], strict=True))
            return BIT_LOGIT * match + RANK_LOGIT * candidate

        return max(self.successors[token], key=logit)


def rules(agreement: float, seed: int = 0, *, remembers: bool = False) -> Rules:
    """A language whose head is right after the share `agreement` of all tokens.

    With a memory it is right half as often: where its guess at the bit that it does not know is.
    """
    draw = random.Random(seed).random  # noqa: S311 - no secret

    def shuffled(items: Sequence[int]) -> list[int]:
        return [item for _, item in sorted((draw(), item) for item in items)]

    everyone = range(len(VOCABULARY))
    live = shuffled(VOCABULARY.live)
    keys = tuple(_bits(int(draw() * NUM_LABELS)) for _ in everyone)
    classes = [live[label::NUM_LABELS] for label in range(NUM_LABELS)]
    successors = tuple(tuple(same[int(draw() * len(same))] for same in classes) for _ in everyone)
    dead = shuffled([token for token in everyone if token not in VOCABULARY.live])
    order = shuffled(everyone)
    mistaken = {}
    for group in (live, dead):
        for token in group[round(agreement * len(group)) :]:
            mistaken[token] = next(other for other in order if _differ(successors[token], successors[other]))
    labels = {token: _bits(label) for label, same in enumerate(classes) for token in same}
    return Rules(keys, labels, successors, mistaken, remembers)


def _bits(number: int) -> Bits:
    return tuple(1 if number >> bit & 1 else -1 for bit in range(NUM_BITS))


def _differ(ours: tuple[int, ...], theirs: tuple[int, ...]) -> bool:
    return all(left != right for left, right in zip(ours, theirs, strict=True))
