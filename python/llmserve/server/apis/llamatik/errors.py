"""Errors of the Llamatik dialect: ``{"error": "..."}``."""

from __future__ import annotations

from llmserve.server.apis.llamatik.answers import LlamatikError
from llmserve.server.apis.llamatik.convert import render_fault
from llmserve.server.web.errors import Dialect

DIALECT = "llamatik"

PREFIX = "/v1/generation"
"""All paths of the dialect begin with it."""

LLAMATIK = Dialect(DIALECT, render_fault, LlamatikError, root=PREFIX)
