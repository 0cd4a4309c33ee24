"""Reads the header of a GGUF file: its metadata and the shapes of its tensors, without loading anything.

The format is described in ggml's ``docs/gguf.md``. A file that is loaded is checked by the engine itself.
"""

from __future__ import annotations

import math
import mmap
import os
import struct
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from llmserve.server.model_files import parts

_MAGIC = b"GGUF"
_VERSIONS = (2, 3)
_STRING, _ARRAY = 8, 9
_SCALARS: Mapping[int, str] = dict(enumerate("BbHhIif?")) | {10: "Q", 11: "q", 12: "d"}
_MAX_ITEMS = 1024
"""Longer arrays, such as vocabularies, are passed over."""
_MAX_DIMENSIONS = 8
_LENGTH = struct.Struct("<Q")

_TENSOR_TYPES = (  # noqa: SIM905 - a list of as many quotes is harder to read
    "F32 F16 Q4_0 Q4_1 - - Q5_0 Q5_1 Q8_0 Q8_1 Q2_K Q3_K Q4_K Q5_K Q6_K Q8_K IQ2_XXS IQ2_XS IQ3_XXS IQ1_S "
    "IQ4_NL IQ3_S IQ2_S IQ4_XS I8 I16 I32 I64 F64 IQ1_M BF16 - - - TQ1_0 TQ2_0 - - - MXFP4"
).split()
"""By the number of a `ggml_type`."""

_FILE_TYPES = (  # noqa: SIM905
    "F32 F16 Q4_0 Q4_1 - - - Q8_0 Q5_0 Q5_1 Q2_K Q3_K_S Q3_K_M Q3_K_L Q4_K_S Q4_K_M Q5_K_S Q5_K_M Q6_K "
    "IQ2_XXS IQ2_XS Q2_K_S IQ3_XS IQ3_XXS IQ1_S IQ4_NL IQ3_S IQ3_M IQ2_S IQ2_M IQ4_XS IQ1_M BF16 - - - TQ1_0 "
    "TQ2_0 MXFP4_MOE"
).split()
"""By the number of a `llama_ftype`."""


class HeaderError(Exception):
    """The header of a file cannot be read; the text says why, and perhaps what to do."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(f"{message}\nhint: {hint}" if hint else message)


@dataclass(frozen=True, slots=True)
class Header:
    """What the files of a model say of it."""

    version: int
    metadata: Mapping[str, Any]
    """Without arrays that are long or contain text."""
    num_tensors: int
    num_parameters: int
    parameters_of_type: Mapping[str, int]
    """Type of tensor -> number of weights, the most frequent first."""
    size_bytes: int

    @property
    def architecture(self) -> str:
        """The name of the architecture; empty if the file does not say."""
        return str(self.metadata.get("general.architecture", ""))

    @property
    def quantization(self) -> str:
        """How the weights are quantized: the file's type, or else the type of most weights."""
        named = _named(_FILE_TYPES, self.metadata.get("general.file_type"))
        if named:
            return named
        return next(iter(self.parameters_of_type), "")

    @property
    def context_length(self) -> int | None:
        """The context length that the model was trained with, in tokens."""
        value = self.metadata.get(f"{self.architecture}.context_length")
        return value if isinstance(value, int) else None

    @property
    def chat_template(self) -> str | None:
        """The chat template (Jinja)."""
        value = self.metadata.get("tokenizer.chat_template")
        return value if isinstance(value, str) else None


def read_header(path: Path) -> Header:
    """Reads the header of a model: of a split one, those of all parts.

    Raises:
        HeaderError: A file cannot be read, or is not a GGUF file of a known version.
    """
    files = parts(path)
    readers = [_read(file) for file in files]
    types: Counter[str] = Counter()
    for reader in readers:
        types.update(reader.parameters_of_type)
    return Header(
        version=readers[0].version,
        metadata=readers[0].metadata,
        num_tensors=sum(reader.num_tensors for reader in readers),
        num_parameters=sum(types.values()),
        parameters_of_type=dict(types.most_common()),
        size_bytes=sum(reader.size for reader in readers),
    )


def _read(path: Path) -> _Reader:
    try:
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            if size < len(_MAGIC) or file.read(len(_MAGIC)) != _MAGIC:
                raise HeaderError(f"{path} is not a GGUF file", "llmserve loads models in the format GGUF")
            with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
                return _Reader(data)
    except OSError as error:
        raise HeaderError(f"{path} cannot be read: {(error.strerror or str(error)).lower()}") from None
    except struct.error:
        raise HeaderError(f"{path} ends inside its header", "get the file again") from None
    except (ValueError, KeyError, IndexError, OverflowError) as error:
        raise HeaderError(f"the header of {path} is damaged: {error}", "get the file again") from None


class _Reader:
    """What one file says. Raises `struct.error` at its end, `ValueError` or `KeyError` for a wrong value."""

    def __init__(self, data: mmap.mmap) -> None:
        self._data = data
        self._at = len(_MAGIC)
        self.size = len(data)
        self.version = self._take("I")
        if self.version not in _VERSIONS:
            raise ValueError(f"the version {self.version} is unknown")
        self.num_tensors = self._take("Q")
        num_values = self._take("Q")
        self.metadata: dict[str, Any] = {}
        for _ in range(num_values):
            key = self._text()
            value = self._value(self._take("I"))
            if value is not None:
                self.metadata[key] = value
        self.parameters_of_type: Counter[str] = Counter()
        for _ in range(self.num_tensors):
            self._tensor()

    def _take(self, kind: str) -> Any:
        form = struct.Struct(f"<{kind}")
        (value,) = form.unpack_from(self._data, self._at)
        self._at += form.size
        return value

    def _text(self) -> str:
        length = self._take("Q")
        begin, self._at = self._at, self._at + length
        if self._at > self.size:
            raise ValueError("a text goes beyond the end of the file")
        return self._data[begin : self._at].decode("utf-8", "replace")

    def _value(self, kind: int) -> Any:
        if kind == _STRING:
            return self._text()
        if kind == _ARRAY:
            return self._array(self._take("I"), self._take("Q"))
        return self._take(_SCALARS[kind])

    def _array(self, kind: int, length: int) -> list[Any] | None:
        """The items; ``None`` for an array that is passed over."""
        if kind == _STRING:
            for _ in range(length):
                self._at += 8 + self._length_at(self._at)
            return None
        if kind == _ARRAY:
            raise ValueError("an array contains arrays")
        form = struct.Struct(f"<{_SCALARS[kind]}")
        begin, self._at = self._at, self._at + form.size * length
        if self._at > self.size:
            raise ValueError("an array goes beyond the end of the file")
        if length > _MAX_ITEMS:
            return None
        return [value for (value,) in form.iter_unpack(self._data[begin : self._at])]

    def _length_at(self, at: int) -> int:
        length: int = _LENGTH.unpack_from(self._data, at)[0]
        return length

    def _tensor(self) -> None:
        self._text()
        num_dimensions = self._take("I")
        if num_dimensions > _MAX_DIMENSIONS:
            raise ValueError(f"a tensor has {num_dimensions} dimensions")
        count = math.prod(self._take("Q") for _ in range(num_dimensions))
        kind = self._take("I")
        self._take("Q")
        self.parameters_of_type[_named(_TENSOR_TYPES, kind) or f"type {kind}"] += count


def _named(names: list[str], number: object) -> str:
    """The name of a number; empty if it has none."""
    if not isinstance(number, int) or not 0 <= number < len(names) or names[number] == "-":
        return ""
    return names[number]
