"""Copies of GGUF files with other metadata."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import gguf

# A value with its type, a list with the type of its elements, or `None` for a key that is taken out.
Change = tuple[gguf.GGUFValueType, object] | None


def write_changed(source: Path, target: Path, changes: Mapping[str, Change]) -> None:
    """Write the model in `source` to `target`, with changed metadata."""
    reader = gguf.GGUFReader(source)
    writer = gguf.GGUFWriter(target, "unused")
    pairs: dict[str, Change] = {
        name: (field.types[-1], field.contents())
        for name, field in reader.fields.items()
        if not name.startswith("GGUF.")
    }
    # The writer puts the architecture first by itself.
    writer.kv_data[0].clear()
    for name, change in (pairs | dict(changes)).items():
        if change is None:
            continue
        kind, value = change
        if isinstance(value, Sequence) and not isinstance(value, str):
            writer.add_key_value(name, list(value), gguf.GGUFValueType.ARRAY, kind)
        else:
            writer.add_key_value(name, value, kind)
    for tensor in reader.tensors:
        writer.add_tensor(tensor.name, tensor.data)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
