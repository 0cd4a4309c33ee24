"""Tables of `docs/llama-server.md`: what of llama-server's API is here, refused, or left out."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from llmserve.server.apis.openai.chat_schema import ChatRequest
from llmserve.server.apis.openai.completions_schema import OpenAiCompletionRequest
from llmserve.server.apis.openai.embeddings_schema import EmbeddingRequest
from llmserve.server.apis.openai.native_schema import InfillRequest, NativeCompletionRequest
from llmserve.server.apis.openai.tokens_schema import DetokenizeRequest, TokenizeRequest
from llmserve.server.apis.unsupported.routes import REASONS
from llmserve.server.application import Application
from llmserve.server.fields.foreign import FOREIGN, Refused
from llmserve.server.fields.refused import values
from llmserve.server.fields.without_effect import WITHOUT_EFFECT
from llmserve.server.settings import parse_settings
from llmserve.server.web.endpoint import ANY_METHOD
from llmserve.server.web.fields import properties

ROUTES = (
    "GET /health",
    "GET /v1/health",
    "POST /completion",
    "POST /completions",
    "POST /tokenize",
    "POST /detokenize",
    "POST /apply-template",
    "POST /embedding",
    "POST /embeddings",
    "POST /reranking",
    "POST /rerank",
    "POST /v1/rerank",
    "POST /infill",
    "GET /props",
    "POST /props",
    "GET /slots",
    "POST /slots/{id_slot}",
    "GET /metrics",
    "GET /lora-adapters",
    "POST /lora-adapters",
    "GET /v1/models",
    "POST /v1/completions",
    "POST /v1/chat/completions",
    "POST /v1/chat/completions/control",
    "POST /v1/chat/completions/input_tokens",
    "POST /v1/responses",
    "POST /v1/responses/input_tokens",
    "POST /v1/embeddings",
    "POST /v1/audio/transcriptions",
    "POST /v1/messages",
    "POST /v1/messages/count_tokens",
    "POST /v1/systemone",
    "GET /models",
    "POST /models/load",
    "POST /models/unload",
    "GET /models/sse",
    "POST /models",
    "DELETE /models",
    "GET /v1/stream",
    "POST /v1/streams/lookup",
    "DELETE /v1/stream",
    "GET /tools",
    "POST /tools",
    "POST /cors-proxy",
)
"""Those of llama-server b11434: its README, and what `server.cpp` has beyond that."""

_ELSEWHERE: Mapping[str, str] = {
    "POST /v1/chat/completions/control": "a client ends an answer by leaving; there is no id to steer it by",
    "POST /v1/responses/input_tokens": "count with `/v1/chat/completions/input_tokens`",
    "POST /v1/systemone": "another company's API for one kind of model",
    "GET /models/sse": "`GET /models` has the `status`, and `POST /models/load` with a `path` the progress",
    "POST /models": "`llmserve pull` downloads models",
    "DELETE /models": "`llmserve rm` deletes models",
    "GET /v1/stream": "a stream belongs to its connection, and ends with it",
    "POST /v1/streams/lookup": "a stream belongs to its connection, and ends with it",
    "DELETE /v1/stream": "a stream belongs to its connection, and ends with it",
    "GET /tools": "the server runs no tools: clients do",
    "POST /tools": "the server runs no tools: clients do",
    "POST /cors-proxy": "the server fetches nothing for pages",
}
"""What is left out, and why."""

_NOTES: Mapping[str, str] = {
    "POST /completions": "[llamacpp-server's](llamacpp-server.md), another API: use `/completion`",
    "POST /infill": "models without tokens for it: 501",
    "POST /slots/{id_slot}": "a slot is the session `slot-N`, see below",
    "GET /metrics": "llama-server's names with `--llamacpp-metrics`",
    "POST /models/load": "`{path}` streams the progress; `{model}` answers as the router does",
    "GET /lora-adapters": "those that the model was loaded with",
}

_COMMON = (
    *(
        "temperature",
        "dynatemp_range",
        "dynatemp_exponent",
        "top_k",
        "top_p",
        "min_p",
        "n_predict",
        "n_indent",
    ),
    *("n_keep", "n_discard", "n_cmpl", "n_cache_reuse", "stream", "stop", "typical_p", "top_n_sigma"),
    *("repeat_penalty", "repeat_last_n", "presence_penalty", "frequency_penalty"),
    *("dry_multiplier", "dry_base", "dry_allowed_length", "dry_penalty_last_n", "dry_sequence_breakers"),
    *("xtc_probability", "xtc_threshold", "adaptive_target", "mirostat", "mirostat_tau", "mirostat_eta"),
    *(
        "grammar",
        "json_schema",
        "seed",
        "ignore_eos",
        "logit_bias",
        "min_keep",
        "t_max_predict_ms",
        "id_slot",
    ),
    *("cache_prompt", "samplers", "timings_per_token", "return_progress", "sse_ping_interval"),
    *("post_sampling_probs", "backend_sampling", "lora"),
)
_NATIVE = (*_COMMON, "n_probs", "return_tokens", "response_fields")

FIELDS: Mapping[str, tuple[type, Sequence[str]]] = {
    "/completion": (NativeCompletionRequest, ("prompt", *_NATIVE)),
    "/infill": (InfillRequest, ("input_prefix", "input_suffix", "input_extra", "prompt", *_NATIVE)),
    "/v1/completions": (OpenAiCompletionRequest, ("prompt", "logprobs", "echo", *_COMMON)),
    "/v1/chat/completions": (
        ChatRequest,
        (
            *("messages", "tools", "tool_choice", "parallel_tool_calls", "response_format"),
            *("chat_template_kwargs", "reasoning_format", "reasoning_budget", "parse_tool_calls"),
            *("add_generation_prompt", "continue_final_message", "logprobs", "top_logprobs", *_COMMON),
        ),
    ),
    "/tokenize": (TokenizeRequest, ("content", "add_special", "parse_special", "with_pieces")),
    "/detokenize": (DetokenizeRequest, ("tokens",)),
    "/embedding": (EmbeddingRequest, ("content", "input", "embd_normalize")),
}
"""The body of each route, and llama-server's fields of it."""


