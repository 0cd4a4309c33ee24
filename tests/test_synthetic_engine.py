"""The engine on every kind of cache: texts do not depend on company, reuse, preemption or early ends.

Caches hold F32 and flash attention is off: then the noise of floating point (1e-3 at most here) stays far
below the margins of the prompts, so texts must be equal, token by token.
"""

from __future__ import annotations

import asyncio
import dataclasses
import hashlib
import random
from collections.abc import Sequence
from pathlib import Path

import pytest

from llmserve import Completion, Engine, ModelConfig, Stats
from synthetic import KINDS, VOCABULARY, Kind, main_file, write_all

TOKENS = 48
MARGIN = 0.04

# Over this many tokens, the margins of these four of the eight prompts stay above 0.007.
LONG_TOKENS = 150
LONG_PROMPTS = (0, 1, 3, 4)
MAX_ROUNDS = 20

# Seeds, found by search, of prompts whose two best logits are never closer than `MARGIN`.
SEEDS: dict[Kind, tuple[int, ...]] = {
    "llama": (4, 6, 7, 9, 13, 16, 18, 19),
    "swa": (5, 7, 9, 11, 13, 14, 16, 18),
    "recurrent": (0, 1, 3, 4, 6, 8, 15, 17),
    "hybrid": (1, 3, 5, 8, 11, 12, 13, 14),
}

# What llama.cpp's own `llama-server` gives for them, one at a time, with F32 caches, no flash attention:
# the text of the first prompt, and SHA-256 over the token ids of all eight (`repr` of the list of lists).
PEER: dict[Kind, tuple[str, str]] = {
    "llama": (
        "-_M sea~`ing tre to oF an c(\n,Fin sea to sea t sea to(B seN sud(\n"
        " oD of sea.ing seaeinge}V of trein",
        "016d9d1adbfe69ec41d921d67ab7ec54524ff9b5ee4de5e035462ffbc346a94f",
    ),
    "swa": (
        "?XqP~ sAer%ftq<q<qKed<HHH: s=.KedX s<f o~tq~edXXer]qing%aerQ",
        "dd65126ed27a9c261adf2ca6dc3b6399130cc373e6ec977da309b52628b6076c",
    ),
    "recurrent": (
        " caf0 s\\ sO=e s c{mO!ES2 toE%33G  cafmO!39kmRO8E[_~E3 i9-3<6e",
        "b4380fadca8959df5315f4e2ab9ad6aba23da5e6ac28c87e57097af7cfc385d1",
    ),
    "hybrid": (
        " caf{nedT' ca tre/edl# tre treo mM$ ser' tree}6好 c(amedm cafKm_oYmrk.b6o caf6`",
        "edfcbeb8e92ca7e4df51e7015d1ca9502ad58d30af5b8c60515e3c997e10202c",
    ),
}

Prompt = list[int]
Tokens = list[int]


def prompts(kind: Kind) -> list[Prompt]:
    """Eight prompts of 20 to 139 tokens: some shorter and some longer than the sliding window."""
    live = VOCABULARY.live
    result = []
    for number, seed in enumerate(SEEDS[kind]):
        draw = random.Random(seed).random  # noqa: S311 - no secret
        result.append([live[int(draw() * len(live))] for _ in range(20 + 17 * number)])
    return result


def config(*, sequences: int = 8, unified_cells: int | None = None, prefix_cache: bool = True) -> ModelConfig:
    # A small ubatch keeps llama.cpp's sliding-window cache small, so that old cells really go.
    return ModelConfig(
        context_length=512,
        max_sequences=sequences,
        kv_cells=unified_cells,
        kv_layout="per_sequence" if unified_cells is None else "unified",
        batch_size=64,
        ubatch_size=32,
        threads=1,
        kv_type_k="f32",
        kv_type_v="f32",
        flash_attention=False,
        prefix_cache=prefix_cache,
    )


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("synthetic")
    write_all(folder)
    return folder


