"""Numbers of bytes and of tokens, which may have a unit: ``8k``, ``8G``, ``512MiB``."""

from __future__ import annotations

import re

from llmserve.server.settings.kinds import Kind, within

_SIZE = re.compile(r"([0-9]+(?:\.[0-9]+)?) ?([a-z]*)", re.IGNORECASE)

_PREFIXES = "kmgt"
_TOKEN_UNITS = {"": 1} | {prefix: 1024 ** (n + 1) for n, prefix in enumerate(_PREFIXES)}
_BYTE_UNITS = (
    {**_TOKEN_UNITS, "b": 1}
    | {f"{prefix}ib": 1024 ** (n + 1) for n, prefix in enumerate(_PREFIXES)}
    | {f"{prefix}b": 1000 ** (n + 1) for n, prefix in enumerate(_PREFIXES)}
)
"""A letter alone is a power of 1024, as systemd and Java have it."""


def byte_count(minimum: int, maximum: int) -> Kind:
    """A number of bytes."""
    return _sized(minimum, maximum, _BYTE_UNITS, "bytes", "8G or 512MiB", "SIZE")


def token_count(minimum: int, maximum: int) -> Kind:
    """A number of tokens."""
    return _sized(minimum, maximum, _TOKEN_UNITS, "tokens", "4096 or 8k", "N")


def _sized(minimum: int, maximum: int, units: dict[str, int], what: str, examples: str, metavar: str) -> Kind:
    def parse(text: str) -> int:
        match = _SIZE.fullmatch(text.strip())
        factor = units.get(match[2].lower()) if match else None
        if match is None or factor is None or ("." in match[1] and factor == 1):
            raise ValueError(f"must be a number of {what}, such as {examples}, got {text!r}")
        number = int(match[1]) * factor if "." not in match[1] else int(float(match[1]) * factor)
        return within(number, minimum, maximum)

    return Kind(f"{minimum} to {_short(maximum)} {what}", parse, metavar)


def _short(number: int) -> str:
    for power in range(len(_PREFIXES), 0, -1):
        if number % 1024**power == 0:
            return f"{number // 1024**power}{_PREFIXES[power - 1].upper()}"
    return str(number)
