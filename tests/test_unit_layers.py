"""The server's modules depend downwards only, and dialects not on each other."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

SERVER = Path(__file__).parent.parent / "python" / "llmserve" / "server"

LAYERS = (
    {"serving"},
    {"announcement", "draining_server", "early_load", "http_protocol", "load_failures"},
    {"application"},
    {"apis/*", "first_model"},
    {"apis/completions", "apis/progress", "error_shapes"},
    {"services"},
    {"page"},
    {"kv_events", "readiness"},
    {"generation"},
    {"conversation", "models", "prompts"},
    {"grammars", "logs", "paths"},
    {"web", "fields", "trust"},
    {"settings"},
    {"metrics", "tracing"},
    {
        "api_keys",
        "addresses",
        "attribute_docs",
        "callbacks",
        "download",
        "lifecycle",
        "refusals",
        "request_notes",
    },
    {"machine", "model_header", "model_kind"},
    {"model_files"},
    {"rpc_counters", "signals", "stale_files"},
    {"workers"},
    {"spelling", "start_error", "units"},
)
"""From top to bottom, `*` standing for each dialect. Only dialects of one row may not import each other."""


def unit_of(module: str) -> str:
    """The entry of `LAYERS` for a dotted name below `llmserve.server`; of a dialect, its own name."""
    first, *rest = module.split(".")
    return f"apis/{rest[0]}" if first == "apis" and rest else first


def rank_of(unit: str) -> int:
    dialect = "apis/*" if unit.startswith("apis/") else unit
    found = [rank for rank, row in enumerate(LAYERS) if unit in row]
    return (found or [rank for rank, row in enumerate(LAYERS) if dialect in row])[0]


def imports_of(source: str) -> Iterator[str]:
    """The dotted names below `llmserve.server` that a module imports, wherever in it."""
    prefix = "llmserve.server."
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        else:
            continue
        yield from (name.removeprefix(prefix) for name in names if name.startswith(prefix))


def violations(module: str, source: str) -> list[str]:
    """Imports that lead upwards, or from a dialect to another."""
    unit = unit_of(module)
    found = []
    for name in imports_of(source):
        other = unit_of(name)
        is_sibling = rank_of(unit) == rank_of(other) and unit.startswith("apis/") and other != unit
        if rank_of(other) < rank_of(unit) or is_sibling:
            found.append(f"{module} imports {name}")
    return found


def test_modules_depend_downwards_only() -> None:
    found = []
    for path in SERVER.rglob("*.py"):
        module = ".".join(path.relative_to(SERVER).with_suffix("").parts)
        if module != "__init__":
            found += violations(module, path.read_text())
    assert not found


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("apis.models.routes", "from llmserve.server.apis.openai.errors import OPENAI"),
        ("apis.sie.routes", "from llmserve.server.apis import llamatik"),
        ("settings.kinds", "from llmserve.server.trust.keys import KeyRule"),
        ("models.registry", "import llmserve.server.generation.service"),
        ("error_shapes.sie", "from llmserve.server.apis.sie import routes"),
    ],
)
def test_an_import_upwards_or_sideways_is_found(module: str, source: str) -> None:
    assert violations(module, source)


def test_no_private_module_of_starlette_is_imported() -> None:
    assert not [path for path in SERVER.rglob("*.py") if "from starlette._" in path.read_text()]