@pytest.fixture(scope="module")
def alone(models: Path) -> dict[Kind, list[Tokens]]:
    """The tokens that each prompt gives with an engine that has one sequence and reuses nothing."""

    async def generate(kind: Kind) -> list[Completion]:
        single = config(sequences=1, prefix_cache=False)
        async with await Engine.load(models / main_file(kind), single) as engine:
            return [await complete(engine, prompt, logprobs=2) for prompt in prompts(kind)]

    result: dict[Kind, list[Tokens]] = {}
    for kind in KINDS:
        completions = asyncio.run(generate(kind))
        assert min(margin(completion) for completion in completions) > MARGIN, kind
        result[kind] = [ids(completion) for completion in completions]
        text, digest = PEER[kind]
        assert completions[0].text == text
        assert hashlib.sha256(repr(result[kind]).encode()).hexdigest() == digest, kind
    return result


async def complete(
    engine: Engine, prompt: Prompt, max_tokens: int = TOKENS, logprobs: int | None = None
) -> Completion:
    return await engine.generate(
        prompt, add_special=False, max_tokens=max_tokens, ignore_eos=True, logprobs=logprobs
    )


def ids(completion: Completion) -> Tokens:
    assert completion.finish_reason == "length"
    return [token.id for token in completion.tokens]


def margin(completion: Completion) -> float:
    """The smallest difference between the two best log-probabilities."""
    differences: list[float] = []
    for token in completion.tokens:
        assert token.logprobs is not None
        (_, best), (_, second) = token.logprobs.top
        differences.append(best - second)
    return min(differences)


async def together(engine: Engine, kind: Kind) -> list[Completion]:
    return await asyncio.gather(*(complete(engine, prompt) for prompt in prompts(kind)))


@pytest.mark.parametrize("unified_cells", [None, 4096])
@pytest.mark.parametrize("kind", KINDS)
def test_eight_at_once_give_the_tokens_of_each_alone(
    kind: Kind, unified_cells: int | None, models: Path, alone: dict[Kind, list[Tokens]]
) -> None:
    async def run() -> list[Completion]:
        many = config(unified_cells=unified_cells)
        async with await Engine.load(models / main_file(kind), many) as engine:
            return await together(engine, kind)

    assert [ids(completion) for completion in asyncio.run(run())] == alone[kind]


@pytest.mark.parametrize("kind", KINDS)
def test_a_second_round_may_reuse_prefixes_and_gives_the_same_tokens(
    kind: Kind, models: Path, alone: dict[Kind, list[Tokens]]
) -> None:
    async def run() -> tuple[list[Completion], list[Completion]]:
        async with await Engine.load(models / main_file(kind), config()) as engine:
            return await together(engine, kind), await together(engine, kind)

    first, second = asyncio.run(run())
    assert [ids(completion) for completion in first] == alone[kind]
    assert [ids(completion) for completion in second] == alone[kind]
    if kind == "llama":
        # All but the last token of each prompt, whose logits must be computed.
        expected = [len(prompt) - 1 for prompt in prompts(kind)]
        assert [completion.usage.cached_tokens for completion in second] == expected


@pytest.mark.parametrize("kind", KINDS)
def test_going_on_from_a_finished_sequence_reuses_it(
    kind: Kind, models: Path, alone: dict[Kind, list[Tokens]]
) -> None:
    half = TOKENS // 2

    async def run() -> list[Completion]:
        results = []
        async with await Engine.load(models / main_file(kind), config()) as engine:
            for prompt in prompts(kind):
                start = await complete(engine, prompt, half)
                results.append(await complete(engine, prompt + ids(start), TOKENS - half))
        return results

    completions = asyncio.run(run())
    assert [ids(completion) for completion in completions] == [tokens[half:] for tokens in alone[kind]]
    # The end of the old sequence is the start of the new one, so no kind of cache has to drop anything.
    for prompt, completion in zip(prompts(kind), completions, strict=True):
        assert completion.usage.prompt_tokens == len(prompt) + half
        assert completion.usage.cached_tokens == len(prompt) + half - 1


@pytest.mark.parametrize("kind", KINDS)
def test_a_prompt_that_leaves_a_cached_one_half_way_is_not_misled(
    kind: Kind, models: Path, alone: dict[Kind, list[Tokens]]
) -> None:
    """The cached sequence must be trimmed (where it can be) or computed anew, never used as it is."""

    async def run() -> list[Completion]:
        results = []
        async with await Engine.load(models / main_file(kind), config(sequences=2)) as engine:
            for prompt in prompts(kind):
                cut = len(prompt) * 3 // 4
                decoy = [*prompt[:cut], *reversed(prompt), *prompt[:40]]
                await complete(engine, decoy, 8)
                results.append(await complete(engine, prompt))
        return results

    assert [ids(completion) for completion in asyncio.run(run())] == alone[kind]


