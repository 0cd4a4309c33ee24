"""Prompts of a known length that need no data: common words, each one token of the default model."""

from __future__ import annotations

import random

_TEXT = (
    "time year people way day man thing woman life child world school state family student group country "
    "problem hand part place case week company system program question work government number night point "
    "home water room mother area money story fact month lot right study book eye job word business issue "
    "side kind head house service friend father power hour game line end member law car city community"
)
WORDS = _TEXT.split()


def words(seed: int, count: int) -> list[str]:
    """`count` words in an order that depends on `seed`; the first ones differ from seed to seed."""
    shuffle = random.Random(seed)  # noqa: S311 - no secret
    return shuffle.choices(WORDS, k=count)


def text(seed: int, count: int) -> str:
    """`count` words as a prompt, about as many tokens."""
    return " ".join(words(seed, count))


def beginning(first: int, count: int) -> str:
    """`count` words of which the first is the `first` one of `WORDS`: no cached prompt begins alike."""
    return f"{WORDS[first % len(WORDS)]} {text(first, count - 1)}"


def refrain(seed: int, count: int) -> str:
    """Five words again and again, `count` in all.

    A model goes on with them for ever, so the stream does not end by itself and both servers compute
    the same number of tokens.
    """
    five = words(seed, 5)
    return " ".join(five[position % 5] for position in range(count))


def sharing(seed: int, count: int, clients: int, shared: float) -> list[str]:
    """Prompts of `count` words for `clients` clients; the first `shared` (0 to 1) of the words are common."""
    common = words(seed, round(count * shared))
    own = count - len(common)
    return [" ".join(common + words(seed * 1000 + client + 1, own)) for client in range(clients)]
