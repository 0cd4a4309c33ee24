"""What somebody probably meant who wrote an unknown name."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def closest(name: str, known: Iterable[str], cutoff: float = 0.6) -> str | None:
    """The known name that is most similar in any case, if difflib's ratio is at least ``cutoff``."""
    by_lower = {other.lower(): other for other in known}
    lower = name.lower()
    close = difflib.get_close_matches(lower, by_lower, n=1, cutoff=cutoff)
    # Two swapped letters lower the ratio of a short name below any cutoff: PROT and PORT have 0.75.
    close += [other for other in by_lower if sorted(other) == sorted(lower)]
    return by_lower[close[0]] if close else None


def did_you_mean(name: str, known: Iterable[str], cutoff: float = 0.6) -> str:
    """A question for a hint, or an empty text if no known name is similar."""
    names = list(known)
    begun = [other for other in names if other.lower().startswith(name.lower())]
    meant = min(begun, key=len) if begun and name else closest(name, names, cutoff)
    return f"did you mean {meant}?" if meant else ""
