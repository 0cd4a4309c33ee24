"""The catalogue's TOML file."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from llmserve.model_config import LoraAdapter, ModelConfig
from llmserve.server.models import CatalogueEntry
from llmserve.server.models.catalogue_file import read_catalogue
from llmserve.server.settings import DraftSettings, SettingsError

DEFAULTS = ModelConfig(threads=3, context_length=2048)
DRAFTING = DraftSettings(draft="prompt_lookup", draft_len=2)


def read(folder: Path, text: str) -> tuple[CatalogueEntry, ...]:
    file = folder / "models.toml"
    file.write_text(text)
    return read_catalogue(file, DEFAULTS, DRAFTING)


def test_entries_have_the_servers_options_where_they_set_none(tmp_path: Path) -> None:
    plain, full = read(
        tmp_path,
        """
        [[models]]
        id = "Org/Plain"
        path = "/srv/plain.gguf"

        [[models]]
        id = "full"
        path = "below/full.gguf"
        max_new_tokens = 64
        context_length = 512
        draft = "auto"
        draft_len = 5
        draft_adaptive = false
        flash_attention = "auto"
        use_mmap = false
        kv_type_k = "q8_0"
        tensor_split = [1, 2.5]
        metadata_overrides = { "llama.rope.freq_base" = 5e5 }
        lora = ["a.gguf", "/b.gguf=0.5"]
        """,
    )
    assert plain == CatalogueEntry("Org/Plain", Path("/srv/plain.gguf"), DEFAULTS, None, DRAFTING)
    assert full.drafting == DraftSettings(draft="auto", draft_len=5, draft_adaptive=False)
    folder = Path(os.path.realpath(tmp_path))
    assert (full.id, full.path, full.max_new_tokens) == ("full", folder / "below" / "full.gguf", 64)
    assert full.config == ModelConfig(
        threads=3,
        context_length=512,
        use_mmap=False,
        kv_type_k="q8_0",
        tensor_split=(1.0, 2.5),
        metadata_overrides={"llama.rope.freq_base": 5e5},
        lora=(LoraAdapter(path=folder / "a.gguf"), LoraAdapter(path=Path("/b.gguf"), scale=0.5)),
    )


def test_paths_follow_links(tmp_path: Path) -> None:
    (tmp_path / "real.gguf").touch()
    (tmp_path / "link.gguf").symlink_to("real.gguf")
    (entry,) = read(tmp_path, '[[models]]\nid = "a"\npath = "link.gguf"')
    assert entry.path == Path(os.path.realpath(tmp_path)) / "real.gguf"


ORG = "catalogue entry 'Org/Name':"
GOOD = '[[models]]\nid = "Org/Name"\npath = "/a.gguf"\n'


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("models = 5", "catalogue: models must be an array of tables, written as [[models]]"),
        (GOOD + "\n[other]\n", "catalogue: unknown key 'other'; only [[models]] is allowed"),
        (
            GOOD + "context_lenght = 5",
            f"{ORG} the key 'context_lenght' is unknown\nhint: did you mean context_length?",
        ),
        (
            GOOD + "context_length = 0",
            "catalogue entry 'Org/Name': context_length must be from 1 to 2147483647, got 0",
        ),
        (
            GOOD + "threads = true",
            "catalogue entry 'Org/Name': threads must be a whole number, got 'true'",
        ),
        (
            GOOD + "max_new_tokens = 0",
            "catalogue entry 'Org/Name': max_new_tokens must be from 1 to 2147483647, got 0",
        ),
        (GOOD + "draft = 'head'", f"{ORG} draft must be one of off, auto, mtp, prompt_lookup, got 'head'"),
        (GOOD + "draft_len = 0", f"{ORG} draft_len must be from 1 to 8, got 0"),
        (
            GOOD + '[[models]]\nid = "other"\npath = "/a.gguf"\ndraft = "mtp"',
            "catalogue: 'other' and 'Org/Name' are the same model, because their file and load "
            "options are the "
            "same; they cannot draft differently",
        ),
        ("[[models]]\npath = 'a'", "catalogue entry 1: id must be a string, got nothing"),
        ("[[models]]\nid = 'a'", "catalogue entry 'a': path must be a string, got nothing"),
        ("[[models]]\nid = 'a'\npath = 5", "catalogue entry 'a': path must be a string, got 5"),
        (
            GOOD + '[[models]]\nid = "Org__Name"\npath = "/b.gguf"',
            "catalogue: duplicate id 'Org__Name' (an earlier entry has 'Org/Name')",
        ),
        (GOOD + GOOD, "catalogue: duplicate id 'Org/Name' (an earlier entry has 'Org/Name')"),
    ],
)
def test_what_is_wrong_is_named_with_its_entry(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(SettingsError) as caught:
        read(tmp_path, text)
    assert str(caught.value) == f"{tmp_path / 'models.toml'}: {message}"


@pytest.mark.parametrize("model_id", ["/a", "a/", " a", "a\\nb", "x" * 257])
def test_ids_that_no_path_can_hold_are_refused(tmp_path: Path, model_id: str) -> None:
    with pytest.raises(SettingsError, match="entry 1: id must be 1 to 256 printable characters"):
        read(tmp_path, f'[[models]]\nid = "{model_id}"\npath = "/a"')


def test_files_that_cannot_be_read_or_are_no_toml(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"the catalogue .*missing\.toml cannot be read: No such file"):
        read_catalogue(tmp_path / "missing.toml", DEFAULTS)
    with pytest.raises(SettingsError, match=r"the catalogue .*\.toml is not valid TOML"):
        read(tmp_path, "[[models")
    (tmp_path / "latin.toml").write_bytes(b"# \xe9")
    with pytest.raises(SettingsError, match=r"the catalogue .*\.toml is not valid TOML"):
        read_catalogue(tmp_path / "latin.toml", DEFAULTS)


def test_a_chat_template_is_text_or_a_file_beside_the_catalogue(tmp_path: Path) -> None:
    (tmp_path / "chat.jinja").write_text("{{ messages }}")
    entry = '[[models]]\nid = "{}"\npath = "/m.gguf"\n'
    by_file = 'chat_template_file = "chat.jinja"\n'
    by_text = 'chat_template = "{{ a }}"\n'
    one, two = read(tmp_path, entry.format("a") + by_file + entry.format("b") + by_text)
    assert (one.config.chat_template, two.config.chat_template) == ("{{ messages }}", "{{ a }}")
    with pytest.raises(SettingsError, match="'a': chat_template and chat_template_file cannot both be set"):
        read(tmp_path, entry.format("a") + by_file + by_text)
    with pytest.raises(SettingsError, match="'a': chat_template_file must be a file that can be read"):
        read(tmp_path, entry.format("a") + 'chat_template_file = "none.jinja"')


def test_default_sampling_of_an_entry_adds_to_the_servers(tmp_path: Path) -> None:
    entry = '[[models]]\nid = "{}"\npath = "/m.gguf"\n'
    file = tmp_path / "models.toml"
    file.write_text(entry.format("a") + "default_sampling = { top_p = 0.5, top_k = 3 }\n" + entry.format("b"))
    own, plain = read_catalogue(file, DEFAULTS, DRAFTING, {"temperature": 0.5, "top_p": 0.9})
    assert own.default_sampling == {"temperature": 0.5, "top_p": 0.5, "top_k": 3}
    assert plain.default_sampling == {"temperature": 0.5, "top_p": 0.9}
    with pytest.raises(SettingsError, match="'a': default_sampling must have only temperature"):
        read(tmp_path, entry.format("a") + "default_sampling = { max_tokens = 3 }")
