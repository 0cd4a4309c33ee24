"""`list`, `show` and `rm`: what they say of generated models and of files that are not models."""

from __future__ import annotations

import io
import json
import shutil
from pathlib import Path
from typing import Any

import gguf
import pytest

from llmserve import SyncEngine
from llmserve.cli import main
from llmserve.server.model_header import HeaderError, read_header
from llmserve.server.models.memory import kv_bytes
from synthetic import main_file

SPLIT_FILES = ("split-00001-of-00002.gguf", "split-00002-of-00002.gguf")


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def shown(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main(list(words)) == 0
    return capsys.readouterr().out


@pytest.mark.parametrize("name", ["llama.gguf", "swa.gguf", "recurrent.gguf", "bert-mean.gguf"])
def test_a_header_is_read_as_the_gguf_package_reads_it(tiny_models: Path, name: str) -> None:
    path = tiny_models / name
    header, expected = read_header(path), gguf.GGUFReader(path)
    assert header.num_tensors == len(expected.tensors)
    assert header.num_parameters == sum(int(tensor.n_elements) for tensor in expected.tensors)
    assert set(header.parameters_of_type) == {tensor.tensor_type.name for tensor in expected.tensors}
    assert header.size_bytes == path.stat().st_size
    for key, value in header.metadata.items():
        assert value == expected.fields[key].contents()


def test_the_parts_of_a_split_model_are_one(tiny_models: Path) -> None:
    whole, split = read_header(tiny_models / main_file("llama")), read_header(tiny_models / SPLIT_FILES[0])
    assert (split.num_parameters, split.num_tensors) == (whole.num_parameters, whole.num_tensors)
    assert split.size_bytes == sum((tiny_models / name).stat().st_size for name in SPLIT_FILES)


def test_quantizations_have_their_names(model_path: Path) -> None:
    header = read_header(model_path)
    assert header.quantization == "Q4_1"
    assert set(header.parameters_of_type) == {"Q4_1", "Q8_0", "F32"}


def test_no_cut_of_a_header_is_read(tiny_model: Path, tmp_path: Path) -> None:
    content = tiny_model.read_bytes()
    end_of_header = read_end(tiny_model)
    path = tmp_path / "cut.gguf"
    for length in range(4, end_of_header, 97):
        path.write_bytes(content[:length])
        with pytest.raises(HeaderError, match=r"cut\.gguf (ends inside|is damaged)"):
            read_header(path)


def read_end(path: Path) -> int:
    """Where the header ends: the tensors' data begins at the next multiple of 32."""
    return int(gguf.GGUFReader(path).tensors[0].data_offset) - 32


@pytest.mark.parametrize("content", [b"", b"GG", b"<!doctype html>", b"GGUF" + bytes(20)])
def test_what_is_not_a_model(tmp_path: Path, content: bytes, cache: Path) -> None:
    path = tmp_path / "a.gguf"
    path.write_bytes(content)
    assert main(["show", str(path)]) == 1
    with pytest.raises(HeaderError, match=r"is not a GGUF file|the version 0 is unknown"):
        read_header(path)


def test_the_list(
    cache: Path,
    tiny_model: Path,
    tiny_models: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    shutil.copy(tiny_model, cache / "Tiny.gguf")
    (cache / "org").mkdir()
    shutil.copy(tiny_models / "recurrent.gguf", cache / "org" / "other.gguf")
    (cache / "broken.gguf").write_bytes(b"<!doctype html>")
    (cache / ".partial-1").write_bytes(b"GGUF")
    lines = shown(capsys, "list").splitlines()
    assert lines[0].split() == ["NAME", "SIZE", "QUANT", "PARAMS", "ARCHITECTURE"]
    assert lines[1].split() == ["Tiny", "515", "KiB", "F32", "129.9K", "llama"]
    assert lines[2].startswith("broken")
    assert "is not a GGUF file" in lines[2]
    assert lines[3].split()[0] == "org/other"
    assert len(lines) == 4
    models = json.loads(shown(capsys, "list", "--json"))
    assert [model["name"] for model in models] == ["Tiny", "broken", "org/other"]
    assert models[0]["path"] == str(cache / "Tiny.gguf")
    assert models[0]["size_bytes"] == tiny_model.stat().st_size
    assert "error" in models[1]

    monkeypatch.setenv("MODELS_DIR", str(tmp_path / "more"))
    (tmp_path / "more").mkdir()
    shutil.copy(tiny_model, tmp_path / "more" / "third.gguf")
    assert "third" in shown(capsys, "list")


def test_an_empty_list_says_what_to_do(cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list"]) == 0
    out, err = capsys.readouterr()
    assert (out, err) == ("", f"there are no models in {cache}\nhint: llmserve pull downloads one\n")
    assert json.loads(shown(capsys, "list", "--json")) == []


def test_the_memory_is_what_an_engine_takes(tiny_model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found: dict[str, Any] = json.loads(shown(capsys, "show", str(tiny_model), "--json"))
    by_length = {row["context_length"]: row for row in found["memory"]}
    assert list(by_length) == [2048, 4096]
    for kind in ("f16", "q8_0"):
        with SyncEngine.load(
            tiny_model, context_length=2048, max_sequences=1, kv_type_k=kind, kv_type_v=kind, threads=1
        ) as engine:
            taken = kv_bytes(engine.info)
        assert by_length[2048][f"bytes_{kind}"] == found["size_bytes"] + taken


def test_a_model_is_shown(tiny_models: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = shown(capsys, "show", str(tiny_models / "llama.gguf"))
    facts = dict(line.split(maxsplit=1) for line in text.splitlines()[:5])
    assert facts["architecture"] == "llama"
    assert facts["parameters"] == "129.9K"
    assert "\x1b" not in text
    assert "Memory for one sequence" in text
    assert "does not follow" in shown(capsys, "show", str(tiny_models / "recurrent.gguf"))
    template = shown(capsys, "show", str(tiny_models / "llama.gguf"), "--template")
    assert template.rstrip("\n") == read_header(tiny_models / "llama.gguf").chat_template
    assert "general.architecture" in shown(capsys, "show", str(tiny_models / "llama.gguf"), "--metadata")


def test_emphasis_is_for_terminals(tiny_model: Path, monkeypatch: pytest.MonkeyPatch, cache: Path) -> None:
    terminal = Terminal()
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setattr("sys.stdout", terminal)
    assert main(["show", str(tiny_model)]) == 0
    assert "\x1b[1mMemory" in terminal.getvalue()
    monkeypatch.setenv("NO_COLOR", "1")
    terminal.truncate(0)
    assert main(["show", str(tiny_model)]) == 0
    assert "\x1b" not in terminal.getvalue()


def test_a_model_is_removed_with_all_its_parts_and_its_folder(
    cache: Path, tiny_models: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (cache / "org").mkdir()
    for name in SPLIT_FILES:
        shutil.copy(tiny_models / name, cache / "org" / name)
    (cache / "other.gguf").write_bytes(b"GGUF")
    assert main(["rm", "split"]) == 1
    assert "hint: --yes removes it" in capsys.readouterr().err
    assert shown(capsys, "rm", "split", "--yes") == f"removed {cache / 'org' / SPLIT_FILES[0]}\n"
    assert [path.name for path in cache.iterdir()] == ["other.gguf"]


@pytest.mark.parametrize(("answer", "is_kept"), [("y\n", False), ("\n", True), ("no\n", True)])
def test_a_question_comes_first(
    cache: Path, monkeypatch: pytest.MonkeyPatch, answer: str, is_kept: bool
) -> None:
    (cache / "a.gguf").write_bytes(b"GGUF")
    monkeypatch.setattr("sys.stdin", Terminal(answer))
    assert main(["rm", "a"]) == int(is_kept)
    assert (cache / "a.gguf").exists() is is_kept


def test_only_what_is_in_the_cache_is_removed(
    cache: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    elsewhere = tmp_path / "mine.gguf"
    elsewhere.write_bytes(b"GGUF")
    assert main(["rm", str(elsewhere), "--yes"]) == 1
    assert f"{elsewhere} is not in " in capsys.readouterr().err
    # A link is removed, and not where it leads.
    (cache / "link.gguf").symlink_to(elsewhere)
    assert main(["rm", "link", "--yes"]) == 0
    assert elsewhere.exists()
    assert list(cache.iterdir()) == []
    (cache / "folder").symlink_to(tmp_path)
    assert main(["rm", str(cache / "folder" / "mine.gguf"), "--yes"]) == 1
    assert elsewhere.exists()
