"""Which models give embeddings, how they are loaded, and decoders that do."""

from __future__ import annotations

from pathlib import Path

import anyio
import anyio.lowlevel
import anyio.to_thread
import numpy as np
import pytest

from llmserve import (
    Embedder,
    Engine,
    InputTooLongError,
    LoadError,
    LoraAdapter,
    ModelConfig,
    SyncEmbedder,
    SyncEngine,
    WrongModelKindError,
)
from llmserve.any_model import load_any
from synthetic import KINDS, VOCABULARY, Kind, build, main_file
from synthetic.embedding_models import CONTEXT
from vectors import COMPANY, letters, matrix

pytestmark = pytest.mark.anyio


async def test_loads_tell_their_progress(tiny_models: Path) -> None:
    seen: list[float] = []
    path = tiny_models / "bert-mean.gguf"
    async with await Embedder.load(path, on_progress=seen.append) as embedder:
        assert (seen[0], seen[-1]) == (0, 1)
        assert seen == sorted(seen)
        embedder.check_alive()
    async with load_any(path, ModelConfig()) as model:
        assert isinstance(model, Embedder)
    async with load_any(tiny_models / main_file("llama"), ModelConfig(context_length=64)) as model:
        assert isinstance(model, Engine)


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
    [({"bert.pooling_type": 4}, "has no cls.output.weight"), ({"bert.pooling_type": 5}, "must be 0 to 4")],
)
async def test_rankers_without_a_head_are_refused(
    tiny_models: Path, overrides: dict[str, int], message: str
) -> None:
    with pytest.raises(LoadError, match=message):
        await Embedder.load(tiny_models / "bert-mean.gguf", ModelConfig(metadata_overrides=overrides))


async def test_adapters_are_refused(tiny_models: Path) -> None:
    config = ModelConfig(lora=(LoraAdapter(path=tiny_models / "lora.gguf"),))
    with pytest.raises(LoadError, match="lora") as caught:
        await Embedder.load(tiny_models / "embed-last.gguf", config)
    assert caught.value.reason == "invalid_option"


async def test_context_length_may_be_less_and_never_more_than_there_are_positions(tiny_models: Path) -> None:
    path = tiny_models / "bert-mean.gguf"
    async with await Embedder.load(path, ModelConfig(threads=1, context_length=10)) as embedder:
        assert embedder.info.context_length == 10
        with pytest.raises(InputTooLongError):
            await embedder.embed(letters(11))
    async with await Embedder.load(path, ModelConfig(threads=1, context_length=4096)) as embedder:
        assert embedder.info.context_length == CONTEXT


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
