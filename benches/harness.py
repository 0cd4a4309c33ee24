"""What all benches share: settings, interleaved runs, medians, goals and how they are shown."""

from __future__ import annotations

import dataclasses
import os
import re
import statistics
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeVar

T = TypeVar("T")

KvLayout = Literal["per_sequence", "unified"]

# What each sequence of the speed benches holds, on both sides.
PROMPT_TOKENS = 128
DECODE_TOKENS = 128
CELLS = 512


class BenchError(Exception):
    """A measurement that cannot be made or trusted; the text says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """What both sides of a comparison are run with."""

    model: Path
    threads: int
    kv_layout: KvLayout
    runs: int
    sequences: tuple[int, ...]
    bursts: tuple[int, ...]
    rates: tuple[float, ...]
    seconds: float
    busy: tuple[int, ...]
    limit_s: float
    batch_size: int = 512


@dataclass(frozen=True, slots=True)
class Goal:
    """The bound that a ratio (or, without a peer, a figure) must keep."""

    limit: float
    at_most: bool = True

    def is_met(self, value: float) -> bool:
        """Whether `value` keeps the bound."""
        return value <= self.limit if self.at_most else value >= self.limit

    def __str__(self) -> str:
        return f"{'<=' if self.at_most else '>='} {self.limit:g}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One line of the result: medians of both sides, and the number that the goal is about."""

    name: str
    unit: str
    ours: float
    peer: float | None = None
    judged: float | None = None
    spread: tuple[float, float] | None = None
    goal: Goal | None = None
    note: str = ""

    @property
    def verdict(self) -> str:
        """`ok`, `MISSED`, or nothing where there is no goal."""
        if self.goal is None or self.judged is None:
            return ""
        return "ok" if self.goal.is_met(self.judged) else "MISSED"


def cache_dir() -> Path:
    """The user's cache directory for llmserve: `LLMSERVE_CACHE_DIR`, else `llmserve` in XDG's."""
    given = os.environ.get("LLMSERVE_CACHE_DIR")
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(given) if given else Path(base, "llmserve")


def compared(
    name: str, unit: str, ours: Sequence[float], peer: Sequence[float], goal: Goal | None = None
) -> Figure:
    """The figure of runs taken in pairs: the ratio is the median of the pairs' ratios.

    Pairs lie next to each other in time, so a machine that gets slower over the minutes does not count.
    """
    ratios = [one / other for one, other in zip(ours, peer, strict=True)]
    return Figure(
        name=name,
        unit=unit,
        ours=statistics.median(ours),
        peer=statistics.median(peer),
        judged=statistics.median(ratios),
        spread=(min(ratios), max(ratios)),
        goal=goal,
    )


def beside(
    name: str, unit: str, ours: Sequence[float], peer: Sequence[float], goal: Goal | None = None
) -> Figure:
    """The figure of runs whose goal is about our own median; the peer's is shown beside it."""
    return dataclasses.replace(measured(name, unit, ours, goal), peer=statistics.median(peer))


def p95(values: Sequence[float]) -> float:
    """The 95th percentile, interpolated between the two nearest values."""
    return statistics.quantiles(values, n=20, method="inclusive")[-1] if len(values) > 1 else values[0]


def measured(name: str, unit: str, values: Sequence[float], goal: Goal | None = None) -> Figure:
    """The figure of runs without a peer; a goal is about their median."""
    middle = statistics.median(values)
    return Figure(
        name=name, unit=unit, ours=middle, judged=middle, spread=(min(values), max(values)), goal=goal
    )


def interleave(runs: int, sides: Mapping[str, Callable[[int], T]]) -> dict[str, list[T]]:
    """Runs every side `runs` times, in turns, each round in the opposite order of the one before.

    Args:
        runs: how often.
        sides: what to measure, called with the number of the round (from 0).
    """
    results: dict[str, list[T]] = {name: [] for name in sides}
    for number in range(runs):
        names = list(sides)[:: 1 if number % 2 == 0 else -1]
        for name in names:
            print(f"  run {number + 1}/{runs}: {name}", file=sys.stderr, end="", flush=True)
            results[name].append(sides[name](number))
            print(f": {_brief(results[name][-1])}", file=sys.stderr, flush=True)
    return results


def _brief(result: object) -> str:
    """A result as progress shows it: a run that is cut off has told what it had."""
    return re.sub(r"\d+\.\d+(e-\d+)?", lambda number: f"{float(number[0]):.4g}", str(result))


def retried(measure: Callable[[int], T], number: int, tries: int = 6) -> T:
    """`measure(number)`, with further numbers where a stream ended by itself and spoiled the run."""
    for attempt in range(tries - 1):
        try:
            return measure(number + 100 * attempt)
        except BenchError as error:
            print(f"    again with other prompts: {error}", flush=True)
    return measure(number + 100 * (tries - 1))


def show(figures: Sequence[Figure]) -> None:
    """Prints the figures as a table."""
    rows = [("", "unit", "ours", "peer", "judged", "spread", "goal", "")]
    for figure in figures:
        spread = "" if figure.spread is None else f"{figure.spread[0]:.3g}..{figure.spread[1]:.3g}"
        rows.append(
            (
                figure.name,
                figure.unit,
                f"{figure.ours:.4g}",
                "" if figure.peer is None else f"{figure.peer:.4g}",
                "" if figure.judged is None else f"{figure.judged:.3f}",
                spread,
                "" if figure.goal is None else str(figure.goal),
                f"{figure.verdict} {figure.note}".strip(),
            )
        )
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
