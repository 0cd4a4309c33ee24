from __future__ import annotations

import os
from pathlib import Path

import pytest

from llmserve.server.paths import AllowedFolder, shown
from llmserve.server.refusals import PathNotAllowedError, PathNotLocalError

LOCAL = {"server": ("127.0.0.1", 8082), "client": ("127.0.0.1", 50000)}
UNIX = {"server": ("/run/llmserve.sock", None), "client": None}
REMOTE = {"server": ("192.0.2.1", 8082), "client": ("192.0.2.9", 50000)}
PROXIED = {**LOCAL, "headers": [(b"x-forwarded-for", b"192.0.2.1")]}


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    (tmp_path / "in").mkdir()
    (tmp_path / "out").mkdir()
    (tmp_path / "in" / "a.gguf").touch()
    (tmp_path / "out" / "b.gguf").touch()
    (tmp_path / "in" / "leads-out.gguf").symlink_to(tmp_path / "out" / "b.gguf")
    (tmp_path / "in" / "stays.gguf").symlink_to(tmp_path / "in" / "a.gguf")
    (tmp_path / "out" / "leads-in.gguf").symlink_to(tmp_path / "in" / "a.gguf")
    (tmp_path / "in-beside").mkdir()
    return tmp_path


@pytest.mark.parametrize(
    ("text", "target"),
    [
        ("a.gguf", "in/a.gguf"),
        ("./x/../a.gguf", "in/a.gguf"),
        ("stays.gguf", "in/a.gguf"),
        ("not-there.gguf", "in/not-there.gguf"),
        ("{tree}/in/a.gguf", "in/a.gguf"),
        ("{tree}/out/leads-in.gguf", "in/a.gguf"),
    ],
)
@pytest.mark.parametrize("scope", [LOCAL, UNIX, REMOTE])
def test_paths_that_resolve_inside_are_allowed(
    tree: Path, text: str, target: str, scope: dict[str, object]
) -> None:
    folder = AllowedFolder(tree / "in", "MODELS_DIR")
    assert folder.admit(text.format(tree=tree), "path", scope) == tree / target


@pytest.mark.parametrize(
    "text",
    [
        "../out/b.gguf",
        "leads-out.gguf",
        "{tree}/out/b.gguf",
        "{tree}/in-beside/c.gguf",
        "/etc/passwd",
        "a\0.gguf",
        "..",
    ],
)
def test_paths_that_resolve_outside_are_not(tree: Path, text: str) -> None:
    with pytest.raises(PathNotAllowedError) as caught:
        AllowedFolder(tree / "in", "MODELS_DIR").admit(text.format(tree=tree), "modelPath", LOCAL)
    assert str(caught.value) == "modelPath is not allowed"


def test_a_folder_that_is_a_link_counts_as_what_it_leads_to(tree: Path) -> None:
    (tree / "link").symlink_to(tree / "in")
    assert AllowedFolder(tree / "link", "MODELS_DIR").admit("a.gguf", "path", LOCAL) == tree / "in/a.gguf"


def test_very_long_names_are_refused_or_simply_not_there(tree: Path) -> None:
    folder = AllowedFolder(tree / "in", "MODELS_DIR")
    name = "x" * 300
    assert folder.resolve(name, "path") == tree / "in" / name


@pytest.mark.parametrize("text", ["a/" * 2049, "x" * 4097, "é" * 2049, "a/" * (1 << 20), "a\0b", "\ud800"])
@pytest.mark.parametrize("has_folder", [True, False])
def test_what_can_be_no_path_is_refused_unseen(
    tree: Path, monkeypatch: pytest.MonkeyPatch, text: str, has_folder: bool
) -> None:
    monkeypatch.setattr(os.path, "realpath", lambda path: pytest.fail("looked at"))
    with pytest.raises(PathNotAllowedError):
        AllowedFolder(tree if has_folder else None, "MODELS_DIR").resolve(text, "path")


def test_the_longest_path_is_followed(tree: Path) -> None:
    assert (
        AllowedFolder(tree / "in", "MODELS_DIR").resolve("./" * 2045 + "a.gguf", "path") == tree / "in/a.gguf"
    )


def test_names_that_are_no_text_can_be_shown() -> None:
    assert shown(Path(os.fsdecode(b"/m/caf\xe9.gguf"))) == "/m/caf\ufffd.gguf"
    assert shown("né") == "né"


def test_without_a_folder_only_local_requests_may(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tree)
    folder = AllowedFolder(None, "MODELS_DIR")
    assert folder.admit("out/b.gguf", "path", LOCAL) == tree / "out/b.gguf"
    assert folder.admit(f"{tree}/in/leads-out.gguf", "path", UNIX) == tree / "out/b.gguf"
    for scope in (REMOTE, PROXIED, {"server": None}, {}):
        with pytest.raises(PathNotLocalError, match="MODELS_DIR"):
            folder.admit("out/b.gguf", "path", scope)
