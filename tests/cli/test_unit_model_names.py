"""Models by path and by name."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from llmserve.cli.errors import CommandError
from llmserve.cli.model_names import find_model, known_models
from llmserve.server.settings import Settings, parse_settings


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """Three models in the cache, one of them in a folder, and one in `MODELS_DIR`."""
    for name in (
        "cache/models/SmolLM2-135M.Q4_1.gguf",
        "cache/models/SmolLM2-360M.Q4_1.gguf",
        "cache/models/.pull-1/half.gguf",
        "cache/models/Org/Qwen3-0.6B.gguf",
        "models/Qwen3.gguf",
        "models/mmproj-Qwen3.gguf",
        "here/own.gguf",
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    monkeypatch.chdir(tmp_path / "here")
    return parse_settings(
        {"LLMSERVE_CACHE_DIR": str(tmp_path / "cache"), "MODELS_DIR": str(tmp_path / "models")}
    )


def test_all_models_that_are_known(settings: Settings) -> None:
    assert sorted(known_models(settings)) == [
        "Org/Qwen3-0.6B",
        "Qwen3",
        "SmolLM2-135M.Q4_1",
        "SmolLM2-360M.Q4_1",
    ]


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ("135m", "cache/models/SmolLM2-135M.Q4_1.gguf"),
        ("SMOLLM2-360M.q4_1.gguf", "cache/models/SmolLM2-360M.Q4_1.gguf"),
        # A whole name comes before parts of others.
        ("qwen3", "models/Qwen3.gguf"),
        ("0.6b", "cache/models/Org/Qwen3-0.6B.gguf"),
        ("org/qwen3-0.6B", "cache/models/Org/Qwen3-0.6B.gguf"),
    ],
)
def test_a_part_of_a_name_is_enough(settings: Settings, tmp_path: Path, given: str, found: str) -> None:
    assert find_model(given, settings) == tmp_path / found


@pytest.mark.parametrize("given", ["own.gguf", "./own.gguf", "../here/own.gguf"])
def test_a_path_is_what_it_says(settings: Settings, given: str) -> None:
    assert find_model(given, settings) == Path(given)


def test_a_folder_in_the_way_does_not_hide_a_name(settings: Settings, tmp_path: Path) -> None:
    Path("qwen3").mkdir()
    assert find_model("qwen3", settings) == tmp_path / "models/Qwen3.gguf"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            "smollm2",
            "smollm2 is in the names of several models: SmolLM2-135M.Q4_1, SmolLM2-360M.Q4_1\n"
            "hint: give more of the name",
        ),
        ("missing.gguf", "missing.gguf: there is no such file\nhint: llmserve list shows the models"),
        ("/no/such.gguf", "/no/such.gguf: there is no such file"),
        ("qwem3", "there is no model qwem3, neither as a file nor by name in "),
        ("ggml-org/gemma-3-1b", "there is no model ggml-org/gemma-3-1b"),
    ],
)
def test_what_is_not_found(settings: Settings, given: str, message: str) -> None:
    with pytest.raises(CommandError) as caught:
        find_model(given, settings)
    assert str(caught.value).startswith(message)


def test_hints(settings: Settings) -> None:
    for given, hint in (
        ("qwem3", "did you mean Qwen3?"),
        ("smolm2-135m", "did you mean SmolLM2-135M.Q4_1?"),
        ("ggml-org/gemma", "to download it from Hugging Face: llmserve pull hf:ggml-org/gemma"),
    ):
        with pytest.raises(CommandError) as caught:
            find_model(given, settings)
        assert str(caught.value).splitlines()[1] == f"hint: {hint}"


@pytest.mark.parametrize(
    ("files", "message"),
    [
        (["model.safetensors"], "is a folder with a model in safetensors, and llmserve needs a GGUF file"),
        (["a.gguf", "b.gguf"], "is a folder, not a GGUF file\nhint: name a file in it, or serve all of them"),
        ([], "is a folder without a GGUF file\nhint: llmserve pull"),
    ],
)
def test_folders(settings: Settings, tmp_path: Path, files: list[str], message: str) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    for file in files:
        (folder / file).touch()
    with pytest.raises(CommandError) as caught:
        find_model(folder, settings)
    assert str(caught.value).startswith(f"{folder} {message}")


def test_a_folder_with_one_model_stands_for_it(settings: Settings, tmp_path: Path) -> None:
    folder = tmp_path / "mounted"
    folder.mkdir()
    for file in ("model-00001-of-00002.gguf", "model-00002-of-00002.gguf", "config.json"):
        (folder / file).touch()
    assert find_model(folder, settings) == folder / "model-00001-of-00002.gguf"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_may_not_be_read(settings: Settings, tmp_path: Path) -> None:
    file = tmp_path / "secret.gguf"
    file.touch(0)
    with pytest.raises(CommandError, match=r"secret\.gguf cannot be read: permission denied"):
        find_model(file, settings)


def test_the_folder_of_the_cache_need_not_exist(tmp_path: Path) -> None:
    settings = parse_settings({"LLMSERVE_CACHE_DIR": str(tmp_path / "none")})
    assert known_models(settings) == {}


@pytest.mark.parametrize("name", ["", " "])
def test_an_empty_name_is_called_so(settings: Settings, name: str) -> None:
    with pytest.raises(CommandError, match="the name of the model is empty"):
        find_model(name, settings)


def test_what_cannot_be_a_repository_is_not_offered_for_download(settings: Settings) -> None:
    with pytest.raises(CommandError) as caught:
        find_model("../x", settings)
    assert "pull" not in str(caught.value)
