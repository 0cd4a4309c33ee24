"""Each sampler draws, from a model's own logits, what its definition says."""

from __future__ import annotations

import asyncio
import math
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from llmserve import Engine, ModelConfig, SamplingParams
from sampler_reference import Vector, distribution
from synthetic import VOCABULARY

pytestmark = pytest.mark.anyio

NUM_DRAWS = 400
NATIVE = ("penalties", "dry", "top_n_sigma", "top_k", "typ_p", "top_p", "min_p", "xtc", "temperature")
LIVE = VOCABULARY.live
# Found by search: some tokens repeat, also in order, one of them is likely to come next, and so are others.
TEXT = [LIVE[place] for place in (48, 42, 29, 21, 42, 29, 115, 42, 48, 42, 29)]


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    """One event loop library is enough for what the engine computes."""
    return "asyncio"


@pytest.fixture(scope="module")
async def engine(tiny_model: Path) -> AsyncIterator[Engine]:
    exact = ModelConfig(
        context_length=512,
        max_sequences=16,
        threads=1,
        kv_type_k="f32",
        kv_type_v="f32",
        flash_attention=False,
        max_queued_requests=NUM_DRAWS,
    )
    async with await Engine.load(tiny_model, exact) as engine:
        yield engine


@pytest.fixture(scope="module")
async def logits(engine: Engine) -> Vector:
    """Those after `TEXT`, from the log-probabilities of forced tokens. Dead tokens have the logit 0."""
    dead = next(token for token in range(len(VOCABULARY)) if token not in LIVE)

    async def logprob(token: int) -> float:
        made = await engine.generate(TEXT, max_tokens=1, logprobs=0, logit_bias={token: 100.0})
        drawn = made.tokens[0]
        assert drawn.logprobs is not None
        assert drawn.id == token
        return drawn.logprobs.logprob

    known = await asyncio.gather(*(logprob(token) for token in (dead, *LIVE)))
    found = np.zeros(len(VOCABULARY))
    found[list(LIVE)] = np.array(known[1:]) - known[0]
    return found


CASES: list[dict[str, Any]] = [
    {"temperature": 0.7},
    {"temperature": 1.0, "top_k": 10, "top_p": 0.8, "min_p": 0.1},
    {"temperature": 1.0, "typical_p": 0.6},
    {"temperature": 1.0, "typical_p": 0.3, "samplers": ("typ_p",)},
    {"temperature": 0.9, "top_n_sigma": 0.5},
    {"temperature": 2.0, "top_n_sigma": 0.8, "samplers": ("temperature", "top_n_sigma")},
    {"temperature": 1.0, "xtc_probability": 1.0, "xtc_threshold": 0.05},
    {"temperature": 1.0, "xtc_probability": 1.0, "xtc_threshold": 0.05, "top_k": 5, "samplers": NATIVE},
    {"temperature": 0.8, "dynatemp_range": 0.6},
    {"temperature": 0.8, "dynatemp_range": 0.6, "dynatemp_exponent": 2.0, "top_k": 20, "samplers": NATIVE},
    {"temperature": 1.0, "frequency_penalty": 0.7, "presence_penalty": 0.5, "repeat_last_n": 6},
    {"temperature": 1.0, "repetition_penalty": 1.5, "repeat_last_n": 5, "samplers": NATIVE},
    {"temperature": 0.6, "frequency_penalty": 2.0, "repeat_last_n": 99, "samplers": NATIVE[::-1]},
    {"temperature": 1.0, "dry_multiplier": 1.0, "dry_sequence_breakers": ()},
    {"temperature": 0.7, "dry_multiplier": 2.0, "dry_allowed_length": 1, "dry_sequence_breakers": (),
     "samplers": ("temperature", "top_k", "dry"), "top_k": 60},
    {"temperature": 1.3, "top_k": 30, "typical_p": 0.9, "top_p": 0.9, "min_p": 0.01, "top_n_sigma": 2.5,
     "samplers": NATIVE},
    {"temperature": 1.3, "top_p": 0.9, "min_p": 0.02, "samplers": ("min_p", "top_p", "temperature")},
    {"temperature": 1.5, "top_k": 12, "adaptive_target": 0.2,
     "samplers": ("adaptive_p", "temperature", "top_k")},
    {"temperature": 1.0, "adaptive_target": 0.4, "samplers": ("adaptive_p",)},
    {"temperature": 1.0, "top_k": 8, "samplers": ("top_k", "infill")},
    {"temperature": 4.0, "top_k": 20, "samplers": ("temperature", "top_k", "infill")},
    {"temperature": 4.0, "samplers": ("temperature", "infill")},
    {"temperature": 1.0, "mirostat": 1, "mirostat_tau": 2.0},
    {"temperature": 1.2, "mirostat": 2, "mirostat_tau": 2.0},
]  # fmt: skip


@pytest.mark.parametrize("fields", CASES, ids=[str(list(fields)) for fields in CASES])
async def test_draws_follow_the_definition(engine: Engine, logits: Vector, fields: dict[str, Any]) -> None:
    params = SamplingParams(max_tokens=1, **fields)
    expected = distribution(logits, params, TEXT)
    made = await asyncio.gather(
        *(engine.generate(TEXT, params.replace(seed=seed)) for seed in range(NUM_DRAWS))
    )
    drawn = Counter(completion.tokens[0].id for completion in made)
    assert all(expected[token] > 0 for token in drawn)
    # Pearson's statistic; the seeds are fixed, so that it is always the same.
    bins = _bins(expected)
    counts = [sum(drawn[token] for token in tokens) for tokens in bins]
    means = [NUM_DRAWS * float(expected[tokens].sum()) for tokens in bins]
    statistic = sum((count - mean) ** 2 / mean for count, mean in zip(counts, means, strict=True))
    freedom = max(1, len(bins) - 1)
    assert statistic < freedom + 4 * math.sqrt(2 * freedom), (counts, means)


