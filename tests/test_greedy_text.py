"""The default model's greedy text against llama.cpp's own server (see `data/llama_cpp_greedy.json`)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from llmserve import Engine, ModelConfig
from loops import one_loop

RECORDED = json.loads((Path(__file__).parent / "data" / "llama_cpp_greedy.json").read_text())

# Kernels of another CPU sum in another order: texts may part where the two best logits are this close.
EPSILON = 0.1


@pytest.mark.slow
@one_loop
@pytest.mark.anyio
@pytest.mark.model
async def test_greedy_tokens_equal_those_of_llama_cpp(model_path: Path) -> None:
    num_parted = 0
    async with await Engine.load(model_path, ModelConfig(context_length=512, max_sequences=1)) as engine:
        for recorded in RECORDED["completions"]:
            num_parted += await parts_at_a_near_tie(engine, recorded)
    total = len(RECORDED["completions"])
    print(f"{num_parted} of {total} texts part from llama.cpp's at a near-tie (< {EPSILON})")
    assert num_parted <= total // 2


async def parts_at_a_near_tie(engine: Engine, recorded: dict[str, Any]) -> bool:
    """False: the texts are equal. A divergence other than a near-tie fails the test."""
    completion = await engine.generate(
        recorded["prompt"], max_tokens=RECORDED["max_tokens"], logprobs=2, cache_prompt=False
    )
    pairs = zip(completion.tokens, recorded["tokens"], strict=False)
    for position, (token, expected) in enumerate(pairs):
        if token.id != expected:
            assert token.logprobs is not None
            (_, first), (_, second) = token.logprobs.top
            assert first - second < EPSILON, f"{recorded['prompt']!r} parts at token {position}"
            return True
    assert completion.text == recorded["text"]
    assert (completion.finish_reason == "stop") == (recorded["stop"] == "eos")
    return False
