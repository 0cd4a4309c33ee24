"""Which models are loaded, for whom, and what becomes of them."""

from llmserve.registry.loading import LoadTicket
from llmserve.registry.model import Model, ModelState
from llmserve.registry.registry import ModelReport, Registry

__all__ = ["LoadTicket", "Model", "ModelReport", "ModelState", "Registry"]
