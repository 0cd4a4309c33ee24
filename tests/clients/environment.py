"""Interpreters that have the clients."""

from __future__ import annotations

import pytest

from environments import InstallError, environment_python, find_python

NEWEST_MINOR = 13


def client_python(name: str, *, oldest_minor: int = 11) -> str:
    """An interpreter that has everything of `requirements/NAME.lock`.

    Skips the test where there is no interpreter of this version, or no package index.
    """
    base = find_python(range(oldest_minor, NEWEST_MINOR + 1))
    if base is None:
        pytest.skip(f"{name} needs Python 3.{oldest_minor} or newer, and there is none")
    try:
        return environment_python(base, name)
    except InstallError as error:
        if error.is_offline:
            pytest.skip(str(error))
        pytest.fail(str(error), pytrace=False)
