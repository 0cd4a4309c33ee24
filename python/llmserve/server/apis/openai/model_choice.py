"""The model of llama-server's routes, where `model` may be missing."""

from __future__ import annotations

from llmserve.server.refusals import UnknownModelError
from llmserve.server.services import Services


async def chosen_model(services: Services, model_id: str | None) -> str:
    """The id that was given, or the first of `GET /v1/models`.

    Raises:
        UnknownModelError: There is no model at all.
    """
    if model_id:
        return model_id
    entries = await services.catalogue.entries()
    if not entries:
        raise UnknownModelError("")
    return entries[0].id
