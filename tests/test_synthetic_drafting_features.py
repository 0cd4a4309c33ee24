"""Drafting beside everything else: sampling, constraints, sessions, ends of all kinds. No text changes."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from draft_models import LENGTHS, PROMPTS, Choice, complete, config, counts, expected, ids, prompt, text_of
from llmserve import Completion, Drafting, Engine
from loops import Eventually
from synthetic import DRAFT_HEAD_FILE, EOS, MISSING_HEAD_FILE, VOCABULARY

pytestmark = pytest.mark.anyio

OBJECT = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 40},
        "tags": {"type": "array", "items": {"type": "string", "maxLength": 12}, "minItems": 2, "maxItems": 4},
        "count": {"type": "integer", "minimum": 0, "maximum": 9999},
    },
    "required": ["name", "tags", "count"],
    "additionalProperties": False,
}


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    """One event loop library is enough for what the engine computes."""
    return "asyncio"


@pytest.fixture(scope="module")
async def engine(tiny_models: Path) -> AsyncIterator[Engine]:
    async with await Engine.load(tiny_models / DRAFT_HEAD_FILE, config()) as engine:
        yield engine


@pytest.fixture(scope="module")
async def mtp(engine: Engine) -> AsyncIterator[Drafting]:
    async with await engine.open_drafting("mtp", draft_len=4, adaptive=False) as drafting:
        yield drafting


async def on_and_off(
    engine: Engine, drafting: Drafting, max_tokens: int = 80, **arguments: Any
) -> list[tuple[Completion, Completion]]:
    """Each prompt once without drafts and once with, all at once; the pairs are equal but for the drafts."""
    choices: tuple[Choice, ...] = (False, drafting)
    asked = [(tokens, choice) for tokens in PROMPTS[3:] for choice in choices]
    done = await asyncio.gather(
        *(
            complete(engine, tokens, max_tokens, choice, cache_prompt=False, **arguments)
            for tokens, choice in asked
        )
    )
    pairs = list(zip(done[::2], done[1::2], strict=True))
    for off, on in pairs:
        assert (ids(on), on.text, on.finish_reason) == (ids(off), off.text, off.finish_reason)
        assert on.usage.completion_tokens == off.usage.completion_tokens
        assert counts(off) == (0, 0)
    return pairs


def total(pairs: list[tuple[Completion, Completion]]) -> tuple[int, int]:
    return sum(on.usage.draft_tokens for _, on in pairs), sum(on.usage.accepted_tokens for _, on in pairs)


@pytest.mark.parametrize(
    "params",
    [
        {"temperature": 0.7},
        {"temperature": 1.0, "top_p": 0.9},
        {"temperature": 1.3, "top_k": 20, "min_p": 0.02},
        {"temperature": 0.9, "repetition_penalty": 1.3, "frequency_penalty": 0.4, "presence_penalty": 0.3},
        {"repetition_penalty": 1.5},
        {"repetition_penalty": 1.5, "repeat_last_n": 20},
        {"temperature": 1.0, "mirostat": 1, "mirostat_tau": 2.0},
        {"temperature": 1.0, "mirostat": 2, "mirostat_tau": 2.0, "mirostat_eta": 0.5},
        {"temperature": 1.0, "adaptive_target": 0.3, "samplers": ("temperature", "adaptive_p")},
        {"temperature": 0.8, "xtc_probability": 0.3, "xtc_threshold": 0.05},
        {"temperature": 0.9, "typical_p": 0.8, "dynatemp_range": 0.5},
        {"dry_multiplier": 0.8, "dry_allowed_length": 1, "dry_penalty_last_n": 100},
        {"no_repeat_ngram_size": 1},
    ],
    ids=lambda params: "-".join(params),
)
async def test_sampled_and_penalised_texts(engine: Engine, mtp: Drafting, params: dict[str, Any]) -> None:
    pairs = await on_and_off(engine, mtp, seed=17, **params)
    drafted, accepted = total(pairs)
    assert 0 < accepted < drafted
    if params.get("temperature", 0) > 0:
        assert any(
            ids(off) != text_of(tokens, 80) for tokens, (off, _) in zip(PROMPTS[3:], pairs, strict=True)
        )


async def test_log_probabilities(engine: Engine, mtp: Drafting) -> None:
    for off, on in await on_and_off(engine, mtp, logprobs=3):
        for one, other in zip(off.tokens, on.tokens, strict=True):
            assert one.logprobs is not None
            assert other.logprobs is not None
            assert [token for token, _ in one.logprobs.top] == [token for token, _ in other.logprobs.top]
            assert other.logprobs.logprob == pytest.approx(one.logprobs.logprob, abs=1e-3)


async def test_documents_of_a_schema(engine: Engine, mtp: Drafting) -> None:
    pairs = await on_and_off(engine, mtp, 160, json_schema=OBJECT)
    for off, _ in pairs:
        document = json.loads(off.text)
        assert len(document["tags"]) >= 2
        assert off.finish_reason == "stop"
    _, accepted = total(pairs)
    assert accepted > 0


@pytest.mark.parametrize(
    "schema",
    [
        {"const": "yes"},
        {"type": "boolean"},
        {"enum": ["alpha", "beta"]},
        {"type": "null"},
        {"type": "integer", "minimum": 0, "maximum": 9},
        {"type": "array", "maxItems": 0},
    ],
    ids=json.dumps,
)
async def test_a_draft_that_would_outlast_a_short_document(
    engine: Engine, mtp: Drafting, schema: dict[str, Any]
) -> None:
    for off, on in await on_and_off(engine, mtp, json_schema=schema):
        json.loads(on.text)
        assert on.finish_reason == off.finish_reason == "stop"


async def test_documents_that_the_limit_closes(engine: Engine, mtp: Drafting) -> None:
    for max_tokens in range(24, 48, 4):
        for _, on in await on_and_off(
            engine, mtp, max_tokens, json_schema={"type": "array", "items": {"type": "string"}}
        ):
            assert isinstance(json.loads(on.text), list)


async def test_a_regular_expression(engine: Engine, mtp: Drafting) -> None:
    pairs = await on_and_off(engine, mtp, regex="[ -~]{30,50}")
    assert total(pairs)[1] > 0
    assert all(30 <= len(on.text) <= 50 for _, on in pairs)


async def test_stop_texts_inside_drafts(engine: Engine, mtp: Drafting) -> None:
    """A stop text for every place of the output, so for every place in a draft."""
    tokens = PROMPTS[5]
    output = text_of(tokens, 40)
    for end in range(1, 40):
        stop = await engine.detokenize(output[end - 1 : end + 1])
        off = await complete(engine, tokens, 60, False, stop=stop)
        on = await complete(engine, tokens, 60, mtp, stop=stop, cache_prompt=False)
        assert (ids(on), on.text, on.finish_reason) == (ids(off), off.text, "stop")
        assert on.usage.completion_tokens == off.usage.completion_tokens <= end + 1


async def test_stop_tokens_and_ends_inside_drafts(engine: Engine, mtp: Drafting) -> None:
    tokens = PROMPTS[4]
    output = text_of(tokens, 60)
    for token in sorted(set(output)):
        on = await complete(engine, tokens, 60, mtp, stop_token_ids=[token], cache_prompt=False)
        assert on.finish_reason == "stop"
        assert on.usage.completion_tokens == output.index(token) + 1
    # The best logit is 10 and 0.002 for each id, that of the end is 30 less. So with this bias it comes where
    # a token below 40 would.
    end = VOCABULARY.id(EOS)
    bias = {end: 30 + 0.002 * (39.5 - end)}
    for tokens in PROMPTS[3:]:
        early = [number for number, token in enumerate(text_of(tokens, 100)) if token < 40]
        on = await complete(engine, tokens, 100, mtp, logit_bias=bias, cache_prompt=False)
        assert on.finish_reason == ("stop" if early else "length")
        assert on.usage.completion_tokens == (early[0] + 1 if early else 100)


async def test_a_session_goes_on_drafting(engine: Engine, mtp: Drafting) -> None:
    first, second = prompt(200, 45), prompt(201, 12)
    session = engine.session()
    answer = await complete(engine, first, 30, mtp, session=session)
    going_on = await complete(engine, second, 40, mtp, session=session)
    assert going_on.usage.cached_tokens == len(first) + 29
    whole = [*first, *ids(answer), *second]
    simulated = expected(whole, 40, 4)
    assert ids(going_on) == simulated.tokens
    assert counts(going_on) == (simulated.num_drafted, simulated.num_accepted)


async def test_sessions_with_drafts_only_now_and_then(engine: Engine, mtp: Drafting) -> None:
    """Whatever drafted cells a session has or lacks, its text is that of one without drafts."""
    choices: list[Choice] = [False, mtp, mtp, False, mtp]
    session = engine.session()
    whole: list[int] = []
    for turn, choice in enumerate(choices):
        asked = prompt(210 + turn, 15)
        answer = await complete(engine, asked, 20, choice, session=session)
        whole += asked
        assert ids(answer) == text_of(whole, 20)
        whole += ids(answer)


async def test_a_saved_session(engine: Engine, mtp: Drafting, tiny_models: Path, tmp_path: Path) -> None:
    """In an engine that has no cells of it, so that those of the file count."""
    first, second = prompt(220, 60), prompt(221, 9)
    session = engine.session()
    answer = await complete(engine, first, 30, mtp, session=session)
    await session.save(tmp_path / "session")
    simulated = expected([*first, *ids(answer), *second], 40, 4)
    async with await Engine.load(tiny_models / DRAFT_HEAD_FILE, config()) as other:
        await other.enable_mtp(4, adaptive=False)
        loaded = other.session()
        await loaded.load(tmp_path / "session")
        going_on = await complete(other, second, 40, session=loaded)
        assert going_on.usage.cached_tokens == len(first) + 29
        assert ids(going_on) == simulated.tokens
        assert counts(going_on) == (simulated.num_drafted, simulated.num_accepted)


async def test_parked_and_shared_prefixes(tiny_models: Path) -> None:
    """One slot for three prompts with one beginning: cells move to host memory and back."""
    beginning = prompt(230, 100)
    asked = [[*beginning, *prompt(231 + number, 20)] for number in range(3)]
    async with await Engine.load(tiny_models / DRAFT_HEAD_FILE, config(max_sequences=1)) as engine:
        await engine.enable_mtp(4, adaptive=False)
        for _ in range(3):
            for tokens in asked:
                completion = await complete(engine, tokens, 40)
                simulated = expected(tokens, 40, 4)
                assert ids(completion) == simulated.tokens
                assert counts(completion) == (simulated.num_drafted, simulated.num_accepted)
        assert engine.stats().cached_tokens > 0


async def test_prompts_that_arrive_together_and_share_a_beginning(engine: Engine, mtp: Drafting) -> None:
    beginning = prompt(240, 120)
    asked = [[*beginning, *prompt(241 + number, 10)] for number in range(6)]
    done = await asyncio.gather(*(complete(engine, tokens, 40, mtp) for tokens in asked))
    for tokens, completion in zip(asked, done, strict=True):
        simulated = expected(tokens, 40, 4)
        assert ids(completion) == simulated.tokens
        assert counts(completion) == (simulated.num_drafted, simulated.num_accepted)
    assert sum(completion.usage.cached_tokens for completion in done) > 0


async def test_twenty_dropped_streams_leave_nothing(
    engine: Engine, mtp: Drafting, eventually: Eventually
) -> None:
    async def drop(number: int) -> None:
        tokens = prompt(300 + number, 20 + 15 * number)
        stream = engine.stream(tokens, add_special=False, max_tokens=150, drafting=mtp)
        async with stream:
            seen = 0
            async for delta in stream:
                seen += len(delta.tokens)
                if seen >= number:
                    break

    await asyncio.gather(*(drop(number) for number in range(20)))
    await eventually(lambda: engine.stats().num_running == engine.stats().num_waiting == 0)
    for number, tokens in enumerate(PROMPTS):
        completion = await complete(engine, tokens, LENGTHS[number], mtp, cache_prompt=False)
        simulated = expected(tokens, LENGTHS[number], 4)
        assert ids(completion) == simulated.tokens
        assert counts(completion) == (simulated.num_drafted, simulated.num_accepted)


async def test_prompt_lookup_finds_what_repeats(tiny_models: Path) -> None:
    """The text goes on from its last 20 tokens: where those occurred before, so does what follows."""
    start = prompt(400, 20)
    refrain = [*start, *text_of(start, 60), *prompt(401, 5), *start]
    assert text_of(refrain, 60) == text_of(start, 60)
    for file in (DRAFT_HEAD_FILE, MISSING_HEAD_FILE):
        async with await Engine.load(tiny_models / file, config()) as engine:
            await engine.enable_prompt_lookup(draft_len=5, adaptive=False)
            completion = await complete(engine, refrain, 60)
            assert ids(completion) == text_of(refrain, 60)
            drafted, accepted = counts(completion)
            assert 40 <= accepted <= drafted
            assert engine.stats().num_draft_users == 0
            for number, tokens in enumerate(PROMPTS):
                completion = await complete(engine, tokens, LENGTHS[number])
                assert ids(completion) == text_of(tokens, LENGTHS[number])


async def test_both_ways_to_draft_in_one_batch(engine: Engine, mtp: Drafting) -> None:
    lookup = await engine.open_drafting("prompt_lookup", draft_len=8, adaptive=False)
    choices: list[Choice] = [mtp, lookup, False]
    requests = [
        complete(engine, tokens, LENGTHS[number], choices[number % 3], cache_prompt=False)
        for number, tokens in enumerate(PROMPTS)
    ]
    for number, completion in enumerate(await asyncio.gather(*requests)):
        simulated = expected(PROMPTS[number], LENGTHS[number], 4)
        assert ids(completion) == simulated.tokens
        if choices[number % 3] is mtp:
            assert counts(completion) == (simulated.num_drafted, simulated.num_accepted)