@pytest.mark.parametrize("kind", KINDS)
def test_a_pool_that_is_too_small_preempts_and_changes_no_token(kind: Kind, models: Path) -> None:
    """Four sequences of up to 221 tokens share 256 cells, so no two of them can both reach their end.

    Whether they meet depends on when the requests reach the engine, so rounds are repeated until they have;
    the tokens must be right in each.
    """
    path = models / main_file(kind)
    asked = [prompts(kind)[number] for number in LONG_PROMPTS]

    async def apart() -> list[Tokens]:
        async with await Engine.load(path, config(sequences=1, prefix_cache=False)) as engine:
            return [ids(await complete(engine, prompt, LONG_TOKENS)) for prompt in asked]

    async def crowded(expected: list[Tokens]) -> Stats:
        small = dataclasses.replace(config(unified_cells=256), context_length=256)
        async with await Engine.load(path, small) as engine:
            for _ in range(MAX_ROUNDS):
                requests = (complete(engine, prompt, LONG_TOKENS) for prompt in asked)
                assert [ids(completion) for completion in await asyncio.gather(*requests)] == expected
                if engine.stats().preemptions:
                    break
            return engine.stats()

    stats = asyncio.run(crowded(asyncio.run(apart())))
    assert stats.preemptions > 0
    assert stats.num_running == 0


@pytest.mark.parametrize("kind", KINDS)
def test_streams_closed_early_leave_nothing_wrong_behind(
    kind: Kind, models: Path, alone: dict[Kind, list[Tokens]]
) -> None:
    async def leave(engine: Engine, prompt: Prompt, after: int) -> None:
        """Closes a stream after `after` tokens; with 0 as soon as it waits in the queue."""
        async with engine.stream(prompt, add_special=False, max_tokens=TOKENS, ignore_eos=True) as stream:
            await stream.accepted()
            seen = 0
            while seen < after:
                seen += len((await anext(stream)).tokens)

    async def run() -> tuple[list[Completion], Stats]:
        async with await Engine.load(models / main_file(kind), config(sequences=4)) as engine:
            leaving = [
                asyncio.create_task(leave(engine, prompt, 5 * number))
                for number, prompt in enumerate(prompts(kind))
            ]
            completions = await together(engine, kind)
            await asyncio.gather(*leaving)
            again = await together(engine, kind)
            return [*completions, *again], engine.stats()

    completions, stats = asyncio.run(run())
    assert [ids(completion) for completion in completions] == alone[kind] * 2
    assert stats.num_running == 0
    assert stats.num_waiting == 0


@pytest.mark.parametrize("kind", KINDS)
def test_prompts_that_share_a_start_and_arrive_together(
    kind: Kind, models: Path, alone: dict[Kind, list[Tokens]]
) -> None:
    """The longest prompt and beginnings of it: each equals what it gives alone."""
    longest = prompts(kind)[-1]
    beginnings = [longest[:length] for length in (40, 80, 120)]

    async def run(engine_config: ModelConfig, ask: Sequence[Prompt]) -> list[Completion]:
        async with await Engine.load(models / main_file(kind), engine_config) as engine:
            return await asyncio.gather(*(complete(engine, prompt, 1) for prompt in ask))

    apart = asyncio.run(run(config(sequences=1, prefix_cache=False), beginnings))
    joined = asyncio.run(run(config(), [longest, *beginnings]))
    assert ids(joined[0]) == alone[kind][-1][:1]
    assert [ids(completion) for completion in joined[1:]] == [ids(completion) for completion in apart]


def test_the_parts_of_a_split_model_give_the_same_tokens(
    models: Path, alone: dict[Kind, list[Tokens]]
) -> None:
    async def run() -> Completion:
        async with await Engine.load(models / "split-00001-of-00002.gguf", config()) as engine:
            return await complete(engine, prompts("llama")[0])

    assert ids(asyncio.run(run())) == alone["llama"][0]
