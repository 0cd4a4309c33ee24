"""Models with other chat templates than their own."""

from __future__ import annotations

import shutil
import struct
from pathlib import Path
from typing import BinaryIO

KEY = b"tokenizer.chat_template"
# Bytes of a value by its type in GGUF; strings and arrays tell their own.
SIZES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
STRING, ARRAY = 8, 9
ALIGNMENT = 32


def write_with_template(model: Path, template: str, path: Path) -> None:
    """Writes a copy of a GGUF file with another chat template."""
    with model.open("rb") as source, path.open("wb") as copy:
        begin, end, header_end = _find(source)
        source.seek(0)
        head = source.read(header_end)
        encoded = template.encode()
        head = head[:begin] + struct.pack("<Q", len(encoded)) + encoded + head[end:]
        copy.write(head.ljust(_aligned(len(head)), b"\0"))
        source.seek(_aligned(header_end))
        shutil.copyfileobj(source, copy, 1 << 20)


def _find(file: BinaryIO) -> tuple[int, int, int]:
    """Begin and end of the template, and the end of the header: what follows is aligned."""
    _, _, num_tensors, num_values = _unpack(file, "4sIQQ")
    begin = end = 0
    for _ in range(num_values):
        key = _string(file)
        (kind,) = _unpack(file, "I")
        start = file.tell()
        _skip(file, kind)
        if key == KEY:
            begin, end = start, file.tell()
    assert begin, "the model has no chat template"
    for _ in range(num_tensors):
        _string(file)
        (num_dimensions,) = _unpack(file, "I")
        file.seek(8 * num_dimensions + 4 + 8, 1)
    return begin, end, file.tell()


def _skip(file: BinaryIO, kind: int) -> None:
    if kind == STRING:
        _string(file)
    elif kind == ARRAY:
        kind, count = _unpack(file, "IQ")
        if kind in SIZES:
            file.seek(SIZES[kind] * count, 1)
        else:
            for _ in range(count):
                _skip(file, kind)
    else:
        file.seek(SIZES[kind], 1)


def _string(file: BinaryIO) -> bytes:
    (length,) = _unpack(file, "Q")
    return file.read(length)


def _unpack(file: BinaryIO, layout: str) -> tuple[int, ...]:
    return struct.unpack(f"<{layout}", file.read(struct.calcsize(f"<{layout}")))


def _aligned(position: int) -> int:
    return -(-position // ALIGNMENT) * ALIGNMENT
