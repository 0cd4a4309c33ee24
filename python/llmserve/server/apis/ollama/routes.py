"""All routes of Ollama's dialect; those that are refused are in :mod:`llmserve.server.apis.unsupported`."""

from __future__ import annotations

from llmserve.server.apis.ollama.catalogue import CatalogueApi
from llmserve.server.apis.ollama.changes import ChangesApi
from llmserve.server.apis.ollama.embeddings import EmbeddingsApi
from llmserve.server.apis.ollama.generation import GenerationApi
from llmserve.server.apis.ollama.models import OllamaModels
from llmserve.server.services import Services
from llmserve.server.web.endpoint import Route, routes_of


def routes(services: Services) -> list[Route]:
    """Everything that the dialect serves."""
    models = OllamaModels(services)
    return routes_of(
        GenerationApi(services, models),
        EmbeddingsApi(services, models),
        CatalogueApi(services, models),
        ChangesApi(services, models),
    )
