"""Embedding models through the Python API, on generated models whose vectors are known."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path

import anyio
import anyio.lowlevel
import anyio.to_thread
import numpy as np
import numpy.typing as npt
import pytest

from bert_reference import Bert, word_pieces
from llmserve import (
    Embedder,
    Embeddings,
    Engine,
    EngineClosedError,
    InputTooLongError,
    InvalidParameterError,
    LoadError,
    LoraAdapter,
    ModelConfig,
    QueueFullError,
    SyncEmbedder,
    SyncEngine,
    WrongModelKindError,
)
from synthetic import KINDS, VOCABULARY, Kind, build, main_file
from synthetic.embedding_models import CONTEXT, SEP, TOKENS, WIDTH

Matrix = npt.NDArray[np.float32]

# llama.cpp rounds GELU, and what attention multiplies, to 16 bits: 11 binary digits. Measured: 8e-4 at most.
TOLERANCE = 3e-3
# The same inputs in other company are summed in another order, before that rounding. Measured: 5e-4 at most.
COMPANY = 2e-3

SENTENCES = (
    "The sea is deep and green.",
    "trees, seas; the deeper sea!",
    "a",
    "",
    "the café of the sea",
    "unknown ☃ signs and UPPER case",
    "x" * 40,
    "  blanks\tand\nlines  ",
)

pytestmark = pytest.mark.anyio


@pytest.fixture
async def bert(tiny_models: Path) -> AsyncIterator[Embedder]:
    async with await Embedder.load(tiny_models / "bert-mean.gguf", ModelConfig(threads=1)) as embedder:
        yield embedder


@pytest.fixture(scope="module")
def sync_bert(tiny_models: Path) -> Iterator[SyncEmbedder]:
    with SyncEmbedder.load(tiny_models / "bert-mean.gguf", ModelConfig(threads=1)) as embedder:
        yield embedder


def matrix(embeddings: Embeddings) -> Matrix:
    values = np.frombuffer(embeddings.data, np.float32)
    return values.reshape(len(embeddings), embeddings.dimensions)


def letters(num_tokens: int) -> str:
    """A text of so many tokens, with the two that are put around it."""
    return " ".join("abcdefgh"[number % 8] for number in range(num_tokens - 2))


async def test_the_model_says_what_it_is(bert: Embedder) -> None:
    info = bert.info
    assert (info.architecture, info.pooling, info.embedding_length) == ("bert", "mean", WIDTH)
    assert (info.context_length, info.num_cells) == (CONTEXT, 0)
    assert bert.metadata["bert.pooling_type"] == "1"


async def test_texts_become_word_pieces(bert: Embedder) -> None:
    for text in SENTENCES:
        tokens = await bert.tokenize(text)
        assert tokens == word_pieces(text), text
    # The first word has the mark of a word's beginning, too.
    assert await bert.detokenize(await bert.tokenize("the seas", add_special=False)) == " the seas"


@pytest.mark.parametrize("pooling", ["mean", "cls"])
async def test_vectors_are_those_of_the_reference(tiny_models: Path, pooling: str) -> None:
    reference = Bert()
    expected = [getattr(reference, pooling)(word_pieces(text)) for text in SENTENCES]
    path = tiny_models / f"bert-{pooling}.gguf"
    async with await Embedder.load(path, ModelConfig(threads=1)) as embedder:
        embeddings = await embedder.embed(SENTENCES)
    assert embeddings.num_tokens == tuple(len(word_pieces(text)) for text in SENTENCES)
    np.testing.assert_allclose(matrix(embeddings), expected, atol=TOLERANCE)
    # The tolerance tells the sentences apart.
    distances = [np.abs(one - other).max() for one in expected for other in expected if one is not other]
    assert min(distances) > 10 * TOLERANCE


async def test_a_vector_does_not_depend_on_its_company(bert: Embedder) -> None:
    texts = [f"{SENTENCES[number % len(SENTENCES)]} {letters(3 + number % 30)}" for number in range(100)]
    together = await bert.embed(texts)
    alone = [await bert.embed(text) for text in texts]
    np.testing.assert_allclose(matrix(together), np.concatenate([matrix(one) for one in alone]), atol=COMPANY)
    assert together.num_tokens == tuple(one.num_tokens[0] for one in alone)
    assert bert.stats().steps < 2 * len(texts)


async def test_requests_of_many_tasks_share_batches(bert: Embedder) -> None:
    results: dict[int, Embeddings] = {}

    async def embed(number: int) -> None:
        results[number] = await bert.embed(SENTENCES[number % len(SENTENCES)])

    async with anyio.create_task_group() as tasks:
        for number in range(64):
            tasks.start_soon(embed, number)
    expected = matrix(await bert.embed(SENTENCES))
    for number, embeddings in results.items():
        np.testing.assert_allclose(matrix(embeddings)[0], expected[number % len(SENTENCES)], atol=COMPANY)


async def test_the_same_request_gives_the_same_bytes(bert: Embedder) -> None:
    first = await bert.embed(SENTENCES)
    assert (await bert.embed(SENTENCES)).data == first.data


async def test_vectors_have_length_one_unless_asked_otherwise(bert: Embedder) -> None:
    normalised = matrix(await bert.embed(SENTENCES))
    np.testing.assert_allclose(np.linalg.norm(normalised, axis=1), 1, atol=1e-6)
    raw = matrix(await bert.embed(SENTENCES, normalize=False))
    lengths = np.linalg.norm(raw, axis=1, keepdims=True)
    assert np.abs(lengths - 1).min() > 0.01
    np.testing.assert_allclose(raw / lengths, normalised, atol=1e-6)


async def test_fewer_dimensions_are_the_first_ones_at_length_one(bert: Embedder) -> None:
    whole, cut = [matrix(await bert.embed("the sea", dimensions=size))[0] for size in (WIDTH, 5)]
    np.testing.assert_allclose(cut, whole[:5] / np.linalg.norm(whole[:5]), atol=1e-6)
    for wrong in (0, WIDTH + 1):
        with pytest.raises(InvalidParameterError, match=f"from 1 to {WIDTH}, .* got {wrong}") as caught:
            await bert.embed("the sea", dimensions=wrong)
        assert caught.value.field == "dimensions"
    with pytest.raises(InvalidParameterError):
        await bert.embed("the sea", dimensions=-1)


async def test_results_come_as_lists_too(bert: Embedder) -> None:
    embeddings = await bert.embed(["the sea", "a"], dimensions=3)
    assert len(embeddings) == 2
    assert embeddings.total_tokens == 4 + 3
    np.testing.assert_array_equal(embeddings.vectors, matrix(embeddings))
    assert b"".join(embeddings.raw_vectors) == embeddings.data


async def test_token_ids_are_taken_as_they_are(bert: Embedder) -> None:
    text = "the sea is deep"
    ids = await bert.tokenize(text)
    by_id = await bert.embed([ids, ids[1:-1]])
    assert by_id.num_tokens == (len(ids), len(ids) - 2)
    np.testing.assert_allclose(matrix(by_id)[0], matrix(await bert.embed(text))[0], atol=COMPANY)
    bare = await bert.embed(text, add_special=False)
    np.testing.assert_allclose(matrix(by_id)[1], matrix(bare)[0], atol=COMPANY)


async def test_control_tokens_are_read_unless_told_not_to(bert: Embedder) -> None:
    assert TOKENS.index(SEP) in await bert.tokenize("a [SEP] b", add_special=False)
    assert TOKENS.index(SEP) not in await bert.tokenize("a [SEP] b", add_special=False, parse_special=False)
    read, plain = [await bert.embed("a [SEP] b", parse_special=special) for special in (True, False)]
    assert read.num_tokens < plain.num_tokens


async def test_lengths_around_the_batch_and_the_context(tiny_models: Path) -> None:
    reference = Bert()
    config = ModelConfig(threads=1, ubatch_size=32, batch_size=32)
    async with await Embedder.load(tiny_models / "bert-mean.gguf", config) as embedder:
        for num_tokens in (31, 32, 33, CONTEXT - 1, CONTEXT):
            embeddings = await embedder.embed([letters(num_tokens), "a"])
            assert embeddings.num_tokens == (num_tokens, 3)
            expected = reference.mean(word_pieces(letters(num_tokens)))
            np.testing.assert_allclose(matrix(embeddings)[0], expected, atol=TOLERANCE)
        with pytest.raises(InputTooLongError, match=r"input\[1\]: 97 tokens exceed .* 96 tokens") as caught:
            await embedder.embed(["a", letters(CONTEXT + 1), "b"])
        error = caught.value
        assert (error.index, error.prompt_tokens, error.context_length) == (1, CONTEXT + 1, CONTEXT)
        with pytest.raises(InputTooLongError, match=r"input\[0\]: 1000000 tokens"):
            await embedder.embed([[1] * 1_000_000])
        # Many blanks are no tokens, and a long word that is not known is one.
        assert (await embedder.embed([" " * 10_000, "☃" * 10_000])).num_tokens == (2, 3)


async def test_context_length_may_be_less_and_never_more_than_there_are_positions(tiny_models: Path) -> None:
    path = tiny_models / "bert-mean.gguf"
    async with await Embedder.load(path, ModelConfig(threads=1, context_length=10)) as embedder:
        assert embedder.info.context_length == 10
        with pytest.raises(InputTooLongError):
            await embedder.embed(letters(11))
    async with await Embedder.load(path, ModelConfig(threads=1, context_length=4096)) as embedder:
        assert embedder.info.context_length == CONTEXT


@pytest.mark.parametrize(
    ("inputs", "field"),
    [
        ([], "inputs"),
        ([[]], "input[0]"),
        (["a", [len(TOKENS)]], "input[1]"),
        (["a", [-1]], "input[1]"),
        (["a", [True]], "input[1]"),
        (["a", [1.5]], "input[1]"),
        (["a", b"bytes"], "input[1]"),
        (["a", None], "input[1]"),
        ([5], "input[0]"),
        (["\ud800"], "input[0]"),
    ],
)
async def test_what_is_no_input_is_named(bert: Embedder, inputs: Sequence[str], field: str) -> None:
    with pytest.raises(InvalidParameterError) as caught:
        await bert.embed(inputs)
    assert caught.value.field == field
    assert str(caught.value).startswith(field)


async def test_odd_texts_do_no_harm(bert: Embedder) -> None:
    texts = [
        "\0",
        "\u2028\u2029",
        "\ufffd",
        "e\u0301" * 20,
        "\U0001f30a" * 30,
        "你好",
        "[CLS][SEP][MASK][PAD]",
    ]
    embeddings = await bert.embed(texts)
    np.testing.assert_allclose(np.linalg.norm(matrix(embeddings), axis=1), 1, atol=1e-6)


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


async def test_loads_tell_their_progress(tiny_models: Path) -> None:
    seen: list[float] = []
    path = tiny_models / "bert-mean.gguf"
    async with await Embedder.load(path, on_progress=seen.append) as embedder:
        assert (seen[0], seen[-1]) == (0, 1)
        assert seen == sorted(seen)
        embedder.check_alive()
    async with Embedder.loading(path) as loading:
        assert isinstance(await loading.model(), Embedder)
        await (await loading.embedder()).close()


async def test_each_class_refuses_the_models_of_the_other(tiny_models: Path) -> None:
    with pytest.raises(WrongModelKindError, match="`Embedder`") as caught:
        await Engine.load(tiny_models / "bert-mean.gguf")
    assert caught.value.reason == "wrong_kind"
    with pytest.raises(WrongModelKindError, match="`Engine`"):
        await Embedder.load(tiny_models / main_file("llama"))
    with pytest.raises(WrongModelKindError, match="`Embedder`"):
        await anyio.to_thread.run_sync(SyncEngine.load, tiny_models / "embed-last.gguf")
    with pytest.raises(WrongModelKindError, match="`Engine`"):
        await anyio.to_thread.run_sync(SyncEmbedder.load, tiny_models / main_file("llama"))


@pytest.mark.parametrize(
    ("overrides", "message"),
    [({"bert.pooling_type": 4}, "ranks documents"), ({"bert.pooling_type": 5}, "must be 0 to 4")],
)
async def test_rerankers_are_refused(tiny_models: Path, overrides: dict[str, int], message: str) -> None:
    with pytest.raises(LoadError, match=message):
        await Embedder.load(tiny_models / "bert-mean.gguf", ModelConfig(metadata_overrides=overrides))


async def test_adapters_are_refused(tiny_models: Path) -> None:
    config = ModelConfig(lora=(LoraAdapter(path=tiny_models / "lora.gguf"),))
    with pytest.raises(LoadError, match="lora") as caught:
        await Embedder.load(tiny_models / "embed-last.gguf", config)
    assert caught.value.reason == "invalid_option"


async def test_the_last_token_of_a_decoder_gives_its_logits(tiny_models: Path) -> None:
    """The vector before the output matrix: with it, the engine's own next token comes out."""
    output = build("llama").tensors["output.weight"]
    prompts = [
        [VOCABULARY.live[(7 * number + step) % 90] for step in range(5 + number)] for number in range(6)
    ]
    config = ModelConfig(
        threads=1, context_length=256, kv_type_k="f32", kv_type_v="f32", flash_attention=False
    )
    async with await Embedder.load(tiny_models / "embed-last.gguf", config) as embedder:
        assert embedder.info.pooling == "last"
        vectors = matrix(await embedder.embed(prompts, normalize=False))
    async with await Engine.load(tiny_models / main_file("llama"), config) as engine:
        for prompt, vector in zip(prompts, vectors, strict=True):
            completion = await engine.generate(prompt, add_special=False, max_tokens=1, temperature=0)
            assert completion.tokens[0].id == np.argmax(output @ vector)


