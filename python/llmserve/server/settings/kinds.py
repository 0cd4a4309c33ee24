"""How the text of a setting becomes a value. Every kind says, for messages and help, what it accepts."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from llmserve.model_config import LoraAdapter
from llmserve.server.api_keys import ApiKeys


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of setting.

    ``parse`` raises a ``ValueError`` whose text completes the sentence "NAME ...".
    """

    takes: str
    parse: Callable[[str], Any]
    metavar: str
    choices: tuple[str, ...] = ()
    is_switch: bool = False
    based: Callable[[str, Path], str] = lambda text, folder: text
    """The text with its relative paths starting at a folder."""


_TRUE = frozenset({"1", "true", "yes", "on"})
_FALSE = frozenset({"0", "false", "no", "off"})


def _parse_switch(text: str) -> bool:
    lowered = text.lower()
    if lowered in _TRUE:
        return True
    if lowered in _FALSE:
        return False
    raise ValueError(f"must be true or false, got {text!r}")


SWITCH = Kind("true or false", _parse_switch, "BOOL", is_switch=True)


def integer(minimum: int, maximum: int) -> Kind:
    """A whole number from ``minimum`` to ``maximum``."""

    def parse(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            raise ValueError(f"must be a whole number, got {text!r}") from None
        return within(value, minimum, maximum)

    return Kind(f"{minimum} to {maximum}", parse, "N")


def within(value: int, minimum: int, maximum: int) -> int:
    """The value. Raises `ValueError` if it is out of range."""
    if not minimum <= value <= maximum:
        raise ValueError(f"must be from {minimum} to {maximum}, got {value}")
    return value


def number(minimum: float, maximum: float = math.inf) -> Kind:
    """A finite number of at least ``minimum``."""

    def parse(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            raise ValueError(f"must be a number, got {text!r}") from None
        if not math.isfinite(value) or not minimum <= value <= maximum:
            raise ValueError(f"must be a finite number{_range_words(minimum, maximum)}, got {text}")
        return value

    return Kind(f"a number{_range_words(minimum, maximum)}", parse, "NUMBER")


def _range_words(minimum: float, maximum: float) -> str:
    if minimum == -math.inf:
        return ""
    return f" of at least {minimum:g}" if maximum == math.inf else f" from {minimum:g} to {maximum:g}"


def choice(*names: str) -> Kind:
    """One of a few names."""

    def parse(text: str) -> str:
        lowered = text.lower()
        if lowered not in names:
            raise ValueError(f"must be one of {', '.join(names)}, got {text!r}")
        return lowered

    return Kind(" or ".join((", ".join(names[:-1]), names[-1])), parse, "NAME", choices=names)


def _parse_auto_switch(text: str) -> bool | None:
    return None if text.lower() == "auto" else _parse_switch(text)


AUTO_SWITCH = Kind("auto, true or false", _parse_auto_switch, "BOOL")

TEXT = Kind("text", lambda text: text, "TEXT")


_ENDPOINT = re.compile(r"tcp://[^\s/]+:(\d{1,5})|ipc://\S+")


def _parse_endpoint(text: str) -> str:
    found = _ENDPOINT.fullmatch(text)
    if found is None or (found[1] is not None and not 1 <= int(found[1]) <= 65535):
        raise ValueError(f"must be tcp://HOST:PORT or ipc://PATH, got {text!r}")
    return text


ENDPOINT = Kind("`tcp://HOST:PORT` or `ipc://PATH`", _parse_endpoint, "ADDRESS")


def _parse_path(text: str) -> Path:
    if "\0" in text:
        raise ValueError("must not contain a NUL character")
    return Path(text).expanduser()


def _based(text: str, folder: Path) -> str:
    return str(folder / _parse_path(text))


PATH = Kind("a path", _parse_path, "PATH", based=_based)


def _parse_folder(text: str) -> Path:
    path = _parse_path(text)
    if not path.is_dir():
        raise ValueError(f"must be a folder that exists, got {text!r}")
    return path


FOLDER = Kind("a folder", _parse_folder, "FOLDER", based=_based)


def _based_model(text: str, folder: Path) -> str:
    # A short name stays one.
    return _based(text, folder) if text.lower().endswith(".gguf") or "/" in text else text


MODEL = Kind("a path or a name", _parse_path, "PATH", based=_based_model)


def _parse_text_file(text: str) -> str:
    try:
        return _parse_path(text).read_text("utf-8")
    except OSError as error:
        raise ValueError(
            f"must be a file that can be read, got {text!r}: {error.strerror or error}"
        ) from None
    except UnicodeDecodeError:
        raise ValueError(f"must be a file in UTF-8, got {text!r}") from None


TEXT_FILE = Kind("a path", _parse_text_file, "PATH", based=_based)


def _parse_names(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())


NAMES = Kind("comma-separated names", _parse_names, "NAMES")


_HOST = re.compile(r"\*|(\*\.)?[a-z0-9_-]+(\.[a-z0-9_-]+)*|[0-9a-f:.]*:[0-9a-f:.]*")


def _parse_hosts(text: str) -> tuple[str, ...]:
    hosts = tuple(name.lower().removeprefix("[").removesuffix("]") for name in _parse_names(text))
    for host in hosts:
        if not _HOST.fullmatch(host):
            raise ValueError(f"must be names such as llm.example or *.example, without a port, got {host!r}")
    return hosts


HOSTS = Kind("comma-separated host names, `*.NAME` or `*`", _parse_hosts, "NAMES")


_ORIGIN = re.compile(r"[a-z][a-z0-9+.-]*://([a-z0-9._-]+|\[[0-9a-f:.]+\])(:[0-9]{1,5})?", re.IGNORECASE)


def _parse_origins(text: str) -> tuple[str, ...]:
    origins = _parse_names(text)
    for origin in origins:
        if origin not in ("*", "localhost") and not _ORIGIN.fullmatch(origin):
            raise ValueError(
                f"must be origins such as https://app.example, without a path, localhost or *, got {origin!r}"
            )
    return origins


ORIGINS = Kind("comma-separated origins, `localhost` or `*`", _parse_origins, "ORIGINS")


def _parse_keys(text: str) -> ApiKeys:
    return _checked_keys(_parse_names(text))


def _checked_keys(keys: Sequence[str]) -> ApiKeys:
    if not keys:
        raise ValueError("must contain at least one key, got none")
    for number, key in enumerate(keys, 1):
        # The message must not show the key.
        if not (key.isascii() and key.isprintable()) or " " in key:
            raise ValueError(
                f"must be keys of printable ASCII characters without spaces; key {number} is not"
            )
    return ApiKeys(keys)


KEYS = Kind("comma-separated keys", _parse_keys, "KEYS")


def _parse_keys_file(text: str) -> ApiKeys:
    return _checked_keys([line.strip() for line in _parse_text_file(text).splitlines() if line.strip()])


KEYS_FILE = Kind("a path", _parse_keys_file, "PATH", based=_based)

_MAX_ID_LENGTH = 256


def _parse_model_id(text: str) -> str:
    if not 0 < len(text) <= _MAX_ID_LENGTH or not text.isprintable() or text.strip("/ ") != text:
        raise ValueError(
            f"must be 1 to {_MAX_ID_LENGTH} printable characters, without a slash or a space at either end, "
            f"got {text[:_MAX_ID_LENGTH]!r}"
        )
    return text


MODEL_ID = Kind("a name", _parse_model_id, "NAME")


def _parse_numbers(text: str) -> tuple[float, ...]:
    one = number(0.0)
    return tuple(one.parse(part) for part in _parse_names(text))


NUMBERS = Kind("comma-separated numbers", _parse_numbers, "NUMBERS")


def parse_object(text: str) -> dict[str, Any]:
    """A JSON object. Raises `ValueError` for any other text."""
    try:
        value = json.loads(text)
    except ValueError as error:
        raise ValueError(f"must be a JSON object, got invalid JSON ({error})") from None
    if not isinstance(value, dict):
        raise ValueError("must be a JSON object")
    return value


def _parse_metadata(text: str) -> Mapping[str, int | float | bool | str]:
    value = parse_object(text)
    for key, item in value.items():
        if not isinstance(item, int | float | bool | str):
            raise ValueError(
                f"must map names to numbers, booleans or strings; the value of {key!r} is something else"
            )
    return value


METADATA = Kind('a JSON object, such as `{"llama.rope.freq_base": 5e5}`', _parse_metadata, "JSON")


def _parse_adapter(text: str) -> LoraAdapter:
    path, separator, scale = text.rpartition("=")
    if not separator:
        return LoraAdapter(path=text)
    return LoraAdapter(path=path, scale=number(-math.inf).parse(scale))


def _parse_adapters(text: str) -> Sequence[LoraAdapter]:
    return tuple(_parse_adapter(part) for part in _parse_names(text))


def _based_adapters(text: str, folder: Path) -> str:
    return ",".join(_based(part, folder) for part in _parse_names(text))


ADAPTERS = Kind("comma-separated `PATH` or `PATH=SCALE`", _parse_adapters, "PATHS", based=_based_adapters)
