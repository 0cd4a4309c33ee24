"""Values of TOML files as the texts of settings, so that both are checked by the same rules."""

from __future__ import annotations

import json
from typing import Any


def as_setting(value: Any) -> str:
    """The text of a value."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return ",".join(as_setting(item) for item in value)
    if isinstance(value, dict):
        return json.dumps(value, default=str)
    return str(value)
