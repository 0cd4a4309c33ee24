"""Answers the prompts of a JSONL file, many at a time, in their order.

    python batch.py model.gguf prompts.jsonl answers.jsonl

Each line of the input has `messages`, and sampling parameters if it likes:
`{"messages": [{"role": "user", "content": "..."}], "max_tokens": 50}`. The output of a line that is refused
has an `error`. It needs `pip install llmserve`.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections import deque
from pathlib import Path
from typing import Any, TextIO

import llmserve

# Twice as many as are computed together keep the batch full; the engine's queue takes 128.
REQUESTS_PER_SEQUENCE = 2


async def answer(engine: llmserve.Engine, line: str) -> dict[str, Any]:
    """The answer to one line."""
    try:
        request = json.loads(line)
        completion = await engine.chat(request.pop("messages"), **{"max_tokens": 256, **request})
    except (llmserve.LlmserveError, ValueError, TypeError, KeyError) as error:
        return {"error": f"{type(error).__name__}: {error}"}
    return {
        "text": completion.text,
        "finish_reason": completion.finish_reason,
        "completion_tokens": completion.usage.completion_tokens,
    }


async def answer_all(model: str, lines: TextIO, answers: TextIO) -> None:
    """Writes an answer for each line."""
    async with llmserve.Engine.load(model) as engine:
        running: deque[asyncio.Task[dict[str, Any]]] = deque()

        async def write_next() -> None:
            answers.write(json.dumps(await running.popleft(), ensure_ascii=False) + "\n")

        for line in lines:
            if len(running) == REQUESTS_PER_SEQUENCE * engine.info.num_slots:
                await write_next()
            running.append(asyncio.create_task(answer(engine, line)))
        while running:
            await write_next()


if __name__ == "__main__":
    model, source, target = sys.argv[1:]
    with Path(source).open() as lines, Path(target).open("w") as answers:
        asyncio.run(answer_all(model, lines, answers))
