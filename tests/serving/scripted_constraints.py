"""Where constrained output ends in a given text, as an engine would hold the model to it."""

from __future__ import annotations

import json
import re

from llmserve.sampling_params import SamplingParams

_MAX_LENGTH = 200
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?")


def constrained_length(params: SamplingParams, text: str) -> int | None:
    """The length of what a constraint takes of a text; `None` without a constraint.

    Raises `AssertionError` if the text does not begin with anything that the constraint takes.
    """
    if params.regex is not None:
        pattern = re.compile(params.regex)
        lengths = (
            length
            for length in range(1, min(len(text), _MAX_LENGTH) + 1)
            if pattern.fullmatch(text, 0, length)
        )
        length = next(lengths, None)
    elif params.grammar is not None:
        # A number, and the character by which its end is seen.
        number = _NUMBER.match(text)
        length = number.end() + 1 if number else None
    elif params.json_schema is not None:
        blanks = len(text) - len(text.lstrip())
        length = json.JSONDecoder().raw_decode(text, blanks)[1]
    else:
        return None
    assert length is not None, f"{params.regex or params.grammar} does not take {text[:40]!r}"
    return length
