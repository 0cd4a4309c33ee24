"""Names that clients give: sessions, tools, profiles, request ids."""

from __future__ import annotations

import pytest

from llmserve.server.refusals import FieldError
from llmserve.server.web.names import Names


def test_a_name_is_given_back() -> None:
    assert Names(4).check("a.-_", "name") == "a.-_"
    assert Names(4, ":").check("0:Z", "name") == "0:Z"


@pytest.mark.parametrize("text", ["", "abcde", "a b", "a\n", "\na", "ä", "a:"])
def test_anything_else_is_refused(text: str) -> None:
    names = Names(4)
    assert not names.has(text)
    with pytest.raises(FieldError) as caught:
        names.check(text, "name")
    assert str(caught.value) == f"name must be 1 to 4 of A-Z a-z 0-9 . _ -, got {text!a}"


def test_little_of_a_long_text_is_shown() -> None:
    with pytest.raises(FieldError, match=r"1 to 128 of A-Z a-z 0-9 _ \. : -, got 'x{32}'$"):
        Names(128, "_.:-").check("x" * 1000, "name")


def test_the_schema() -> None:
    assert Names(128).schema == {"type": "string", "pattern": "^[A-Za-z0-9._-]{1,128}$"}