def _bins(expected: Vector) -> list[list[int]]:
    """The tokens that can be drawn, in groups that are big enough for a normal approximation."""
    groups: list[list[int]] = [[]]
    for token in np.argsort(-expected):
        if NUM_DRAWS * expected[groups[-1]].sum() >= 8:
            groups.append([])
        groups[-1].append(int(token))
    rest = groups.pop()
    return [*groups[:-1], [*groups[-1], *rest]] if groups else [rest]


def test_the_cases_differ_from_plain_draws(logits: Vector) -> None:
    for fields in CASES[1:]:
        plain = SamplingParams(temperature=fields["temperature"])
        difference = distribution(logits, SamplingParams(**fields), TEXT) - distribution(logits, plain, TEXT)
        assert np.abs(difference).sum() > 0.1, fields


async def test_log_probabilities_are_those_before_all_samplers(engine: Engine, logits: Vector) -> None:
    raw = distribution(logits, SamplingParams(temperature=1.0, samplers=()), TEXT)
    params = SamplingParams(
        max_tokens=1, temperature=1.0, seed=3, logprobs=2, xtc_probability=1.0, mirostat=0
    )
    for changed in (params, params.replace(mirostat=2), params.replace(samplers=NATIVE, typical_p=0.2)):
        drawn = (await engine.generate(TEXT, changed)).tokens[0]
        assert drawn.logprobs is not None
        assert math.isclose(drawn.logprobs.logprob, math.log(raw[drawn.id]), abs_tol=1e-3)
        assert [token for token, _ in drawn.logprobs.top] == [int(token) for token in np.argsort(-raw)[:2]]


@pytest.mark.parametrize("version", [1, 2])
async def test_mirostat_steers_the_surprise(engine: Engine, version: int) -> None:
    async def mean_surprise(tau: float) -> float:
        """By the raw log-probabilities, which are a little lower than those of the tokens that are left."""
        params = SamplingParams(
            temperature=1.0,
            mirostat=version,
            mirostat_tau=tau,
            max_tokens=300,
            seed=5,
            logprobs=0,
            ignore_eos=True,
        )
        made, again = [await engine.generate(TEXT, params) for _ in range(2)]
        assert made.text == again.text
        return -sum(token.logprobs.logprob for token in made.tokens if token.logprobs) / 300

    low, middle, high = [await mean_surprise(tau) for tau in (0.1, 0.5, 9.0)]
    assert low < 0.8 * middle < 0.7 * high


async def test_adaptive_p_steers_the_probability(engine: Engine) -> None:
    async def mean_probability(target: float) -> float:
        """By the raw log-probabilities: nothing is left out or heated."""
        params = SamplingParams(
            temperature=1.0,
            samplers=("adaptive_p",),
            adaptive_target=target,
            max_tokens=300,
            seed=5,
            logprobs=0,
            ignore_eos=True,
        )
        made, again = [await engine.generate(TEXT, params) for _ in range(2)]
        assert made.text == again.text
        return sum(math.exp(token.logprobs.logprob) for token in made.tokens if token.logprobs) / 300

    low, middle, high = [await mean_probability(target) for target in (0.05, 0.3, 0.8)]
    assert low < 0.8 * middle < 0.7 * high


async def test_a_breaker_across_tokens_stops_repetitions(engine: Engine) -> None:
    params = SamplingParams(max_tokens=1, dry_multiplier=90.0, logit_bias={LIVE[11]: 50.0})
    loop = [LIVE[place] for place in (3, 50, 7, 11, 3, 50, 7)]
    pieces = [VOCABULARY.tokens[token] for token in loop]
    penalised = await engine.generate(loop, params.replace(dry_sequence_breakers=()))
    assert penalised.tokens[0].id != LIVE[11]
    broken = await engine.generate(loop, params.replace(dry_sequence_breakers=(pieces[1] + pieces[2],)))
    assert broken.tokens[0].id == LIVE[11]


async def test_banned_sequences_do_not_occur(engine: Engine) -> None:
    plain = SamplingParams(max_tokens=24, ignore_eos=True)
    free = [token.id for token in (await engine.generate(TEXT, plain)).tokens]
    # One that goes on, one that begins within it, one of a single token, and one that begins in the prompt.
    banned = [free[2:5], free[3:7], [free[9]], [TEXT[-1], free[0]]]
    params = plain.replace(banned_sequences=banned)
    expected: list[int] = []
    for _ in range(24):
        ends = [last for *others, last in banned if expected[len(expected) - len(others) :] == others]
        one = params.replace(max_tokens=1, banned_sequences=(), logit_bias=dict.fromkeys(ends, -math.inf))
        expected += [token.id for token in (await engine.generate([*TEXT, *expected], one)).tokens]
    assert expected[:4] == free[:4]
    assert expected[4] != free[4]
    guessing = await engine.open_drafting("prompt_lookup", draft_len=8, adaptive=False)
    for drafting in (None, guessing):
        made = await engine.generate(TEXT, params, drafting=drafting)
        assert [token.id for token in made.tokens] == expected
        assert (made.usage.draft_tokens > 0) == (drafting is not None)
