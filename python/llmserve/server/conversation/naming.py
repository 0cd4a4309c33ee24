"""How a client calls the messages that its request was made into, for refusals."""

from __future__ import annotations

import re
from collections.abc import Mapping

_MESSAGE = re.compile(r"messages\[(\d+)\]")


def client_field(field: str, names: Mapping[str, str], num_merged: int = 0) -> str:
    """The client's name of a field of the messages, of which `num_merged` others have become the first.

    `names` has those of messages and their parts, where the client does not call them `messages`.
    """
    found = _MESSAGE.match(field)
    if found is None:
        return field
    field = f"messages[{max(0, int(found[1]) + num_merged)}]{field[found.end() :]}"
    known = [name for name in names if field == name or field.startswith(f"{name}.")]
    longest = max(known, key=len, default="")
    return names.get(longest, "") + field.removeprefix(longest)
