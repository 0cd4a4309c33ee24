"""The default model's greedy text against llama.cpp's own server (see `data/llama_cpp_greedy.json`)."""

from __future__ import annotations

from pathlib import Path

import pytest

from llmserve import Engine, ModelConfig
from loops import one_loop
from recorded_texts import EPSILON, RECORDED, parts_at_a_near_tie


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
