"""Large numbers as people read them."""

from __future__ import annotations


def shown_bytes(number: int) -> str:
    """A number of bytes in the largest fitting unit."""
    value = float(number)
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if value < 1024:
            return f"{value:.{1 if unit == 'GiB' and value < 100 else 0}f} {unit}"
        value /= 1024
    return f"{value:.1f} TiB"


def shown_count(number: int) -> str:
    """A number in thousands, millions or billions, as models are named: "134.5M"."""
    rest = float(number)
    for unit in ("", "K", "M"):
        if rest < 999.95:
            return f"{rest:.1f}{unit}" if unit else str(number)
        rest /= 1000
    return f"{rest:.1f}B"
