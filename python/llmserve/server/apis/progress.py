"""How dialects show the progress of a load."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class ProgressSteps:
    """Lets at most one value per percent through: the first at once, and never 1."""

    percent: int = 0

    def next(self, value: float) -> float | None:
        """The value to show now, if any."""
        percent = min(max(int(value * 100), 1), 99)
        if percent <= self.percent:
            return None
        self.percent = percent
        return percent / 100
