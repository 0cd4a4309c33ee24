"""The API keys that clients must know, if any are set."""

from __future__ import annotations

import hmac
from collections.abc import Iterable
from hashlib import sha256


class ApiKeys:
    """A set of keys that only tells whether a text is one of them.

    The keys themselves are not kept, so that no log, error or dump can show them.
    """

    __slots__ = ("_digests",)

    def __init__(self, keys: Iterable[str] = ()) -> None:
        self._digests = tuple(_digest(key) for key in keys)

    def __bool__(self) -> bool:
        """Whether clients need a key at all."""
        return bool(self._digests)

    def __repr__(self) -> str:
        return f"<{len(self._digests)} API keys>"

    def __or__(self, other: ApiKeys) -> ApiKeys:
        """The keys of both."""
        both = ApiKeys()
        both._digests = self._digests + other._digests
        return both

    def owner(self, candidates: Iterable[str | None]) -> bytes:
        """Who has sent one of the keys, as a name that tells nothing of it; if no key is set, all are one."""
        digests = [_digest(candidate) for candidate in candidates if candidate is not None]
        return next((digest for digest in digests if digest in self._digests), b"")

    def authorize(self, candidate: str | None) -> bool:
        """Whether a client that sent this as its key may continue; everybody may if no key is set.

        The time that this takes reveals nothing about the keys: digests of equal length are compared in
        constant time, and with each key.
        """
        if not self._digests:
            return True
        if candidate is None:
            return False
        given = _digest(candidate)
        is_known = False
        for digest in self._digests:
            is_known |= hmac.compare_digest(digest, given)
        return is_known


def _digest(key: str) -> bytes:
    return sha256(key.encode("utf-8", "surrogateescape")).digest()
