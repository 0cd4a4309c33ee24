"""The lock files: everything the project asks for, pinned, hashed, from nowhere in particular."""

from __future__ import annotations

import re
import tomllib

import pytest

from toolchain import ROOT

FOLDER = ROOT / "requirements"
LOCKS = {path.stem: path.read_text() for path in sorted(FOLDER.glob("*.lock"))}
ENTRIES = {name: re.split(r"\n(?=[a-z0-9])", text.split("\n", 2)[2].strip()) for name, text in LOCKS.items()}
_CONFIG = tomllib.loads((ROOT / "pyproject.toml").read_text())
_OPTIONAL = _CONFIG["project"]["optional-dependencies"]
# Ray is as large as everything else together, and only its own tests need it.
_EXTRAS = [requirements for name, requirements in _OPTIONAL.items() if name != "ray"]
REQUIREMENTS = [
    re.split(r"[><=;~!\[ ]", requirement)[0]
    for group in (_CONFIG["build-system"]["requires"], _CONFIG["project"]["dependencies"], *_EXTRAS)
    for requirement in group
]


def test_the_requirements_were_found() -> None:
    assert {"anyio", "starlette", "pytest", "maturin"} <= set(REQUIREMENTS)
    others = {"agents", "anthropic", "clients", "helm", "lm-eval", "ollama", "sie-sdk", "site", "wheel"}
    assert {"dev", "ray", "serve"} | others == set(LOCKS)


@pytest.mark.parametrize("name", REQUIREMENTS)
def test_every_requirement_is_pinned(name: str) -> None:
    assert any(entry.startswith(f"{name}==") for entry in ENTRIES["dev"])


def test_the_extra_ray_is_pinned_with_what_llmserve_needs() -> None:
    (wanted,) = _OPTIONAL["ray"]
    for name in (wanted.partition("[")[0], "orjson", "starlette"):
        assert any(entry.startswith(f"{name}==") for entry in ENTRIES["ray"])


@pytest.mark.parametrize(
    "name", ["agents", "anthropic", "clients", "helm", "lm-eval", "ollama", "sie-sdk", "site", "wheel"]
)
def test_every_client_is_pinned(name: str) -> None:
    lines = (FOLDER / f"{name}.in").read_text().splitlines()
    wanted = [line for line in lines if not line.startswith("#")]
    assert wanted
    for client in wanted:
        assert any(entry.startswith(f"{client.partition('[')[0]}==") for entry in ENTRIES[name])


@pytest.mark.parametrize(
    "entry",
    [entry for entries in ENTRIES.values() for entry in entries],
    ids=lambda entry: entry.split(" ")[0],
)
def test_every_entry_has_an_exact_version_and_hashes(entry: str) -> None:
    assert re.match(r"[a-z0-9.-]+==[a-z0-9.+]+ (;[^\\]+)?\\\n", entry)
    assert len(re.findall(r"--hash=sha256:[0-9a-f]{64}", entry)) >= 1


@pytest.mark.parametrize("text", LOCKS.values(), ids=LOCKS)
def test_no_index_is_named(text: str) -> None:
    assert "://" not in text
    assert "index" not in re.sub(r"^[a-z].*", "", text, flags=re.MULTILINE)