async def test_long_inputs_of_a_decoder_are_computed_in_parts(tiny_models: Path) -> None:
    ids = [VOCABULARY.live[(11 * step) % 90] for step in range(200)]
    vectors = []
    for rows in (256, 16):
        config = ModelConfig(
            threads=1, context_length=200, batch_size=rows, ubatch_size=rows, kv_type_k="f32", kv_type_v="f32"
        )
        async with await Embedder.load(tiny_models / "embed-last.gguf", config) as embedder:
            vectors.append(matrix(await embedder.embed([ids[:3], ids, ids[:150]])))
            with pytest.raises(InputTooLongError, match="201 tokens exceed the context length of 200"):
                await embedder.embed([[*ids, 1]])
    np.testing.assert_allclose(vectors[0], vectors[1], atol=COMPANY)


@pytest.mark.parametrize("sizes", [(512, 64), (32, 7)], ids=["large", "small"])
@pytest.mark.parametrize(("pooling", "number"), [("mean", 1), ("cls", 2), ("last", 3)])
@pytest.mark.parametrize("kind", KINDS)
async def test_any_decoder_embeds_where_its_pooling_is_set(
    tiny_models: Path, kind: Kind, pooling: str, number: int, sizes: tuple[int, int]
) -> None:
    rows, sequences = sizes
    config = ModelConfig(
        threads=1,
        context_length=130,
        batch_size=rows,
        ubatch_size=rows,
        max_sequences=sequences,
        kv_type_k="f32",
        kv_type_v="f32",
        flash_attention=False,
        metadata_overrides={f"{build(kind).architecture}.pooling_type": number},
    )
    texts = ["the sea " * times for times in (1, 40, 3, 2, 20, 7, 1, 5, 3)]
    async with await Embedder.load(tiny_models / main_file(kind), config) as embedder:
        assert embedder.info.pooling == pooling
        together = await embedder.embed(texts)
        assert max(together.num_tokens) > rows or rows == 512
        alone = [matrix(await embedder.embed(text)) for text in texts]
    # Nothing is rounded to 16 bits here. Measured: 1.1e-6 at most.
    np.testing.assert_allclose(matrix(together), np.concatenate(alone), atol=1e-5)


def test_without_an_event_loop(sync_bert: SyncEmbedder) -> None:
    reference = Bert()
    embeddings = sync_bert.embed(SENTENCES)
    expected = [reference.mean(word_pieces(text)) for text in SENTENCES]
    np.testing.assert_allclose(matrix(embeddings), expected, atol=TOLERANCE)
    assert sync_bert.tokenize("the sea") == word_pieces("the sea")
    assert sync_bert.detokenize(sync_bert.tokenize("the sea", add_special=False)) == " the sea"
    with pytest.raises(InputTooLongError):
        sync_bert.embed(letters(CONTEXT + 1))


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
        job = embedder._core.embed(buffer, None, True, wakeup.listener(0))
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
