from __future__ import annotations

import pytest

from llmserve.server.settings.sizes import byte_count, token_count


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("0", 0),
        ("4096", 4096),
        ("8k", 8 << 10),
        ("8K", 8 << 10),
        ("8G", 8 << 30),
        ("512MiB", 512 << 20),
        ("512 mib", 512 << 20),
        ("8GB", 8 * 10**9),
        ("1.5G", 3 << 29),
        ("1t", 1 << 40),
        ("7B", 7),
    ],
)
def test_bytes(text: str, number: int) -> None:
    assert byte_count(0, 2**50).parse(text) == number


@pytest.mark.parametrize("text", ["", "k", "8X", "8kk", "-1", "1.5", "1e3", "0x10", "8 k k", "٨"])
def test_what_is_not_a_number_of_bytes(text: str) -> None:
    with pytest.raises(ValueError, match="must be a number of bytes, such as 8G or 512MiB, got"):
        byte_count(0, 2**50).parse(text)


def test_tokens() -> None:
    kind = token_count(1, 2**31 - 1)
    assert [kind.parse(text) for text in ("1", "8k", "1M", "0.5k")] == [1, 8192, 1 << 20, 512]
    with pytest.raises(ValueError, match="must be a number of tokens, such as 4096 or 8k, got '8GiB'"):
        kind.parse("8GiB")
    with pytest.raises(ValueError, match="must be from 1 to 2147483647, got 1099511627776"):
        kind.parse("1T")
