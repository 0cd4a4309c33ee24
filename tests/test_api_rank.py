"""Models that rank documents, through the Python API: scores, joining, limits, refusals."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from bert_reference import Bert, joined_pieces
from llmserve import (
    Embedder,
    InputTooLongError,
    InvalidParameterError,
    ModelConfig,
    SyncEmbedder,
    SyncEngine,
    WrongModelKindError,
)
from synthetic.embedding_models import CONTEXT
from vectors import COMPANY

QUERY = "is the sea deep?"
DOCUMENTS = ("the sea is deep.", "green trees", "", "a cafe and the seas; deeper", "x" * 30)

pytestmark = pytest.mark.anyio


@pytest.fixture
async def bert(tiny_models: Path) -> AsyncIterator[Embedder]:
    async with await Embedder.load(tiny_models / "rank-bert.gguf", ModelConfig(threads=1)) as embedder:
        yield embedder


@pytest.fixture
async def qwen(tiny_models: Path) -> AsyncIterator[Embedder]:
    config = ModelConfig(threads=1, context_length=64)
    async with await Embedder.load(tiny_models / "rank-template.gguf", config) as embedder:
        yield embedder


async def test_scores_are_those_of_the_reference(bert: Embedder) -> None:
    assert (bert.info.pooling, bert.info.embedding_length) == ("rank", 1)
    reference = Bert()
    tokens = [joined_pieces(QUERY, document) for document in DOCUMENTS]
    expected = [reference.score(ids) for ids in tokens]
    raw = await bert.rerank(QUERY, DOCUMENTS, raw_scores=True)
    assert raw.values == pytest.approx(expected, abs=COMPANY)
    assert raw.num_tokens == tuple(map(len, tokens))
    assert raw.ranking == sorted(range(len(expected)), key=lambda index: -expected[index])
    scores = await bert.rerank(QUERY, DOCUMENTS)
    assert scores.values == pytest.approx([1 / (1 + math.exp(-score)) for score in raw.values], abs=COMPANY)
    assert (len(scores), scores.ranking, scores.total_tokens) == (5, raw.ranking, sum(map(len, tokens)))


async def test_pairs_may_have_queries_of_their_own(bert: Embedder) -> None:
    pairs = [("the sea", "green"), ("a tree", "green"), ("a tree", "deep")]
    together = await bert.score(pairs)
    alone = [(await bert.rerank(query, [document])).values[0] for query, document in pairs]
    assert together.values == pytest.approx(alone, abs=COMPANY)
    assert len(set(together.values)) == 3


async def test_many_pairs_are_handed_over_in_pieces(bert: Embedder) -> None:
    documents = [f"{'the sea ' * (number % 9)}{number}" for number in range(4000)]
    scores = await bert.rerank(QUERY, documents)
    assert scores.values[17] == pytest.approx(
        (await bert.rerank(QUERY, documents[17:18])).values[0], abs=COMPANY
    )


async def test_a_document_that_is_too_long_is_cut_if_wanted(bert: Embedder) -> None:
    long = "the sea " * CONTEXT
    with pytest.raises(InputTooLongError, match=r"input\[1\]") as raised:
        await bert.rerank(QUERY, ["deep", long])
    assert (raised.value.index, raised.value.context_length) == (1, CONTEXT)
    cut = await bert.rerank(QUERY, ["deep", long], truncate=True)
    assert cut.num_tokens[1] == CONTEXT
    room = CONTEXT - len(joined_pieces(QUERY, ""))
    fitting = ("the sea " * CONTEXT).split()[:room]
    assert cut.values[1] == (await bert.rerank(QUERY, [" ".join(fitting)])).values[0]
    with pytest.raises(InputTooLongError):
        await bert.rerank(long, ["deep"], truncate=True)


async def test_a_models_own_template_joins(qwen: Embedder) -> None:
    frame = "<|im_start|>Is it so?\nQuery: {}\nDocument: {}<|im_end|>\n<|im_start|>"
    scores = await qwen.rerank("Who?", ["Me.", "You {query}"])
    for count, document in zip(scores.num_tokens, ("Me.", "You {query}"), strict=True):
        assert count == len(await qwen.tokenize(frame.format("Who?", document), add_special=False))
    # They are probabilities already: of yes, and not of no.
    raw = await qwen.rerank("Who?", ["Me.", "You {query}"], raw_scores=True)
    assert scores.values == raw.values
    assert all(0 < value < 1 for value in raw.values)
    assert qwen.info.embedding_length == 2


async def test_documents_have_no_control_tokens(qwen: Embedder) -> None:
    plain, control = (await qwen.rerank("Who?", ["", "<|im_end|>"])).num_tokens
    assert (
        control - plain == len(await qwen.tokenize("<|im_end|>", add_special=False, parse_special=False)) > 1
    )


async def test_a_document_is_cut_within_its_template(qwen: Embedder) -> None:
    long = "deep \u2603 sea, " * 40
    with pytest.raises(InputTooLongError):
        await qwen.rerank("Who?", [long])
    scores = await qwen.rerank("Who?", [long, "Me."], truncate=True)
    assert 60 <= scores.num_tokens[0] <= 64
    assert scores.values[1] == pytest.approx((await qwen.rerank("Who?", ["Me."])).values[0], abs=COMPANY)


async def test_each_kind_of_model_refuses_what_the_other_does(bert: Embedder, tiny_models: Path) -> None:
    with pytest.raises(InvalidParameterError, match="ranks documents and gives no embeddings"):
        await bert.embed("the sea")
    async with await Embedder.load(tiny_models / "bert-mean.gguf", ModelConfig(threads=1)) as other:
        with pytest.raises(InvalidParameterError, match="does not rank documents"):
            await other.rerank("the sea", ["deep"])
    with pytest.raises(WrongModelKindError):
        SyncEngine.load(tiny_models / "rank-bert.gguf")


@pytest.mark.parametrize(
    ("query", "documents", "message"),
    [
        ("the sea", [], "inputs: must have at least one input"),
        ("the sea", ["deep", 5], r"input\[1\]: must be a str, got 5"),
        (None, ["deep"], r"query\[0\]: must be a str, got None"),
    ],
)
async def test_wrong_pairs(bert: Embedder, query: Any, documents: Any, message: str) -> None:
    with pytest.raises(InvalidParameterError, match=message):
        await bert.rerank(query, documents)


async def test_wrong_pairs_of_a_template(qwen: Embedder) -> None:
    with pytest.raises(InvalidParameterError, match="document: must be a str, got 5"):
        await qwen.rerank("Who?", [5])  # type: ignore[list-item]


def test_without_an_event_loop(tiny_models: Path) -> None:
    with SyncEmbedder.load(tiny_models / "rank-bert.gguf", ModelConfig(threads=1)) as embedder:
        assert (
            embedder.rerank(QUERY, DOCUMENTS).ranking
            == embedder.score([(QUERY, document) for document in DOCUMENTS]).ranking
        )
