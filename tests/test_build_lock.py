"""The lock file: everything the project asks for, pinned, hashed, from nowhere in particular."""

from __future__ import annotations

import re

import pytest

from toolchain import ROOT

LOCK = (ROOT / "requirements" / "dev.lock").read_text()
ENTRIES = re.split(r"\n(?=[a-z0-9])", LOCK.split("\n", 2)[2].strip())
# Arrays of strings in pyproject.toml whose items are requirements (tomllib came with Python 3.11).
REQUIREMENTS = re.findall(
    r'^    "([A-Za-z0-9_-]+)[><=;~!]', (ROOT / "pyproject.toml").read_text(), re.MULTILINE
)


def test_the_requirements_were_found() -> None:
    assert {"anyio", "starlette", "pytest", "maturin"} <= set(REQUIREMENTS)


@pytest.mark.parametrize("name", REQUIREMENTS)
def test_every_requirement_is_pinned(name: str) -> None:
    assert any(entry.startswith(f"{name}==") for entry in ENTRIES)


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.split(" ")[0])
def test_every_entry_has_an_exact_version_and_hashes(entry: str) -> None:
    assert re.match(r"[a-z0-9.-]+==[a-z0-9.+]+ (;[^\\]+)?\\\n", entry)
    assert len(re.findall(r"--hash=sha256:[0-9a-f]{64}", entry)) >= 1


def test_no_index_is_named() -> None:
    assert "://" not in LOCK
    assert "index" not in re.sub(r"^[a-z].*", "", LOCK, flags=re.MULTILINE)
