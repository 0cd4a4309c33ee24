"""`/api/tags`, `/api/show`, `/api/ps` and `/api/version`."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

from llmserve.server.apis.ollama import descriptions
from llmserve.server.apis.ollama.contents import answered
from llmserve.server.apis.ollama.descriptions import ModelFile
from llmserve.server.apis.ollama.models import OllamaModels
from llmserve.server.apis.ollama.models_schema import OllamaShowRequest, name_of
from llmserve.server.error_shapes.ollama import OLLAMA
from llmserve.server.model_files import parts
from llmserve.server.model_header import HeaderError, read_header
from llmserve.server.services import Services
from llmserve.server.web.endpoint import Endpoint
from llmserve.server.web.exchange import Exchange
from llmserve.server.web.headers import answer_headers

API_VERSION = "0.13.0"
"""The version of Ollama whose API this is: clients look whether it is new enough for them."""

_DETAILS = {"format": "gguf", "family": "llama", "parameter_size": "134.5M", "quantization_level": "Q4_1"}
_MODEL = {"name": "SmolLM2-135M-Instruct.Q4_1:latest", "size": 98362432, "details": _DETAILS}


class CatalogueApi:
    """The routes over the shared services."""

    def __init__(self, services: Services, models: OllamaModels) -> None:
        self._services = services
        self._models = models
        self._files: dict[Path, ModelFile] = {}

    @Endpoint(
        path="/api/tags",
        method="GET",
        dialect=OLLAMA,
        operation_id="ollamaTags",
        summary="Models that requests can name, as Ollama lists them",
        description="The models of `GET /v1/models`, with the tag `latest`. Nothing is loaded by asking.",
        responses=answered({"models": [_MODEL]}),
    )
    async def tags(self, exchange: Exchange) -> None:
        """`GET /api/tags`."""
        entries = await self._services.catalogue.entries()
        files = await self._read([entry.path for entry in entries])
        models = [descriptions.available(entry, file) for entry, file in zip(entries, files, strict=True)]
        await exchange.send_json({"models": models})

    @Endpoint(
        path="/api/ps",
        method="GET",
        dialect=OLLAMA,
        operation_id="ollamaPs",
        summary="Models that are loaded, as Ollama lists them",
        description="`expires_at` is far away where no request has set `keep_alive`.",
        responses=answered({"models": [{**_MODEL, "context_length": 8192, "size_vram": 0}]}),
    )
    async def running(self, exchange: Exchange) -> None:
        """`GET /api/ps`."""
        registry = self._services.registry
        loaded = [
            (model, report)
            for model, report in zip(registry.models, registry.states(), strict=True)
            if model.is_usable
        ]
        files = await self._read([model.path for model, _ in loaded])
        models = [
            descriptions.running(model, report, file, self._models.keeping.expires_at(model))
            for (model, report), file in zip(loaded, files, strict=True)
        ]
        await exchange.send_json({"models": models})

    @Endpoint(
        path="/api/show",
        method="POST",
        dialect=OLLAMA,
        operation_id="ollamaShow",
        summary="What a model's file says, as Ollama shows it",
        description="`template` is Jinja, and `model_info` has no long arrays. Nothing is loaded by asking.",
        body=OllamaShowRequest,
        responses=answered({"details": _DETAILS, "capabilities": ["completion"]}),
        errors={404: "There is no such model."},
    )
    async def show(self, exchange: Exchange) -> None:
        """`POST /api/show`."""
        parsed = await exchange.read(OllamaShowRequest)
        entry = await self._models.find(name_of(parsed.value))
        (file,) = await self._read([entry.path])
        kind = await self._services.on_demand.kinds.of(entry)
        model = self._models.loaded(entry)
        info = None if model is None or model.handle is None else model.handle.info
        shown = await asyncio.to_thread(descriptions.described, entry, file, kind, info)
        await exchange.send_json(shown, headers=answer_headers(parsed.unknown))

    @Endpoint(
        path="/api/version",
        method="GET",
        dialect=OLLAMA,
        operation_id="ollamaVersion",
        summary="The version of Ollama whose API this is",
        description="The server's own version is in `GET /props`.",
        responses=answered({"version": API_VERSION}),
    )
    async def version(self, exchange: Exchange) -> None:
        """`GET /api/version`."""
        await exchange.send_json({"version": API_VERSION})

    async def _read(self, paths: Sequence[Path]) -> list[ModelFile]:
        """The files of models, read on one thread; those that have not changed are not read again."""
        read = await asyncio.to_thread(lambda: [_read_file(path, self._files.get(path)) for path in paths])
        self._files.update((file.path, file) for file in read)
        return read


def _read_file(path: Path, known: ModelFile | None) -> ModelFile:
    try:
        stats = [part.stat() for part in parts(path)]
    except OSError:
        return ModelFile(path)
    size, changed = sum(stat.st_size for stat in stats), max(stat.st_mtime_ns for stat in stats)
    if known is not None and (known.size_bytes, known.changed_ns) == (size, changed):
        return known
    try:
        return ModelFile(path, size, changed, read_header(path))
    except HeaderError:
        return ModelFile(path, size, changed)
