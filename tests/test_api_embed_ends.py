"""Embedding requests that end early: cancelled, refused, closed, with their process, or in a fork."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import anyio.lowlevel
import anyio.to_thread
import numpy as np
import pytest

from bert_reference import Bert, word_pieces
from llmserve import Embedder, EngineClosedError, ModelConfig, QueueFullError
from synthetic.embedding_models import CONTEXT, WIDTH
from vectors import TOLERANCE, letters, matrix

pytestmark = pytest.mark.anyio


@pytest.fixture
async def bert(tiny_models: Path) -> AsyncIterator[Embedder]:
    async with await Embedder.load(tiny_models / "bert-mean.gguf", ModelConfig(threads=1)) as embedder:
        yield embedder


async def test_a_cancelled_request_leaves_nothing_behind(bert: Embedder) -> None:
    with anyio.move_on_after(0) as scope:
        await bert.embed([letters(CONTEXT)] * 5000)
    assert scope.cancelled_caught
    expected = Bert().mean(word_pieces("the sea"))
    np.testing.assert_allclose(matrix(await bert.embed("the sea"))[0], expected, atol=TOLERANCE)
    stats = bert.stats()
    assert stats.num_running + stats.num_waiting + stats.num_preparing <= 1
    assert stats.rows < 5000 * CONTEXT


async def test_closing_ends_what_waits(tiny_models: Path) -> None:
    embedder = await Embedder.load(tiny_models / "bert-mean.gguf", ModelConfig(threads=1))
    ends: list[type[BaseException] | None] = []

    async def embed() -> None:
        try:
            await embedder.embed([letters(CONTEXT)] * 3000)
            ends.append(None)
        except EngineClosedError as error:
            ends.append(type(error))

    async with anyio.create_task_group() as tasks:
        for _ in range(4):
            tasks.start_soon(embed)
        await anyio.lowlevel.checkpoint()
        await embedder.close()
    assert ends == [EngineClosedError] * 4
    assert embedder.is_closed
    with pytest.raises(EngineClosedError):
        await embedder.embed("a")
    with pytest.raises(EngineClosedError):
        embedder.check_alive()


async def test_the_queue_is_bounded(tiny_models: Path) -> None:
    config = ModelConfig(threads=1, max_queued_requests=2)
    async with await Embedder.load(tiny_models / "bert-mean.gguf", config) as embedder:
        refused = 0

        async def embed() -> None:
            nonlocal refused
            try:
                await embedder.embed([letters(CONTEXT)] * 300)
            except QueueFullError as error:
                refused += 1
                assert error.retry_after_s >= 1

        async with anyio.create_task_group() as tasks:
            for _ in range(5):
                tasks.start_soon(embed)
        assert refused == 3
        assert embedder.stats().requests_refused == 3


PROGRAM = """
import asyncio, os, sys, warnings
import llmserve
warnings.simplefilter("ignore", DeprecationWarning)  # 3.12 warns of forks beside threads.
PATH = sys.argv[1]
LONG = ["the sea " * 40] * 5000
"""

PROGRAMS = {
    "ends in the midst of work": (
        """
        async def main():
            embedder = await llmserve.Embedder.load(PATH)
            work = asyncio.ensure_future(embedder.embed(LONG))
            while not embedder.stats().num_running:
                await asyncio.sleep(0)
            print("begun")
        asyncio.run(main())
        """,
        "begun\n",
    ),
    "keeps a job that nobody reads": (
        """
        embedder = llmserve.SyncEmbedder.load(PATH)
        from llmserve import _core
        buffer = _core.InputBuffer()
        for text in LONG:
            buffer.append(text, True, "plain")
        wakeup = _core.Wakeup()
        job = embedder._core.embed((buffer, None), None, True, wakeup.listener(0))
        print(job.take())
        """,
        "None\n",
    ),
    "is dead in a forked child and lives in its parent": (
        """
        embedder = llmserve.SyncEmbedder.load(PATH)
        child = os.fork()
        if child == 0:
            try:
                embedder.embed("a")
            except llmserve.EngineDeadError as error:
                os._exit(7 if "fork" in str(error) else 8)
            os._exit(9)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        print(len(embedder.embed("the sea").vectors[0]))
        """,
        f"7\n{WIDTH}\n",
    ),
}


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_process_that(name: str, tiny_models: Path) -> None:
    body, output = PROGRAMS[name]
    command = [sys.executable, "-W", "error", "-c", PROGRAM + textwrap.dedent(body)]
    done = subprocess.run(
        [*command, str(tiny_models / "bert-mean.gguf")],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, output, "")
