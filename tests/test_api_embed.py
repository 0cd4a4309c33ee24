"""Embedding models through the Python API, on generated models whose vectors are known."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path

import anyio
import anyio.lowlevel
import anyio.to_thread
import numpy as np
import pytest

from bert_reference import Bert, word_pieces
from llmserve import Embedder, Embeddings, InputTooLongError, InvalidParameterError, ModelConfig, SyncEmbedder
from synthetic.embedding_models import CONTEXT, SEP, TOKENS, WIDTH
from vectors import COMPANY, TOLERANCE, letters, matrix

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
        # Many blanks make no tokens, and a long unknown word makes one.
        assert (await embedder.embed([" " * 10_000, "☃" * 10_000])).num_tokens == (2, 3)


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


def test_without_an_event_loop(sync_bert: SyncEmbedder) -> None:
    reference = Bert()
    embeddings = sync_bert.embed(SENTENCES)
    expected = [reference.mean(word_pieces(text)) for text in SENTENCES]
    np.testing.assert_allclose(matrix(embeddings), expected, atol=TOLERANCE)
    assert sync_bert.tokenize("the sea") == word_pieces("the sea")
    assert sync_bert.detokenize(sync_bert.tokenize("the sea", add_special=False)) == " the sea"
    with pytest.raises(InputTooLongError):
        sync_bert.embed(letters(CONTEXT + 1))
