"""Pure functions: what a file's header and a loaded model say -> wire."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from llmserve.server.apis.ollama.answers import timestamp
from llmserve.server.apis.ollama.names import listed
from llmserve.server.apis.ollama.schema import OPTIONS
from llmserve.server.apis.ollama.thinking import thinks
from llmserve.server.model_header import Header
from llmserve.server.models import CatalogueEntry, Model, ModelKind, ModelReport
from llmserve.server.units import shown_count
from llmserve.types import ModelInfo

_TEMPLATE = "tokenizer.chat_template"
_INFILL = ("tokenizer.ggml.fim_mid_token_id", "tokenizer.ggml.middle_token_id")
"""Of the tokens that frame an infill, the one that no model is without. Not all files name it: a loaded model
knows."""
_WIRE_NAMES: Mapping[str, str] = {entry.name: entry.field.wire or entry.name for entry in OPTIONS.entries}


@dataclass(frozen=True, slots=True)
class ModelFile:
    """A model's file, as far as it can be read."""

    path: Path
    size_bytes: int = 0
    changed_ns: int = 0
    header: Header | None = None

    @property
    def facts(self) -> dict[str, Any]:
        """What all lists have of it. The digest is of the file's place, size and time, not of its content."""
        identity = f"{self.path}\0{self.size_bytes}\0{self.changed_ns}"
        return {
            "size": self.size_bytes,
            "digest": hashlib.sha256(identity.encode("utf-8", "surrogateescape")).hexdigest(),
            "details": self.details,
        }

    @property
    def details(self) -> dict[str, Any]:
        """Ollama's `details`."""
        header = self.header
        family = "" if header is None else header.architecture
        return {
            "parent_model": "",
            "format": "gguf",
            "family": family,
            "families": [family] if family else [],
            "parameter_size": "" if header is None else shown_count(header.num_parameters),
            "quantization_level": "" if header is None else header.quantization,
        }

    @property
    def modified_at(self) -> str:
        """When it last changed."""
        return timestamp(datetime.fromtimestamp(self.changed_ns / 1e9, UTC))


def named(model_id: str) -> dict[str, str]:
    """A model's name, under the two keys that Ollama has for it."""
    return {"name": listed(model_id), "model": listed(model_id)}


def available(entry: CatalogueEntry, file: ModelFile) -> dict[str, Any]:
    """An item of `/api/tags`."""
    return {**named(entry.id), "modified_at": file.modified_at, **file.facts}


def running(model: Model, report: ModelReport, file: ModelFile, expires_at: datetime) -> dict[str, Any]:
    """An item of `/api/ps`."""
    size = report.memory_bytes or file.size_bytes
    info = None if model.handle is None else model.handle.info
    gpu_share = 0.0 if info is None else info.num_gpu_layers / (info.num_layers + 1)
    return {
        **named(model.id),
        **file.facts,
        "size": size,
        "size_vram": int(size * min(1.0, gpu_share)),
        "context_length": 0 if info is None else info.context_length,
        "expires_at": timestamp(expires_at),
    }


def described(
    entry: CatalogueEntry, file: ModelFile, kind: ModelKind | None, info: ModelInfo | None
) -> dict[str, Any]:
    """The answer of `/api/show`; ``info`` is there if the model is loaded."""
    context_length = entry.config.context_length if info is None else info.context_length
    metadata = {} if file.header is None else file.header.metadata
    template = entry.config.chat_template or str(metadata.get(_TEMPLATE, ""))
    num_parameters = 0 if file.header is None else file.header.num_parameters
    return {
        "license": str(metadata.get("general.license", "")),
        "modelfile": f"# llmserve has no Modelfiles.\nFROM {listed(entry.id)}\n",
        "parameters": "\n".join(_parameters(entry, context_length)),
        "template": template,
        "details": file.details,
        "model_info": {
            "general.parameter_count": num_parameters,
            **{name: value for name, value in metadata.items() if name != _TEMPLATE},
        },
        "capabilities": _capabilities(kind, template, metadata, info),
        "modified_at": file.modified_at,
    }


def _parameters(entry: CatalogueEntry, context_length: int | None) -> Iterator[str]:
    """The settings of a model, as lines."""
    values = {_WIRE_NAMES.get(name, name): value for name, value in entry.default_sampling.items()}
    if context_length is not None:
        values = {"num_ctx": context_length, **values}
    for name, value in values.items():
        for item in value if isinstance(value, list | tuple) else [value]:
            yield f"{name:<30} {_quoted(item)}"


def _quoted(value: object) -> str:
    return f'"{value}"' if isinstance(value, str) else str(value)


def _capabilities(
    kind: ModelKind | None, template: str, metadata: Mapping[str, Any], info: ModelInfo | None
) -> list[str]:
    if kind is not None and kind != "generation":
        # Ollama has no word for what ranks.
        return ["embedding"] if kind == "embedding" else []
    has = {
        "completion": True,
        # A template that does not show tools is told of them in the system message.
        "tools": bool(template),
        "insert": any(name in metadata for name in _INFILL) if info is None else bool(info.infill_tokens),
        "thinking": thinks(template),
    }
    return [name for name, is_there in has.items() if is_there]
