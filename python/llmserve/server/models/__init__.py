"""The models: which are loaded, for whom, and when they are unloaded."""

from llmserve.server.model_kind import ModelKind
from llmserve.server.models.catalogue import Catalogue
from llmserve.server.models.entries import CatalogueEntry
from llmserve.server.models.kept_sessions import KeptSessions
from llmserve.server.models.loading import LoadTicket
from llmserve.server.models.memory_limit import MemoryLimit
from llmserve.server.models.model import IDLE_PIN, SERVER_PIN, Model
from llmserve.server.models.models_folder import safe_id
from llmserve.server.models.on_demand import EntryState, OnDemand, UsedModel
from llmserve.server.models.registry import ModelReport, Registry
from llmserve.server.models.release import release
from llmserve.server.models.revival import Revival
from llmserve.server.models.session_moves import SessionMoves
from llmserve.server.models.sessions import SessionCall, SessionTable

__all__ = [
    "IDLE_PIN",
    "SERVER_PIN",
    "Catalogue",
    "CatalogueEntry",
    "EntryState",
    "KeptSessions",
    "LoadTicket",
    "MemoryLimit",
    "Model",
    "ModelKind",
    "ModelReport",
    "OnDemand",
    "Registry",
    "Revival",
    "SessionCall",
    "SessionMoves",
    "SessionTable",
    "UsedModel",
    "release",
    "safe_id",
]
