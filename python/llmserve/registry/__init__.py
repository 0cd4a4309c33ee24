"""Which models are loaded, for whom, and what becomes of them."""

from llmserve.registry.loading import LoadTicket
from llmserve.registry.model import Model, ModelState
from llmserve.registry.registry import ModelReport, Registry
from llmserve.registry.session_moves import SessionMoves
from llmserve.registry.sessions import SessionCall, SessionTable

__all__ = [
    "LoadTicket",
    "Model",
    "ModelReport",
    "ModelState",
    "Registry",
    "SessionCall",
    "SessionMoves",
    "SessionTable",
]
