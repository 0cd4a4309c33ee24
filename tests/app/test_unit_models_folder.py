"""Which files of a folder are models, and what they are called."""

from __future__ import annotations

import logging
import os
from pathlib import Path

import pytest
from gguf import GGUFWriter

from llmserve.server.model_files import model_file
from llmserve.server.models import safe_id
from llmserve.server.models.memory import file_bytes
from llmserve.server.models.models_folder import FolderScan, scan


def fill(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(name.encode())


def ids(folder: Path) -> list[str]:
    return [model.id for model in scan(folder).models]


def test_ids_of_files(tmp_path: Path) -> None:
    fill(
        tmp_path,
        "plain.gguf",
        "Org__Name.gguf",
        "Org__Name__v2.gguf",
        "Else/Model.GGUF",
        "notes.txt",
        ".hidden.gguf",
        "mmproj-model.gguf",
        "Else/Deeper/x.gguf",
    )
    (tmp_path / "folder.gguf").mkdir()
    assert ids(tmp_path) == ["Org/Name", "Org/Name__v2", "plain", "Else/Model"]


def test_what_is_loaded_with_a_model_is_left_out(tmp_path: Path) -> None:
    for name, kind in (("base", "model"), ("style", "adapter"), ("eyes", "mmproj")):
        writer = GGUFWriter(tmp_path / f"{name}.gguf", "llama")
        writer.add_type(kind)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.close()
    assert ids(tmp_path) == ["base"]


def test_a_split_model_is_its_first_part(tmp_path: Path) -> None:
    fill(tmp_path, "big-00001-of-00002.gguf", "big-00002-of-00002.gguf", "other-00002-of-00003.gguf")
    (model,) = scan(tmp_path).models
    assert model.id == "big-00001-of-00002"
    # All parts count.
    assert file_bytes(model.path) == 2 * len("big-00001-of-00002.gguf")


def test_a_blob_is_called_what_its_link_is_called(tmp_path: Path) -> None:
    """As in Hugging Face's cache: parts of a split model are found beside each other."""
    fill(tmp_path, "blobs/h1", "blobs/h2", "snapshots/x")
    (tmp_path / "snapshots" / "x").unlink()
    (tmp_path / "snapshots" / "x").mkdir()
    for number, name in enumerate(("h1", "h2"), 1):
        link = tmp_path / "snapshots" / "x" / f"m-0000{number}-of-00002.gguf"
        link.symlink_to(f"../../blobs/{name}")
    (tmp_path / "again.gguf").symlink_to("snapshots/x/m-00001-of-00002.gguf")
    (model,) = scan(tmp_path / "snapshots" / "x").models
    assert model.id == "m-00001-of-00002"
    assert model.path == Path(os.path.realpath(tmp_path), "snapshots", "x", "m-00001-of-00002.gguf")
    assert file_bytes(model.path) == len("blobs/h1") + len("blobs/h2")
    assert model_file(tmp_path / "again.gguf") == model.path


def test_links_in_a_circle_stay_what_they_are(tmp_path: Path) -> None:
    (tmp_path / "a.gguf").symlink_to("b.gguf")
    (tmp_path / "b.gguf").symlink_to("a.gguf")
    assert model_file(tmp_path / "a.gguf").name in ("a.gguf", "b.gguf")


def test_links_may_lead_out_and_are_followed(tmp_path: Path) -> None:
    fill(tmp_path, "out.gguf")
    folder = tmp_path / "models"
    folder.mkdir()
    (folder / "link.gguf").symlink_to(tmp_path / "out.gguf")
    (folder / "broken.gguf").symlink_to(tmp_path / "missing.gguf")
    (folder / "Org").symlink_to(tmp_path)
    found = {model.id: model.path for model in scan(folder).models}
    real = Path(os.path.realpath(tmp_path / "out.gguf"))
    missing = real.with_name("missing.gguf")
    assert found == {"broken": missing, "link": real, "Org/out": real}


def test_of_two_files_with_one_id_the_first_counts(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    fill(tmp_path, "Org__Name.gguf", "Org/Name.gguf", "a.GGUF", "a.gguf")
    with caplog.at_level(logging.WARNING):
        found = {model.id: model.path.name for model in scan(tmp_path).models}
    assert found == {"Org/Name": "Org__Name.gguf", "a": "a.GGUF"}
    assert [record.getMessage() for record in caplog.records] == [
        "the model id a is taken: a.gguf is left out",
        "the model id Org/Name is taken: Name.gguf is left out",
    ]


def settled(folder: Path) -> FolderScan:
    """A scan of folders that have not changed for long."""
    for path in (folder, *(below for below in folder.iterdir() if below.is_dir())):
        os.utime(path, (1_000_000_000, 1_000_000_000))
    return scan(folder)


def test_a_scan_is_stale_after_a_change(tmp_path: Path) -> None:
    fill(tmp_path, "Org/a.gguf")
    assert not settled(tmp_path).is_stale()
    before = settled(tmp_path)
    fill(tmp_path, "Org/b.gguf")
    assert before.is_stale()
    before = settled(tmp_path)
    fill(tmp_path, "c.gguf")
    assert before.is_stale()


def test_a_folder_that_has_just_changed_is_read_again(tmp_path: Path) -> None:
    # A file that comes right after the reading may leave the time as it is.
    fill(tmp_path, "a.gguf")
    assert scan(tmp_path).is_stale()


def test_a_missing_folder_holds_nothing(tmp_path: Path) -> None:
    assert scan(tmp_path / "missing").models == ()


def test_names_that_are_no_text(tmp_path: Path) -> None:
    Path(os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9.gguf")).touch()
    assert ids(tmp_path) == ["caf\ufffd"]


def test_safe_ids() -> None:
    assert safe_id("Org/Name") == safe_id("Org__Name") == "Org__Name"
    assert safe_id("plain") == "plain"
