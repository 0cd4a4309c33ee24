"""Models as people name them: a path, or a part of the name of a file that llmserve knows."""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path

from llmserve.cli.errors import CommandError
from llmserve.server.model_files import entries
from llmserve.server.settings import Settings
from llmserve.server.spelling import closest

_SUFFIX = ".gguf"
_NUM_SHOWN = 5
_SEE_LIST = "llmserve list shows the models that are there"
_REPOSITORY = re.compile(r"\w[\w.-]*/\w[\w.-]*")


def find_model(given: str | os.PathLike[str], settings: Settings) -> Path:
    """The file of a model that is given by its path or by a part of its name.

    Names are those of the files in the cache and in ``MODELS_DIR``, in any case; a whole name comes first. A
    folder with one model stands for it.

    Raises:
        CommandError: There is no such file, or several have the name, or it cannot be a model.
    """
    text = os.fspath(given)
    if not text.strip():
        raise CommandError("the name of the model is empty", _SEE_LIST)
    path = Path(text).expanduser()
    if not _is_file(path) and not _is_path(text) and (named := _named(text, settings)) is not None:
        return named
    if (only := _only_model_in(path)) is not None:
        return only
    check_file(path, text)
    return path


def known_models(settings: Settings) -> dict[str, Path]:
    """The models in the cache and in ``MODELS_DIR`` by name: ``Name``, or ``Org/Name`` for one in a folder.

    Of several files with one name the first counts.
    """
    found: dict[str, Path] = {}
    for folder in settings.model_folders:
        try:
            files, folders = entries(folder)
            for below in folders:
                files += entries(below)[0]
        except OSError:
            continue
        for file in files:
            name = file.stem if file.parent == folder else f"{file.parent.name}/{file.stem}"
            found.setdefault(name, file)
    return found


def check_file(path: Path, shown: str) -> None:
    """Refuses what cannot be a model, before anything is loaded; ``shown`` is how errors name it.

    Raises:
        CommandError: There is no such file, it cannot be read, or it is a folder.
    """
    try:
        mode = path.stat().st_mode
        if stat.S_ISDIR(mode):
            raise _folder(path, shown)
        # A pipe would wait for its other end.
        if stat.S_ISREG(mode):
            path.open("rb").close()
    except FileNotFoundError:
        raise CommandError(f"{shown}: there is no such file", _hint(shown)) from None
    except OSError as error:
        raise CommandError(f"{shown} cannot be read: {(error.strerror or str(error)).lower()}") from None


def _only_model_in(folder: Path) -> Path | None:
    try:
        files, _ = entries(folder)
    except OSError:  # perhaps not a folder
        return None
    return files[0] if len(files) == 1 else None


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:  # a folder on the way may not be entered
        return False


def _is_path(text: str) -> bool:
    return text.startswith(("~", ".")) or ("/" in text and not _looks_like_a_name(text))


def _looks_like_a_name(text: str) -> bool:
    """Whether it may be ``Org/Name``."""
    return text.count("/") == 1 and not text.startswith("/") and not Path(text).exists()


def _named(text: str, settings: Settings) -> Path | None:
    wanted = text.lower().removesuffix(_SUFFIX)
    models = known_models(settings)
    whole = [name for name in models if wanted in (name.lower(), Path(name).name.lower())]
    found = whole if len(whole) == 1 else [name for name in models if wanted in name.lower()]
    if len(found) > 1:
        shown = ", ".join(sorted(found)[:_NUM_SHOWN]) + (", …" if len(found) > _NUM_SHOWN else "")
        raise CommandError(f"{text} is in the names of several models: {shown}", "give more of the name")
    if found:
        return models[found[0]]
    if text.lower().endswith(_SUFFIX) or Path(text).exists():
        return None
    # Only the beginning of a name is typed.
    begins = {name[: len(text)]: name for name in models}
    near = closest(text, begins)
    hint = f"did you mean {begins[near]}?" if near else _hint(text)
    folders = " and ".join(map(str, settings.model_folders))
    raise CommandError(f"there is no model {text}, neither as a file nor by name in {folders}", hint)


def _hint(text: str) -> str:
    if _REPOSITORY.fullmatch(text) and not text.endswith(_SUFFIX):
        return f"to download it from Hugging Face: llmserve pull hf:{text}"
    return _SEE_LIST


def _folder(path: Path, shown: str) -> CommandError:
    try:
        names = {file.suffix.lower() for file in path.iterdir()}
    except OSError:
        names = set()
    if _SUFFIX in names:
        hint = f"name a file in it, or serve all of them: llmserve serve --models-dir {shown}"
        return CommandError(f"{shown} is a folder, not a GGUF file", hint)
    if ".safetensors" in names:
        return CommandError(
            f"{shown} is a folder with a model in safetensors, and llmserve needs a GGUF file",
            "convert it with llama.cpp's convert_hf_to_gguf.py, or get its GGUF file",
        )
    return CommandError(f"{shown} is a folder without a GGUF file", "llmserve pull downloads models")
