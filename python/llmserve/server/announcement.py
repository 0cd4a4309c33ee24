"""What the start prints about a model: its sizes, its memory, its address, and a first request to try."""

from __future__ import annotations

import shlex
import sys

import orjson

from llmserve import __version__
from llmserve.server.machine import memory_bytes
from llmserve.server.models import Model
from llmserve.server.models.memory import kv_bytes
from llmserve.server.units import shown_bytes, shown_count
from llmserve.types import ModelConfig, ModelInfo

_LARGE_SHARE = 8
"""A KV cache that may take this fraction of the machine's memory is worth a word."""

_SMALL_CONTEXT, _FEW_SEQUENCES = 4096, 2
"""Sizes with which most machines can do something, for a hint."""


def describe(model: Model, info: ModelInfo, url: str, *, needs_key: bool = False, grpc: str = "") -> str:
    """What is served, and a first request to try; ``grpc`` is the line about the gRPC service."""
    key = '-H "Authorization: Bearer $LLMSERVE_API_KEY" ' if needs_key else ""
    # llama.cpp's description has the size of another model that has as many layers.
    size = f"{shown_count(info.num_parameters)} parameters"
    documentation = "" if url.startswith("unix:") else f"  documentation   {url}/docs\n"
    return (
        f"llmserve {__version__} serves {model.id} ({info.architecture}, {size})\n"
        f"{_generation_sizes(info) if model.embedder is None else _input_sizes(info)}"
        f"{_memory(info)}"
        f"  threads         {info.num_threads}\n"
        f"  computed on     {computed_on(info)}\n{_drafting(model)}"
        f"  address         {url}\n{grpc}"
        f"{documentation}"
        f"try: curl -N {key}{_for_curl(url)}{_first_request(model)}\n"
    )


def _for_curl(url: str) -> str:
    socket = url.removeprefix("unix:")
    return url if socket == url else f"--unix-socket {shlex.quote(socket)} http://localhost"


def computed_on(info: ModelInfo) -> str:
    """The backend, and the number of layers that are on GPUs."""
    if info.num_gpu_layers == 0:
        return info.backend
    return f"{info.backend}: {info.num_gpu_layers} of {info.num_layers + 1} layers"


def _drafting(model: Model) -> str:
    drafting = None if model.engine is None else model.engine.drafting
    if drafting is None:
        return ""
    adaptive = "adaptive" if drafting.adaptive else "not adaptive"
    return f"  drafting        {drafting.method}, up to {drafting.draft_len} tokens, {adaptive}\n"


def _generation_sizes(info: ModelInfo) -> str:
    return (
        f"  context length  {info.context_length} tokens per sequence\n"
        f"  KV cells        {info.num_cells} ({info.kv_layout}, {info.kv_type_k}/{info.kv_type_v})\n"
        f"  sequences       {info.num_slots} at once\n"
    )


def _input_sizes(info: ModelInfo) -> str:
    values = f"{info.embedding_length} values ({info.pooling} pooling)"
    return (
        f"{'  ranks           documents' if info.pooling == 'rank' else f'  embeddings      {values}'}\n"
        f"  context length  {info.context_length} tokens per input\n"
        f"  inputs          {info.num_slots} at once\n"
    )


def _first_request(model: Model) -> str:
    body: dict[str, object]
    if model.kind == "embedding":
        path, body = "/v1/embeddings", {"model": model.id, "input": "Once upon a time"}
    elif model.kind == "reranking":
        path = "/v1/rerank"
        body = {"model": model.id, "query": "What is deep?", "documents": ["the sea", "a tree"]}
    else:
        messages = [{"role": "user", "content": "Tell me a story."}]
        body = {"model": model.id, "messages": messages, "max_tokens": 32, "stream": True}
        path = "/v1/chat/completions"
    return f"{path} -d {shlex.quote(orjson.dumps(body).decode())}"


def _memory(info: ModelInfo) -> str:
    cache = kv_bytes(info)
    text = f"  weights         {shown_bytes(info.size_bytes)}\n"
    if cache:
        # On Linux a page of memory is taken when it is first written.
        use = "at most, as cells are used" if sys.platform == "linux" else "from the start"
        text += f"  KV cache        {shown_bytes(cache)} {use}\n"
    return text


def remarks(info: ModelInfo, config: ModelConfig) -> list[str]:
    """What an operator may want to change about a model that generates."""
    found = []
    if config.context_length is None and info.context_length < info.trained_context_length:
        found.append(
            f"memory is short: the context length is {info.context_length} of "
            f"{info.trained_context_length} tokens; free some, or use a smaller model or --kv-type-k q8_0"
        )
    elif info.context_length > info.trained_context_length > 0 and config.rope_scaling is None:
        found.append(
            f"the context length is {info.context_length} tokens, and the model was trained with "
            f"{info.trained_context_length}"
        )
    if (less := _less_memory(info)) is not None:
        found.append(less)
    return found


def _less_memory(info: ModelInfo) -> str | None:
    cache, machine = kv_bytes(info), memory_bytes()
    if machine is None or cache * _LARGE_SHARE < machine:
        return None
    cells = min(info.context_length, _SMALL_CONTEXT) * min(info.num_slots, _FEW_SEQUENCES)
    small = cache * cells // info.num_cells
    if 2 * small > cache:
        return None
    return (
        f"the KV cache may take {shown_bytes(cache)} of {shown_bytes(machine)}; with --context-length "
        f"{_SMALL_CONTEXT} --max-sequences {_FEW_SEQUENCES} it is {shown_bytes(small)}"
    )
