"""The generated models: the same bytes everywhere, and the metadata that other tests rely on."""

from __future__ import annotations

import hashlib
from pathlib import Path

import gguf
import numpy as np
import pytest

from synthetic import (
    BOS,
    CHAT_TEMPLATE,
    EOS,
    FILES,
    KINDS,
    VOCABULARY,
    Kind,
    build,
    main_file,
    write_adapter,
    write_all,
    write_model,
    write_split,
)
from synthetic.__main__ import main
from synthetic.vocabulary import byte_letters

# SHA-256 over names, shapes and bytes of all tensors. A change here changes every text that tests have noted.
DIGESTS: dict[Kind, str] = {
    "llama": "414ee8410985635c52b4377af652bedce54d683436fc20baf41365a8af83ff51",
    "swa": "deed882e5729795c38302995c6959de839564012390a1222155bb64f70cf77af",
    "recurrent": "713d22f3d58539dbc79769da5cd37a5c6e56240465f1bb66c6fed0e5837a7b09",
    "hybrid": "a624b61a7fbc48bf422d5f8566062feb11349a101e98887dacaa6685751e6063",
}


def field(reader: gguf.GGUFReader, key: str) -> object:
    value = reader.get_field(key)
    assert value is not None, key
    return value.contents()


@pytest.mark.parametrize("kind", KINDS)
def test_weights_are_the_same_on_every_machine(kind: Kind) -> None:
    digest = hashlib.sha256()
    for name, tensor in build(kind).tensors.items():
        assert tensor.dtype == np.float32
        digest.update(f"{name} {tensor.shape}\n".encode() + tensor.astype("<f4").tobytes())
    assert digest.hexdigest() == DIGESTS[kind]


@pytest.mark.parametrize("kind", KINDS)
def test_a_second_write_gives_the_same_bytes(kind: Kind, tmp_path: Path) -> None:
    write_model(kind, tmp_path / "one.gguf")
    write_model(kind, tmp_path / "two.gguf")
    assert (tmp_path / "one.gguf").read_bytes() == (tmp_path / "two.gguf").read_bytes()
    assert (tmp_path / "one.gguf").stat().st_size < 700_000


@pytest.mark.parametrize(
    ("kind", "architecture", "expected"),
    [
        ("llama", "llama", {"attention.head_count": 2, "attention.head_count_kv": 1, "block_count": 3}),
        ("swa", "gemma3", {"attention.sliding_window": 32, "block_count": 4}),
        ("recurrent", "mamba", {"ssm.state_size": 8, "ssm.inner_size": 128, "block_count": 2}),
        ("hybrid", "jamba", {"attention.head_count_kv": [0, 1, 0], "ssm.conv_kernel": 4}),
    ],
)
def test_hyperparameters(kind: Kind, architecture: str, expected: dict[str, object], tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    write_model(kind, path)
    reader = gguf.GGUFReader(path)
    assert field(reader, "general.architecture") == architecture
    assert field(reader, f"{architecture}.context_length") == 4096
    assert {key: field(reader, f"{architecture}.{key}") for key in expected} == expected
    assert {tensor.name for tensor in reader.tensors} == set(build(kind).tensors)


def test_vocabulary_and_chat_template(tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    write_model("llama", path)
    reader = gguf.GGUFReader(path)
    assert field(reader, "tokenizer.ggml.model") == "gpt2"
    assert field(reader, "tokenizer.ggml.tokens") == list(VOCABULARY.tokens)
    assert field(reader, "tokenizer.ggml.bos_token_id") == VOCABULARY.id(BOS)
    assert field(reader, "tokenizer.ggml.eos_token_id") == VOCABULARY.id(EOS)
    assert field(reader, "tokenizer.ggml.add_bos_token") is True
    assert field(reader, "tokenizer.chat_template") == CHAT_TEMPLATE


def test_every_byte_is_a_token_and_live_tokens_are_whole_characters() -> None:
    letters = byte_letters()
    assert len(set(letters)) == 256
    assert list(VOCABULARY.tokens[:256]) == letters
    assert letters[ord(" ")] == "Ġ"
    values = {letter: byte for byte, letter in enumerate(letters)}
    for token in VOCABULARY.live:
        text = bytes(values[letter] for letter in VOCABULARY.tokens[token]).decode()
        assert text == "\n" or text.isprintable()


def test_merges_join_two_tokens_into_one() -> None:
    tokens = set(VOCABULARY.tokens)
    for merge in VOCABULARY.merges:
        left, right = merge.split(" ")
        assert {left, right, left + right} <= tokens


def test_write_all_writes_once(tmp_path: Path) -> None:
    folder = tmp_path / "models"
    assert main(["--all", str(folder)]) == 0
    assert {path.name for path in folder.iterdir()} == {*FILES, "version.txt"}
    before = {path.name: path.stat().st_ino for path in folder.iterdir()}
    write_all(folder)
    assert {path.name: path.stat().st_ino for path in folder.iterdir()} == before


@pytest.mark.parametrize("damage", ["stamp", "file"])
def test_write_all_renews_what_is_old_or_gone(damage: str, tmp_path: Path) -> None:
    write_all(tmp_path)
    fresh = (tmp_path / "swa.gguf").read_bytes()
    if damage == "stamp":
        (tmp_path / "version.txt").write_text("of another generator")
        (tmp_path / "swa.gguf").write_bytes(b"old")
    else:
        (tmp_path / "swa.gguf").unlink()
    write_all(tmp_path)
    assert (tmp_path / "swa.gguf").read_bytes() == fresh


def test_split_parts_hold_the_whole_model(tmp_path: Path) -> None:
    write_split(tmp_path)
    parts = [gguf.GGUFReader(tmp_path / f"split-0000{number}-of-00002.gguf") for number in (1, 2)]
    assert [field(part, "split.no") for part in parts] == [0, 1]
    assert [field(part, "split.count") for part in parts] == [2, 2]
    assert field(parts[0], "general.architecture") == "llama"
    names = [tensor.name for part in parts for tensor in part.tensors]
    assert sorted(names) == sorted(build("llama").tensors)
    assert [field(part, "split.tensors.count") for part in parts] == [len(names)] * 2


def test_adapter_fits_the_llama_model(tmp_path: Path) -> None:
    path = tmp_path / "lora.gguf"
    write_adapter(path)
    reader = gguf.GGUFReader(path)
    assert field(reader, "general.type") == "adapter"
    assert field(reader, "adapter.type") == "lora"
    shapes = {tensor.name: tensor.data.shape for tensor in reader.tensors}
    tensors = build("llama").tensors
    for name in {name.rsplit(".", 1)[0] for name in shapes}:
        (rank, inputs), (outputs, other_rank) = shapes[f"{name}.lora_a"], shapes[f"{name}.lora_b"]
        assert rank == other_rank
        assert tensors[name].shape == (outputs, inputs)


def test_command_line_writes_one_model(tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    assert main(["hybrid", str(path)]) == 0
    write_model("hybrid", tmp_path / main_file("hybrid"))
    assert path.read_bytes() == (tmp_path / "hybrid.gguf").read_bytes()


@pytest.mark.parametrize("arguments", [[], ["llama"], ["--all", "folder", "llama"], ["gpt", "out.gguf"]])
def test_command_line_refuses_half_an_order(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(arguments)
    assert "usage" in capsys.readouterr().err
