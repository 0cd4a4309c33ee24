"""The errors of endpoints that need a model, for the OpenAPI document."""

from __future__ import annotations

from collections.abc import Mapping

MODEL_ERRORS: Mapping[int, str] = {
    400: "A field is wrong, or the prompt is over the context length.",
    404: "There is no such model.",
    500: "The model failed to compute.",
    502: "The model cannot be loaded.",
    503: "The model is being loaded, or the queue is full; see `Retry-After`.",
}
