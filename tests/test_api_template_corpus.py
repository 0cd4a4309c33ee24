"""Public chat templates: the texts that transformers make, and what a conversation goes on with."""

from __future__ import annotations

import datetime
import json
from pathlib import Path
from typing import Any

import pytest

from llmserve import TemplateError, templates
from llmserve.templates import environment

DATA = Path(__file__).parent / "data" / "templates"
MANIFEST: list[dict[str, Any]] = json.loads((DATA / "manifest.json").read_text(encoding="utf-8"))
CASES: dict[str, dict[str, Any]] = json.loads((DATA / "cases.json").read_text(encoding="utf-8"))
NAMES = [entry["name"] for entry in MANIFEST]
ENTRIES = dict(zip(NAMES, MANIFEST, strict=True))

# The clock of the expected texts (see data/templates/make.py).
CLOCK = datetime.datetime(2025, 3, 14, 9, 26, 53)


@pytest.fixture(autouse=True)
def frozen_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environment, "now", lambda: CLOCK)


def source(name: str) -> str:
    return (DATA / "jinja" / f"{name}.jinja").read_text(encoding="utf-8")


def expected(name: str) -> dict[str, dict[str, str]]:
    results: dict[str, dict[str, str]] = json.loads((DATA / "expected" / f"{name}.json").read_text("utf-8"))
    return results


@pytest.mark.parametrize("name", NAMES)
def test_texts_are_those_of_transformers(name: str) -> None:
    results = expected(name)
    assert results.keys() == CASES.keys()
    for case, result in results.items():
        variables = {"add_generation_prompt": True, **ENTRIES[name]["tokens"], **CASES[case]}
        if "text" in result:
            assert templates.render(source(name), **variables) == result["text"], case
            continue
        with pytest.raises(TemplateError) as failure:
            templates.render(source(name), **variables)
        assert str(failure.value).endswith(result["message"]), case
