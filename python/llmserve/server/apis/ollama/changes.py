"""`/api/pull` and `/api/delete`: they change the folder of models, and nothing else."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from pathlib import Path
from typing import Any

from llmserve.server.apis.ollama.answers import render_error
from llmserve.server.apis.ollama.contents import CHANGE_ERRORS, answered
from llmserve.server.apis.ollama.models import OllamaModels
from llmserve.server.apis.ollama.models_schema import OllamaDeleteRequest, OllamaPullRequest, name_of
from llmserve.server.apis.ollama.sources import source_of
from llmserve.server.download.running import Downloads, Progress
from llmserve.server.error_shapes.ollama import OLLAMA
from llmserve.server.model_files import remove_model
from llmserve.server.refusals import ModelsFolderError, PathNotAllowedError, UnknownModelError
from llmserve.server.services import Services
from llmserve.server.trust.local import is_local
from llmserve.server.web.endpoint import Endpoint
from llmserve.server.web.exchange import Exchange
from llmserve.server.web.headers import answer_headers
from llmserve.server.web.ndjson import line

_SUCCESS = {"status": "success"}


class ChangesApi:
    """The routes over the shared services."""

    def __init__(self, services: Services, models: OllamaModels) -> None:
        self._services = services
        self._models = models
        self._downloads: Downloads | None = None

    @Endpoint(
        path="/api/pull",
        method="POST",
        dialect=OLLAMA,
        operation_id="ollamaPull",
        summary="Download a model, as Ollama does",
        description=(
            "Downloads a GGUF file of Hugging Face (`hf.co/ORG/REPO:QUANTIZATION`) into `MODELS_DIR`. From "
            "requests of this machine URLs are taken, too. A model that is there is a success at once. A "
            "download that broke off, or whose client left, goes on where it ended."
        ),
        body=OllamaPullRequest,
        responses=answered(_SUCCESS, has_stream=True),
        errors={**CHANGE_ERRORS, 502: "The model cannot be downloaded."},
    )
    async def pull(self, exchange: Exchange) -> None:
        """`POST /api/pull`."""
        parsed = await exchange.read(OllamaPullRequest)
        name = name_of(parsed.value)
        headers = answer_headers(parsed.unknown)
        if await self._is_here(name):
            lines = _only_success()
        else:
            source = source_of(name, may_be_url=is_local(exchange.request.scope))
            lines = self._pulled(self._changeable(), source)
        if parsed.value.stream:
            await exchange.send_lines(lines, render_error, headers=headers)
            return
        async with aclosing(lines):
            async for _ in lines:
                pass
        await exchange.send_json(_SUCCESS, headers=headers)

    @Endpoint(
        path="/api/delete",
        method="DELETE",
        dialect=OLLAMA,
        operation_id="ollamaDelete",
        summary="Remove a model's files, as Ollama does",
        description="The model must be in `MODELS_DIR`. It is unloaded first; running requests end as usual.",
        body=OllamaDeleteRequest,
        responses=answered({}),
        errors=CHANGE_ERRORS,
    )
    async def delete(self, exchange: Exchange) -> None:
        """`DELETE /api/delete`."""
        parsed = await exchange.read(OllamaDeleteRequest)
        name = name_of(parsed.value)
        folder = self._folder()
        entry = await self._models.find(name)
        try:
            self._services.models_folder.admit(str(entry.path), "model", exchange.request.scope)
        except PathNotAllowedError:
            raise ModelsFolderError("the model is not in MODELS_DIR, so it is not removed") from None
        await self._models.unload(name)
        try:
            await asyncio.to_thread(remove_model, entry.path, [folder])
        except OSError as error:
            raise ModelsFolderError(f"the model cannot be removed: {error.strerror}") from error
        await self._services.catalogue.entries()  # which sees that the file has gone
        await exchange.send_json({}, headers=answer_headers(parsed.unknown))

    async def _is_here(self, name: str) -> bool:
        try:
            return (await self._models.find(name)).path.is_file()
        except UnknownModelError:
            return False

    def _folder(self) -> Path:
        """The folder of models.

        Raises:
            ModelsFolderError: There is none, or the server does not list what is in it.
        """
        settings = self._services.settings
        if settings.models_dir is None:
            raise ModelsFolderError("the server has no folder for models: start it with --models-dir")
        if settings.catalogue is not None:
            raise ModelsFolderError("the server's models are those of its catalogue file, which names them")
        return settings.models_dir

    def _changeable(self) -> Downloads:
        folder = self._folder()
        if self._downloads is None:
            self._downloads = Downloads(folder, self._services.generation.until_stop)
        return self._downloads

    async def _pulled(self, downloads: Downloads, source: str) -> AsyncGenerator[bytes, None]:
        """The lines of a download. Raises `DownloadError`."""
        yield line({"status": "pulling manifest"})
        for file in await downloads.find(source):
            async with aclosing(downloads.fetch(file)) as reports:
                async for progress in reports:
                    yield line(_shown(progress))
            if file.sha256:
                yield line({"status": "verifying sha256 digest"})
        yield line({"status": "writing manifest"})
        yield line(_SUCCESS)


async def _only_success() -> AsyncGenerator[bytes, None]:
    yield line({"status": "pulling manifest"})
    yield line(_SUCCESS)


def _shown(progress: Progress) -> Mapping[str, Any]:
    """The progress of a file. Where its hash is unknown, that of its URL tells it from others."""
    file = progress.file
    digest = file.sha256 or hashlib.sha256(file.url.encode()).hexdigest()
    total = file.size_bytes
    sizes = {"total": total, "completed": int(total * progress.share)} if total else {}
    return {"status": f"pulling {digest[:12]}", "digest": f"sha256:{digest}", **sizes}
