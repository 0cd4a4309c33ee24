"""What a model is for."""

from __future__ import annotations

from typing import Literal, TypeAlias

ModelKind: TypeAlias = Literal["generation", "embedding", "reranking"]
