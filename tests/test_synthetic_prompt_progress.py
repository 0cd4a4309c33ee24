"""Reports of how much of a prompt is computed, and the tokens of infills, on generated models."""

from __future__ import annotations

from pathlib import Path

from llmserve import SyncEngine

BATCH = 32
PROMPT = [1 + index % 7 for index in range(4 * BATCH + 5)]


def test_each_step_of_a_prompt_is_reported(tiny_model: Path) -> None:
    with SyncEngine.load(tiny_model, batch_size=BATCH, ubatch_size=BATCH) as engine:
        for num_cached in (0, len(PROMPT) - 1):
            with engine.stream(PROMPT, max_tokens=2, ignore_eos=True, prompt_progress=True) as stream:
                deltas = list(stream)
            reports = [delta.progress for delta in deltas if delta.progress is not None]
            counts = [report.computed_tokens for report in reports]
            assert (counts[0], counts[-1]) == (num_cached, len(PROMPT))
            assert counts == sorted(set(counts))
            assert len(counts) > 1
            for report in reports:
                assert (report.total_tokens, report.cached_tokens) == (len(PROMPT), num_cached)
            # They come before the output.
            assert all(delta.progress is None for delta in deltas[len(reports) :])
        with engine.stream(PROMPT, max_tokens=2) as stream:
            assert all(delta.progress is None for delta in stream)


def test_infill_tokens_are_those_of_the_file(tiny_model: Path) -> None:
    with SyncEngine.load(tiny_model) as engine:
        assert engine.info.infill_tokens == {}
    given = {"pre": 10, "suf": 11, "mid": 12, "rep": 13, "sep": 14}
    overrides = {f"tokenizer.ggml.fim_{name}_token_id": number for name, number in given.items()}
    with SyncEngine.load(tiny_model, metadata_overrides=overrides) as engine:
        expected = {"prefix": 10, "suffix": 11, "middle": 12, "repository": 13, "file": 14}
        assert engine.info.infill_tokens == expected
