"""Fields of other servers that change nothing here."""

from __future__ import annotations

from collections.abc import Mapping

WITHOUT_EFFECT: Mapping[str, str] = {
    "length_penalty": "belongs to beam search",
    "early_stopping": "belongs to beam search",
    "guided_decoding_backend": "there is one backend",
    "guided_decoding_disable_any_whitespace": "documents have no blanks",
    "n_keep": "a full context ends the text, and is never shifted",
    "n_discard": "a full context ends the text, and is never shifted",
    "num_keep": "a full context ends the text, and is never shifted",
    "num_ctx": "the server's context length holds",
    "num_batch": "about speed only",
    "num_gpu": "a load option of the server",
    "main_gpu": "a load option of the server",
    "num_thread": "a load option of the server",
    "n_cache_reuse": "only equal beginnings are reused",
    "sse_ping_interval": "`LLMSERVE_SSE_PING_S` says it for all streams",
    "priority": "requests are served in turn",
    "cache_salt": "about the cache only",
    "backend_sampling": "about speed only",
    "prediction": "about speed only",
    "service_tier": "about speed only",
    "user": "about the client only",
    "safety_identifier": "about the client only",
    "metadata": "about the client only; only `/v1/responses` returns it",
    "store": "only `/v1/responses` stores its answers",
}
"""Fields that are ignored because they change nothing here, and why."""
