"""Which models are loaded, for whom, and what becomes of them."""

from llmserve.registry.catalogue import Catalogue
from llmserve.registry.entries import CatalogueEntry
from llmserve.registry.kinds import ModelKind
from llmserve.registry.loading import LoadTicket
from llmserve.registry.memory_limit import MemoryLimit
from llmserve.registry.model import IDLE_PIN, Model, ModelState
from llmserve.registry.models_folder import safe_id
from llmserve.registry.on_demand import EntryState, OnDemand, UsedEmbedder, UsedModel
from llmserve.registry.registry import ModelReport, Registry
from llmserve.registry.session_moves import SessionMoves
from llmserve.registry.sessions import SessionCall, SessionTable

__all__ = [
    "IDLE_PIN",
    "Catalogue",
    "CatalogueEntry",
    "EntryState",
    "LoadTicket",
    "MemoryLimit",
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
