"""How long it takes until a model is ready, in a program and from the start of a server; information only."""

from __future__ import annotations

import asyncio
import time

from llmserve import Engine, ModelConfig

from .harness import Figure, Setting, compared, interleave, measured
from .servers import llama_server, llmserve

CELLS = 2048
SEQUENCES = 4


def run(setting: Setting) -> list[Figure]:
    """Times `Engine.load`, and the start of both servers up to a healthy answer."""
    results = interleave(
        setting.runs,
        {
            "Engine.load": lambda _: asyncio.run(_load_s(setting)),
            "llmserve serve": lambda _: _llmserve_s(setting),
            "llama-server": lambda _: _llama_server_s(setting),
        },
    )
    return [
        measured("Engine.load", "s", results["Engine.load"]),
        compared("start to ready", "s", results["llmserve serve"], results["llama-server"]),
    ]


async def _load_s(setting: Setting) -> float:
    config = ModelConfig(
        threads=setting.threads,
        max_sequences=SEQUENCES,
        context_length=CELLS,
        kv_cells=CELLS * SEQUENCES,
        kv_layout=setting.kv_layout,
    )
    started = time.perf_counter()
    engine = await Engine.load(setting.model, config)
    elapsed = time.perf_counter() - started
    await engine.close()
    return elapsed


def _llmserve_s(setting: Setting) -> float:
    with llmserve(setting, SEQUENCES, CELLS) as server:
        return server.start_s


def _llama_server_s(setting: Setting) -> float:
    with llama_server(setting, SEQUENCES, CELLS) as server:
        return server.start_s
