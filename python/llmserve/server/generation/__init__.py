"""What lies between a dialect and the engine: a call's turn in its session, its acceptance, its end.

A dialect makes a `Call` and renders what the `Run` gives; all between is the `GenerationService`'s.
"""

from llmserve.server.generation.call import Call, Running, Start, is_context_full, raw_text, turns
from llmserve.server.generation.merging import merged
from llmserve.server.generation.service import GenerationService, Run

__all__ = [
    "Call",
    "GenerationService",
    "Run",
    "Running",
    "Start",
    "is_context_full",
    "merged",
    "raw_text",
    "turns",
]
