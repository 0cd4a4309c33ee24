"""Marked text: control tokens of a template beside text of users that never becomes any."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from llmserve import ChatPrompt, ModelConfig
from llmserve.sync import SyncEngine
from llmserve.templates.marks import MARK, Marker, unescape_marks, unmark
from synthetic import SENTENCEPIECE_FILE, main_file

CONTROL = ["<|im_start|>", "<|im_end|>", "<|im_end|>x", "</s>", "[INST]", "[/INST]", "#"]
# Whatever may stand beside or in a control token: beginnings, white space, marks, other writing.
SCRAPS = [
    "<",
    "<|im",
    "_end|>",
    "|>",
    "[",
    "INST]",
    " ",
    "  ",
    "\n",
    "\t",
    "the",
    "a b",
    "é",
    "好",
    "🦩",
    MARK,
]


@pytest.fixture(scope="module", params=["default", "bytes", "sentencepiece"])
def vocabulary(request: pytest.FixtureRequest) -> Iterator[SyncEngine]:
    """Engines with vocabularies of different kinds, for their tokenizers."""
    if request.param == "default":
        path: Path = request.getfixturevalue("model_path")
    else:
        name = SENTENCEPIECE_FILE if request.param == "sentencepiece" else main_file("llama")
        path = request.getfixturevalue("tiny_models") / name
    with SyncEngine.load(path, ModelConfig(context_length=256, max_sequences=1, threads=1)) as engine:
        yield engine


def seeded(seed: int) -> random.Random:
    return random.Random(seed)  # noqa: S311 - no secrets here


def random_text(rng: random.Random, pieces: list[str], length: int) -> str:
    return "".join(rng.choice(pieces) for _ in range(rng.randrange(length)))


def test_marks_are_put_in_and_taken_out() -> None:
    rng = seeded(1)
    marker = Marker(CONTROL)
    for _ in range(3000):
        text = random_text(rng, [*CONTROL, *SCRAPS, "<|IM_END|>"], 12)
        marked = marker.text(text)
        assert unmark(marked) == text
        assert not any(token in marked.lower() for token in CONTROL if len(token) > 1)
        # Neither does text that comes after it, or that it is cut from, complete a token.
        assert not any(token in marked + "im_end|>" for token in CONTROL if len(token) > 1)


def test_harmless_text_stays_as_it_is() -> None:
    assert Marker(CONTROL).text("a < b and <b> | [x] </think>") == "a < b and <b> | [x] </think>"
    assert Marker([]).text("<|im_end|>") == "<|im_end|>"
    assert Marker(CONTROL).value({"<|im_end|>": ["</s>", 5, None]}) == {
        f"<{MARK}|im_end|>": [f"<{MARK}/s>", 5, None]
    }


def test_marks_survive_json_with_escapes() -> None:
    escaped = '"<\\ufdd0|im_end|> \\\\ufdd0 \\ufdd0\\ufdd0 \\ufdd0\\ufdd0\\ufdd0"'
    assert unescape_marks(escaped) == f'"<{MARK}|im_end|> \\\\ufdd0 \\ufdd0 {MARK}\\ufdd0"'


def test_a_vocabulary_of_thousands_is_searched_in_one_go() -> None:
    marker = Marker([f"<|reserved_{number}|>" for number in range(5000)])
    assert marker.text("x<|reserved_4999|>y") == f"x<{MARK}|reserved_4999|>y"
    assert unmark(marker.text("<|reserved_" * 20_000)) == "<|reserved_" * 20_000


def test_unbroken_text_has_the_ids_that_llama_cpp_gives(vocabulary: SyncEngine) -> None:
    rng = seeded(2)
    tokens = [*vocabulary.info.control_tokens, "<think>"]
    for _ in range(1500):
        text = random_text(rng, [*tokens, *SCRAPS], 10) + "a"
        # A mark that breaks nothing, so that the engine splits the text by itself.
        marked = text.replace(MARK, MARK * 2) + MARK
        for add_special in (True, False):
            prompt = ChatPrompt(text=text, marked=marked)
            assert vocabulary.tokenize(prompt, add_special=add_special) == vocabulary.tokenize(
                text, add_special=add_special
            ), repr(text)


def test_broken_text_has_the_ids_of_plain_text(vocabulary: SyncEngine) -> None:
    rng = seeded(3)
    tokens = list(vocabulary.info.control_tokens)
    marker = Marker(tokens)
    for _ in range(1000):
        text = random_text(rng, [*tokens, *SCRAPS, "<think>"], 10)
        prompt = ChatPrompt(text=text, marked=marker.text(text))
        assert vocabulary.tokenize(prompt) == vocabulary.tokenize(text, parse_special=False), repr(text)


def test_templates_and_users_text_side_by_side(vocabulary: SyncEngine) -> None:
    rng = seeded(4)
    tokens = list(vocabulary.info.control_tokens)
    ids = {vocabulary.tokenize(token, add_special=False)[0] for token in tokens}
    marker = Marker(tokens)
    for _ in range(500):
        spans = [random_text(rng, [*tokens, *SCRAPS], 6) for _ in range(4)]
        glue = [rng.choice(tokens) for _ in spans]
        marked = "".join(f"{token}a{marker.text(span)}" for token, span in zip(glue, spans, strict=True))
        prompt = ChatPrompt(text=unmark(marked), marked=marked)
        found = vocabulary.tokenize(prompt, add_special=False)
        expected = [vocabulary.tokenize(token, add_special=False)[0] for token in glue]
        assert [token for token in found if token in ids] == expected, repr(marked)


def test_bos_is_added_once(vocabulary: SyncEngine) -> None:
    marked = f"a <{MARK}|im_end|>"
    bare = vocabulary.tokenize(ChatPrompt(text=unmark(marked), marked=marked))
    assert bare == vocabulary.tokenize(unmark(marked), parse_special=False)
    begun = vocabulary.info.bos_text + marked
    tokens = vocabulary.tokenize(ChatPrompt(text=unmark(begun), marked=begun))
    assert tokens[0] == vocabulary.info.bos_token
    assert vocabulary.info.bos_token not in tokens[1:]
