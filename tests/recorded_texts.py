"""What llama.cpp's own server has written greedily (see `data/llama_cpp_greedy.json`)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from llmserve import Engine

RECORDED = json.loads((Path(__file__).parent / "data" / "llama_cpp_greedy.json").read_text())

# Kernels of another processor sum in another order: texts may part where the two best logits are this close.
EPSILON = 0.1


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
