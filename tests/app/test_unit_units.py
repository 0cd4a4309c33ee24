"""Numbers as the start and the commands print them."""

from __future__ import annotations

import pytest

from llmserve.server.units import shown_bytes, shown_count

GIB = 1 << 30


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0, "0"),
        (999, "999"),
        (1000, "1.0K"),
        (134_515_008, "134.5M"),
        (999_949_999, "999.9M"),
        (999_950_000, "1.0B"),
        (7_615_616_512, "7.6B"),
        (1_026_408_232_448, "1026.4B"),
    ],
)
def test_counts_are_short(number: int, text: str) -> None:
    assert shown_count(number) == text


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0, "0 bytes"),
        (1023, "1023 bytes"),
        (1 << 20, "1 MiB"),
        (98_362_432, "94 MiB"),
        (3 * GIB // 2, "1.5 GiB"),
        (200 * GIB, "200 GiB"),
        (3 << 40, "3.0 TiB"),
    ],
)
def test_bytes_in_a_fitting_unit(number: int, text: str) -> None:
    assert shown_bytes(number) == text
