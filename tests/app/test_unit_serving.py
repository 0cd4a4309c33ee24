"""What `llmserve serve` prints."""

from __future__ import annotations

import pytest

from llmserve.server.serving import count


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
    assert count(number) == text
