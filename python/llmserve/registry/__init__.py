"""Which models are loaded, for whom, and what becomes of them."""

from llmserve.registry.catalogue import Catalogue
from llmserve.registry.entries import CatalogueEntry
from llmserve.registry.kinds import ModelKind
from llmserve.registry.loading import LoadTicket
from llmserve.registry.model import Model, ModelState
from llmserve.registry.models_folder import safe_id
from llmserve.registry.on_demand import EntryState, OnDemand, UsedEmbedder, UsedModel
from llmserve.registry.registry import ModelReport, Registry
from llmserve.registry.session_moves import SessionMoves
from llmserve.registry.sessions import SessionCall, SessionTable

__all__ = [
    "Catalogue",
    "CatalogueEntry",
    "EntryState",
    "LoadTicket",
    "Model",
    "ModelKind",
    "ModelReport",
    "ModelState",
    "OnDemand",
    "Registry",
    "SessionCall",
    "SessionMoves",
    "SessionTable",
    "UsedEmbedder",
    "UsedModel",
    "safe_id",
]
