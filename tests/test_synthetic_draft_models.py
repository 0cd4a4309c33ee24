"""The models with a draft head, and the simulator of their drafts, without an engine."""

from __future__ import annotations

import hashlib
from pathlib import Path

import gguf
import pytest

from synthetic import (
    DRAFT_AGREEMENT,
    DRAFT_HEAD_FILE,
    HYBRID_HEAD_FILE,
    MISSING_HEAD_FILE,
    VOCABULARY,
    WRONG_HEAD_FILE,
    Model,
    Rules,
    greedy,
    rules,
    simulate,
    write_draft_models,
)
from synthetic.draft_head import Shape, build_draft_model
from synthetic.draft_hybrid import build_hybrid_draft_model
from synthetic.draft_rules import DISTANCES, read, rope_score

PROMPT = [VOCABULARY.live[7 * number % len(VOCABULARY.live)] for number in range(40)]

# SHA-256 over names, shapes and bytes of all tensors.
DIGESTS = {
    DRAFT_HEAD_FILE: "bfa402b713c75729baccefcd421b3581b6f7106aaee212df98db9322e38298f4",
    HYBRID_HEAD_FILE: "ffac7a52ab3cfda608b5c90ca085091c235f0443afe891eacb7b14374aed567d",
}


def digest(model: Model) -> str:
    result = hashlib.sha256()
    for name, tensor in model.tensors.items():
        result.update(f"{name} {tensor.shape}\n".encode() + tensor.astype("<f4").tobytes())
    return result.hexdigest()


def test_weights_are_the_same_on_every_machine() -> None:
    assert digest(build_draft_model(DRAFT_AGREEMENT)) == DIGESTS[DRAFT_HEAD_FILE]
    assert digest(build_hybrid_draft_model(1.0)) == DIGESTS[HYBRID_HEAD_FILE]


def test_files(tmp_path: Path) -> None:
    write_draft_models(tmp_path)
    heads = {}
    for file in (DRAFT_HEAD_FILE, WRONG_HEAD_FILE, MISSING_HEAD_FILE, HYBRID_HEAD_FILE):
        reader = gguf.GGUFReader(tmp_path / file)
        architecture = reader.get_field("general.architecture")
        assert architecture is not None
        announced = reader.get_field(f"{architecture.contents()}.nextn_predict_layers")
        assert announced is not None
        assert announced.contents() == 1
        blocks = reader.get_field(f"{architecture.contents()}.block_count")
        assert blocks is not None
        names = {tensor.name for tensor in reader.tensors}
        heads[file] = f"blk.{blocks.contents() - 1}.nextn.eh_proj.weight" in names
        assert (tmp_path / file).stat().st_size < 6_000_000
    assert [file for file, has_head in heads.items() if not has_head] == [MISSING_HEAD_FILE]


def test_a_width_that_holds_no_language_is_refused() -> None:
    with pytest.raises(ValueError, match="a width of 256"):
        Shape(width=256)


@pytest.mark.parametrize("agreement", [0.0, 0.25, 0.75, 1.0])
def test_the_head_is_right_as_often_as_said(agreement: float) -> None:
    """Asked after each live token, behind a prompt that is longer than it looks back."""
    language = rules(agreement)
    asked = [[*PROMPT, token] for token in VOCABULARY.live]
    right = [language.head_token(tokens) == language.target_token(tokens) for tokens in asked]
    assert sum(right) == round(agreement * len(right))


def test_only_the_head_depends_on_the_agreement() -> None:
    assert greedy(rules(0.0), PROMPT, 100) == greedy(rules(1.0), PROMPT, 100)
    assert greedy(rules(1.0, seed=1), PROMPT, 100) != greedy(rules(1.0), PROMPT, 100)


@pytest.mark.parametrize("distance", DISTANCES)
def test_texts_depend_on_the_tokens_that_the_model_looks_back_at(distance: int) -> None:
    language = rules(1.0)
    changed = [*PROMPT]
    place = len(PROMPT) - 1 - distance
    bit = DISTANCES.index(distance)
    changed[place] = next(
        token for token in VOCABULARY.live if language.keys[token][bit] != language.keys[PROMPT[place]][bit]
    )
    assert language.target_token(changed) != language.target_token(PROMPT)


def test_what_a_short_text_is_read_like() -> None:
    for distance in DISTANCES:
        assert read(50, distance) == 50 - distance
        for position in range(distance):
            scores = sorted(rope_score(distance - position + cell) for cell in range(position + 1))
            assert rope_score(distance - position + read(position, distance)) == scores[-1]
            assert position == 0 or scores[-1] - scores[-2] > 0.05


@pytest.mark.parametrize("draft_len", [0, 1, 2, 3, 5, 8])
@pytest.mark.parametrize("num_tokens", [1, 2, 3, 9, 60])
@pytest.mark.parametrize("remembers", [False, True])
def test_counts_fit_together(num_tokens: int, draft_len: int, remembers: bool) -> None:
    language = rules(DRAFT_AGREEMENT, remembers=remembers)
    drafted = simulate(language, PROMPT, num_tokens, draft_len)
    assert drafted.tokens == greedy(language, PROMPT, num_tokens)
    assert 1 + drafted.num_rounds + drafted.num_accepted == num_tokens
    assert drafted.num_accepted <= drafted.num_drafted <= draft_len * drafted.num_rounds


def test_the_best_and_the_worst_head() -> None:
    best = simulate(rules(1.0), PROMPT, 1 + 4 * 6, 3)
    assert (best.num_drafted, best.num_accepted, best.num_rounds) == (18, 18, 6)
    worst = simulate(rules(0.0), PROMPT, 8, 3)
    # Six rounds with room for 6, 5, 4, 3, 2 and 1 further tokens, and a last one without.
    assert (worst.num_drafted, worst.num_accepted, worst.num_rounds) == (3 * 4 + 2 + 1, 0, 7)


def test_a_memory_keeps_what_each_place_got_last() -> None:
    language = rules(1.0, remembers=True)

    def with_place(place: int) -> list[int]:
        return [token for token in VOCABULARY.live if language.place(token) == place]

    reader = with_place(3)[0]
    assert language.place_read(reader) == 0
    writer, other = with_place(0)[0], with_place(1)[0]
    for bit in (1, -1):
        before = next(token for token in with_place(2) if language.keys[token][3] == bit)
        text = [other, before, writer, *[other] * 30, reader]
        expected = Rules(
            language.keys, language.labels, language.successors, {}, remembers=False
        ).target_token([*text[:-20], before, *text[-19:]])
        assert language.target_token(text) == expected
