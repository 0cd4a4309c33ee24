"""Sessions on every kind of cache: their cells are found again, also out of a file, and change no token.

As in `test_synthetic_engine`, caches hold F32 and flash attention is off, so that texts must be equal.
"""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from llmserve import Completion, ModelConfig, SyncEngine, SyncSession
from synthetic import KINDS, VOCABULARY, Kind, main_file

PROMPT_TOKENS = 90
HALF = 24
# Seeds, found by search, of prompts whose two best logits are never closer than `MARGIN`.
SEEDS: dict[Kind, int] = {"llama": 4, "swa": 5, "recurrent": 0, "hybrid": 2}
MARGIN = 0.02


def config(sequences: int = 2, prefix_cache: bool = True, parking_bytes: int = 64 << 20) -> ModelConfig:
    # A small ubatch keeps llama.cpp's sliding-window cache small, so that old cells really go.
    return ModelConfig(
        context_length=512,
        max_sequences=sequences,
        batch_size=64,
        ubatch_size=32,
        threads=1,
        kv_type_k="f32",
        kv_type_v="f32",
        flash_attention=False,
        prefix_cache=prefix_cache,
        parking_bytes=parking_bytes,
    )


def random_tokens(seed: int, count: int) -> list[int]:
    draw = random.Random(seed).random  # noqa: S311 - no secret
    return [VOCABULARY.live[int(draw() * len(VOCABULARY.live))] for _ in range(count)]


def ids(completion: Completion) -> list[int]:
    return [token.id for token in completion.tokens]


def margin(completion: Completion) -> float:
    tops = [token.logprobs.top for token in completion.tokens if token.logprobs is not None]
    return min(best - second for (_, best), (_, second) in tops)


def go_on(engine: SyncEngine, session: SyncSession, prompt: list[int]) -> Completion:
    return engine.generate(prompt, session=session, max_tokens=HALF, ignore_eos=True, add_special=False)


class Expected:
    """What an engine that reuses nothing gives: two turns of a conversation."""

    def __init__(self, kind: Kind, folder: Path) -> None:
        self.prompts = random_tokens(SEEDS[kind], PROMPT_TOKENS), random_tokens(SEEDS[kind] + 100, 7)
        tokens: list[int] = []
        self.outputs: list[list[int]] = []
        with SyncEngine.load(folder / main_file(kind), config(1, prefix_cache=False)) as engine:
            for prompt in self.prompts:
                tokens += prompt
                completion = engine.generate(
                    tokens, max_tokens=HALF, ignore_eos=True, add_special=False, logprobs=2
                )
                assert margin(completion) > MARGIN, kind
                self.outputs.append(ids(completion))
                tokens += self.outputs[-1]


@pytest.fixture(scope="module", params=KINDS)
def kind(request: pytest.FixtureRequest) -> Kind:
    return request.param  # type: ignore[no-any-return]


@pytest.fixture(scope="module")
def model(kind: Kind, tiny_models: Path) -> Path:
    return tiny_models / main_file(kind)


@pytest.fixture(scope="module")
def expected(kind: Kind, tiny_models: Path) -> Expected:
    return Expected(kind, tiny_models)


def test_a_session_finds_its_cells_again(model: Path, expected: Expected) -> None:
    with SyncEngine.load(model, config()) as engine:
        session = engine.session()
        first = go_on(engine, session, expected.prompts[0])
        second = go_on(engine, session, expected.prompts[1])
        assert [ids(first), ids(second)] == expected.outputs
        # The last token of an output has no cell yet.
        assert second.usage.cached_tokens == PROMPT_TOKENS + HALF - 1


def test_parked_cells_are_found_again(model: Path, expected: Expected) -> None:
    with SyncEngine.load(model, config(sequences=1)) as engine:
        session = engine.session()
        go_on(engine, session, expected.prompts[0])
        for seed in range(3):
            engine.generate(random_tokens(1000 + seed, 60), max_tokens=5, ignore_eos=True)
        second = go_on(engine, session, expected.prompts[1])
        assert ids(second) == expected.outputs[1]
        assert second.usage.cached_tokens == PROMPT_TOKENS + HALF - 1


def test_evicted_cells_are_computed_again(model: Path, expected: Expected) -> None:
    with SyncEngine.load(model, config(sequences=1, parking_bytes=0)) as engine:
        session = engine.session()
        go_on(engine, session, expected.prompts[0])
        engine.generate(random_tokens(1000, 60), max_tokens=5, ignore_eos=True)
        second = go_on(engine, session, expected.prompts[1])
        assert ids(second) == expected.outputs[1]
        assert second.usage.cached_tokens == 0


def test_saved_cells_are_found_again(model: Path, expected: Expected, tmp_path: Path) -> None:
    path = tmp_path / "session"
    with SyncEngine.load(model, config()) as engine:
        session = engine.session()
        go_on(engine, session, expected.prompts[0])
        session.save(path)
    with SyncEngine.load(model, config()) as engine:
        # The second time, too: what one session computed behind cells out of a file is not for another.
        for _ in range(2):
            session = engine.session()
            session.load(path)
            second = go_on(engine, session, expected.prompts[1])
            assert ids(second) == expected.outputs[1]
            assert second.usage.cached_tokens == PROMPT_TOKENS + HALF - 1
    # Another number of sequences is another layout: the state is left out.
    with SyncEngine.load(model, config(sequences=3)) as engine:
        session = engine.session()
        session.load(path)
        second = go_on(engine, session, expected.prompts[1])
        assert ids(second) == expected.outputs[1]
        assert second.usage.cached_tokens == 0


def test_two_sessions_that_take_turns(model: Path, expected: Expected) -> None:
    """One slot for two conversations: each loses its cells to the other in between."""
    with SyncEngine.load(model, config(sequences=1)) as engine:
        sessions = engine.session(), engine.session()
        for turn in (0, 1):
            for session in sessions:
                assert ids(go_on(engine, session, expected.prompts[turn])) == expected.outputs[turn]
        assert sessions[0].tokens() == sessions[1].tokens()