def routes() -> Iterator[tuple[str, str, str]]:
    """Route, what becomes of it, and why or how."""
    served = asyncio.run(_served())
    refused = {path: reason for reasons in REASONS.values() for path, reason in reasons.items()}
    for route in ROUTES:
        method, path = route.split(" ")
        if (method, path) in served:
            yield f"`{route}`", "here", _NOTES.get(route, "")
        elif (reason := next((refused[root] for root in refused if _is_below(path, root)), None)) is not None:
            yield f"`{route}`", "refused (501)", reason
        else:
            yield f"`{route}`", "not here", _ELSEWHERE[route]


async def _served() -> set[tuple[str, str]]:
    routes = Application(parse_settings({})).routes
    endpoints = [route.endpoint for route in routes if route.endpoint.method != ANY_METHOD]
    return {(endpoint.method, endpoint.shown_path) for endpoint in endpoints}


def _is_below(path: str, root: str) -> bool:
    return path == root or path.startswith(root + "/")


def fields() -> Iterator[tuple[str, str, str]]:
    """Field, the routes that honour it, and what becomes of it on the others."""
    names = dict.fromkeys(name for _, known in FIELDS.values() for name in known)
    for name in names:
        honoured = [path for path, (body, known) in FIELDS.items() if name in known and name in _names(body)]
        others = [path for path, (body, known) in FIELDS.items() if name in known and path not in honoured]
        outcome = "; ".join(dict.fromkeys(_outcome(FIELDS[path][0], name) for path in others))
        yield f"`{name}`", ", ".join(f"`{path}`" for path in honoured), outcome


def _names(body: type) -> set[str]:
    return {prop.name for prop in properties(body)}


def _outcome(body: Any, name: str) -> str:
    refused: Refused | None = body.foreign.own.get(name) or FOREIGN.get(name)
    if refused is None:
        return f"without effect: {WITHOUT_EFFECT[name]}"
    unless = f" unless it is {values(refused)}" if refused.neutral else ""
    return f"refused{unless}: {refused.reason}"
