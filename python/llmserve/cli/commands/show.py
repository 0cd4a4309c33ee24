"""``llmserve show``: what a model's file says."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import Any

from llmserve import _core
from llmserve.cli.model_names import find_model
from llmserve.cli.output import bold, print_facts, print_json, print_table
from llmserve.errors import LoadError
from llmserve.model_config import KvType, ModelConfig
from llmserve.server.model_header import Header, read_header
from llmserve.server.settings import parse_settings
from llmserve.server.units import shown_bytes, shown_count

HELP = "show what a model's file contains"
DESCRIPTION = (
    "Shows a model's header, its chat template, and the memory that it takes with contexts of several "
    "lengths. Nothing is loaded."
)

_LENGTHS = (2048, 4096, 8192, 16384, 32768, 65536, 131072)
_CACHE_TYPES: tuple[KvType, ...] = ("f16", "q8_0")
_SHOWN_LENGTH = 60


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the model and what of it is shown."""
    parser.add_argument("model", metavar="MODEL", help="GGUF file, or a part of a model's name")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--template", action="store_true", help="print the chat template and nothing else")
    what.add_argument("--metadata", action="store_true", help="print all metadata, but for long arrays")
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def run(arguments: argparse.Namespace) -> int:
    """Prints what the file says."""
    path = find_model(arguments.model, parse_settings(os.environ))
    header = read_header(path)
    if arguments.json:
        print_json(_object(path, header))
    elif arguments.template:
        sys.stdout.write(f"{header.chat_template or ''}\n")
    elif arguments.metadata:
        print_facts([(name, _one_line(value)) for name, value in header.metadata.items()])
    else:
        _print(path, header)
    return 0


def _print(path: Path, header: Header) -> None:
    types = ", ".join(
        f"{name} {100 * count / header.num_parameters:.0f} %"
        for name, count in header.parameters_of_type.items()
    )
    facts = [
        ("file", str(path)),
        ("name", _one_line(header.metadata.get("general.name", ""))),
        ("architecture", header.architecture),
        ("parameters", shown_count(header.num_parameters)),
        ("quantization", f"{header.quantization} ({types})" if types else header.quantization),
        ("size", shown_bytes(header.size_bytes)),
        ("context length", str(header.context_length or "unknown")),
        ("licence", _one_line(header.metadata.get("general.license", ""))),
        ("chat template", _shown_template(header.chat_template)),
    ]
    print_facts([fact for fact in facts if fact[1]])
    memory = _memory(path, header)
    if not memory:
        sys.stdout.write("\nIts memory does not follow from the length of the context.\n")
        return
    sys.stdout.write(
        f"\n{bold('Memory for one sequence')} (weights and KV cache; layers with a window take less)\n"
    )
    rows = [
        (str(row["context_length"]), *(shown_bytes(row[f"bytes_{kind}"]) for kind in _CACHE_TYPES))
        for row in memory
    ]
    print_table(("CONTEXT", *(f"KV {kind.upper()}" for kind in _CACHE_TYPES)), rows, right=(0, 1, 2))


def _memory(path: Path, header: Header) -> list[dict[str, int]]:
    """The memory at several context lengths; none if that cannot be told from the header."""
    of_one = {kind: size for kind in _CACHE_TYPES if (size := _bytes_per_token(path, kind)) is not None}
    if len(of_one) < len(_CACHE_TYPES):
        return []
    trained = header.context_length or max(_LENGTHS)
    lengths = sorted({length for length in _LENGTHS if length < trained} | {min(trained, max(_LENGTHS))})
    return [
        {
            "context_length": length,
            **{f"bytes_{kind}": header.size_bytes + length * size for kind, size in of_one.items()},
        }
        for length in lengths
    ]


def _bytes_per_token(path: Path, kind: KvType) -> int | None:
    try:
        return _core.kv_bytes_per_token(path, ModelConfig(kv_type_k=kind, kv_type_v=kind))
    except LoadError:
        return None  # the rest of the header can be shown, whatever a load makes of it


def _object(path: Path, header: Header) -> dict[str, Any]:
    return {
        "path": str(path),
        "version": header.version,
        "architecture": header.architecture,
        "parameters": header.num_parameters,
        "quantization": header.quantization,
        "parameters_of_type": header.parameters_of_type,
        "tensors": header.num_tensors,
        "size_bytes": header.size_bytes,
        "context_length": header.context_length,
        "chat_template": header.chat_template,
        "memory": _memory(path, header),
        "metadata": header.metadata,
    }


def _shown_template(template: str | None) -> str:
    if template is None:
        return "none: messages are written as plain text"
    return f"{len(template)} characters (--template prints it)"


def _one_line(value: object) -> str:
    text = " ".join(str(value).split())
    return text if len(text) <= _SHOWN_LENGTH else f"{text[:_SHOWN_LENGTH]}…"
