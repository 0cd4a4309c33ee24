"""llama-server's `/props`, for models of all kinds."""

from __future__ import annotations

from typing import Any

from llmserve import __version__
from llmserve.sampling_params import SamplingParams
from llmserve.server.apis.openai.contents import LOADED_ERRORS, MODEL_QUERY, answered
from llmserve.server.apis.openai.generation_settings import generation_settings
from llmserve.server.apis.openai.native_schema import NATIVE_SAMPLING
from llmserve.server.apis.openai.sampling import sampling_params
from llmserve.server.error_shapes.openai import OPENAI
from llmserve.server.fields.sampling import RANDOM_SEED
from llmserve.server.models import CatalogueEntry
from llmserve.server.services import Services
from llmserve.server.web.endpoint import Endpoint
from llmserve.server.web.exchange import Exchange


class PropsApi:
    """The routes over the shared services."""

    def __init__(self, services: Services) -> None:
        self._services = services

    @Endpoint(
        path="/props",
        method="GET",
        dialect=OPENAI,
        operation_id="props",
        summary="Properties of a model",
        description=(
            "llama-server's properties of a loaded model: this route loads none. `model_path` is there for "
            "local requests, and for models in `MODELS_DIR`."
        ),
        responses=answered("The properties.", {"total_slots": 16}),
        errors=LOADED_ERRORS,
        parameters=[MODEL_QUERY],
    )
    async def props(self, exchange: Exchange) -> None:
        """`GET /props`."""
        scope = exchange.request.scope
        # A GET changes nothing: browsers send it for any page's links and images.
        found = await self._services.on_demand.loaded(MODEL_QUERY.of(scope))
        info = found.handle.info
        path = self._services.models_folder.name_for(found.entry.path, scope)
        templates = {f"chat_template_{name}": text for name, text in info.chat_templates.items()}
        await exchange.send_json(
            {
                "default_generation_settings": {
                    "n_ctx": info.context_length,
                    "params": _default_settings(found.entry),
                },
                "total_slots": info.num_slots,
                "model_alias": found.entry.id,
                **({} if path is None else {"model_path": path}),
                "chat_template": info.chat_template,
                **templates,
                "bos_token": info.bos_text,
                "eos_token": info.eos_text,
                "modalities": {"vision": False, "video": False, "audio": False},
                "endpoint_slots": True,
                "endpoint_props": False,
                "endpoint_metrics": True,
                "build_info": f"llmserve {__version__}",
                "is_sleeping": False,
            }
        )


def _default_settings(entry: CatalogueEntry) -> dict[str, Any]:
    """How `/completion` draws tokens where a request does not say."""
    values = {**NATIVE_SAMPLING.defaults(), "seed": 0}
    params: SamplingParams = sampling_params(values, max_tokens=-1, logprobs=None)
    return {**generation_settings(params.replace(**entry.default_sampling)), "seed": RANDOM_SEED}
