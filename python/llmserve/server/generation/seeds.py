"""Seeds of requests that name none."""

from __future__ import annotations

import secrets

MAX_RANDOM_SEED = 2**53 - 1
"""Random seeds are whole numbers that every JSON reader keeps (RFC 8259, section 6)."""


def random_seed(maximum: int = MAX_RANDOM_SEED) -> int:
    """A seed that a client can send back, where it may be at most `maximum`.

    It is drawn before the request is submitted, so that the head of a stream can name it.
    """
    return secrets.randbelow(maximum + 1)
