"""The page of clients names those that the tests install, with their versions."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
REQUIREMENTS = ROOT / "requirements"
SETS = ("agents", "anthropic", "clients", "lm-eval", "ollama", "sie-sdk")


def listed() -> dict[str, str]:
    """Client -> version, as the page has them."""
    text = (ROOT / "docs" / "clients.md").read_text()
    return dict(re.findall(r"^\| `([\w.-]+)`[^|]* \| ([\d.]+) \|", text, re.MULTILINE))


def pinned() -> dict[str, set[str]]:
    """Package -> versions in the locks."""
    versions: dict[str, set[str]] = {}
    for name in (*SETS, "dev"):
        text = (REQUIREMENTS / f"{name}.lock").read_text()
        for package, version in re.findall(r"^([\w.-]+)(?:\[[^\]]*\])?==([^\s;]+)", text, re.MULTILINE):
            versions.setdefault(package, set()).add(version)
    return versions


def wanted() -> set[str]:
    """What the tests ask for by name."""
    lines = [line for name in SETS for line in (REQUIREMENTS / f"{name}.in").read_text().splitlines()]
    names = [re.match(r"[\w.-]+", line) for line in lines]
    return {found.group() for found in names if found}


def test_every_version_is_one_of_a_lock() -> None:
    locks = pinned()
    wrong = {name: version for name, version in listed().items() if version not in locks.get(name, set())}
    assert not wrong


def test_every_client_that_is_installed_for_its_own_sake_is_listed() -> None:
    missing = {re.sub(r"-slim$", "", name) for name in wanted()} - {
        re.sub(r"-slim$", "", name) for name in listed()
    }
    assert not missing
