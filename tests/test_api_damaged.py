"""Files that llama.cpp refuses or ends the process on: each is a load error, and the process goes on."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import gguf
import pytest

from changed_models import Change, write_changed
from llmserve import LoadError, LoraAdapter, ModelConfig, SyncEmbedder, SyncEngine
from synthetic import SENTENCEPIECE_FILE, VOCABULARY, main_file

CONFIG = ModelConfig(context_length=256, max_sequences=2, threads=1)
TOKENS = list(VOCABULARY.tokens)

T = gguf.GGUFValueType
ZERO = (T.UINT32, 0)

# What llama.cpp asserts, and what its own code refuses with an exception.
NUMBERS: list[Mapping[str, Change]] = [
    {"llama.block_count": None},
    {"llama.block_count": ZERO},
    {"llama.block_count": (T.UINT32, 513)},
    {"llama.block_count": (T.UINT32, 2)},
    {"llama.block_count": (T.UINT32, 4)},
    {"llama.block_count": (T.INT32, 3)},
    {"llama.embedding_length": ZERO},
    {"llama.context_length": ZERO},
    {"llama.attention.head_count": ZERO},
    {"llama.attention.head_count": (T.UINT32, 65)},
    {"llama.attention.head_count_kv": (T.UINT32, 3)},
    {"llama.attention.head_count_kv": (T.UINT32, 1 << 20)},
    {"llama.attention.head_count_kv": (T.INT32, [-1])},
    {"llama.attention.head_count_kv": (T.STRING, "2")},
    {"llama.expert_count": (T.UINT32, 4)},
    {"llama.expert_used_count": (T.UINT32, 2)},
    {"llama.expert_group_count": (T.UINT32, 2)},
    {"llama.nextn_predict_layers": (T.UINT32, 9)},
    {"llama.rope.scaling.type": (T.STRING, "none such")},
    {"llama.rope.dimension_count": (T.UINT32, 7)},
    {"llama.attention.layer_norm_rms_epsilon": (T.FLOAT32, -1.0)},
]
VOCABULARIES: list[Mapping[str, Change]] = [
    {"tokenizer.ggml.model": None},
    {"tokenizer.ggml.tokens": None},
    {"tokenizer.ggml.tokens": (T.INT32, [1] * len(TOKENS))},
    {"tokenizer.ggml.tokens": (T.STRING, [*TOKENS[:-1], TOKENS[0]])},
    {"tokenizer.ggml.tokens": (T.STRING, ["a\0b", *TOKENS[1:]])},
    {"tokenizer.ggml.tokens": (T.STRING, ["[EMPTY_1]", "", *TOKENS[2:]])},
    {"tokenizer.ggml.scores": (T.FLOAT32, [0.0])},
    {"tokenizer.ggml.scores": (T.STRING, ["a"])},
    {"tokenizer.ggml.token_type": (T.FLOAT32, [0.0] * len(TOKENS))},
    {"tokenizer.ggml.token_type": (T.INT32, 1)},
    {"tokenizer.ggml.bos_token_id": (T.UINT32, len(TOKENS))},
    {"tokenizer.ggml.eos_token_id": (T.INT32, 2)},
    {"tokenizer.ggml.merges": None},
]


def reason_of(path: Path, config: ModelConfig = CONFIG) -> str:
    with pytest.raises(LoadError) as failure:
        SyncEngine.load(path, config)
    # llama.cpp's words are in the detail only.
    assert "GGML" not in str(failure.value)
    assert "llama_model" not in str(failure.value)
    if "the file ends the process" in str(failure.value):
        assert ".cpp:" in failure.value.detail
    return failure.value.reason


@pytest.mark.parametrize("changes", [*NUMBERS, *VOCABULARIES], ids=",".join)
def test_a_damaged_model_is_told(changes: Mapping[str, Change], tiny_model: Path, tmp_path: Path) -> None:
    write_changed(tiny_model, tmp_path / "model.gguf", changes)
    assert reason_of(tmp_path / "model.gguf") == "damaged"


@pytest.mark.parametrize(
    "changes",
    [
        {"general.architecture": (T.STRING, "none such")},
        {"tokenizer.ggml.model": (T.STRING, "none such")},
        {"tokenizer.ggml.model": (T.STRING, "none")},
        {"tokenizer.ggml.pre": (T.STRING, "none such")},
    ],
    ids=",".join,
)
def test_what_llama_cpp_does_not_know_is_unsupported(
    changes: Mapping[str, Change], tiny_model: Path, tmp_path: Path
) -> None:
    write_changed(tiny_model, tmp_path / "model.gguf", changes)
    assert reason_of(tmp_path / "model.gguf") == "unsupported"


def test_a_vocabulary_of_another_tokenizer_is_damage(tiny_models: Path, tmp_path: Path) -> None:
    # Not when it is loaded: when its tokens are first looked at.
    changes = {"tokenizer.ggml.model": (T.STRING, "bert")}
    write_changed(tiny_models / SENTENCEPIECE_FILE, tmp_path / "model.gguf", changes)
    assert reason_of(tmp_path / "model.gguf") == "damaged"


@pytest.mark.parametrize(
    "key", ["bert.attention.head_count", "tokenizer.ggml.seperator_token_id", "tokenizer.ggml.bos_token_id"]
)
def test_a_damaged_embedding_model_is_told(key: str, tiny_models: Path, tmp_path: Path) -> None:
    write_changed(tiny_models / "bert-mean.gguf", tmp_path / "model.gguf", {key: None})
    with pytest.raises(LoadError) as failure:
        SyncEmbedder.load(tmp_path / "model.gguf", CONFIG)
    assert failure.value.reason == "damaged"


def test_a_rotation_of_nothing_does_not_hang(tiny_models: Path, tmp_path: Path) -> None:
    changes = {"gemma3.rope.dimension_count": ZERO}
    write_changed(tiny_models / main_file("swa"), tmp_path / "model.gguf", changes)
    assert reason_of(tmp_path / "model.gguf") == "damaged"


@pytest.mark.parametrize(
    "overrides",
    [
        {"llama.block_count": 0},
        {"llama.expert_count": 4},
        {"tokenizer.ggml.eos_token_id": 99_999},
        {"llama.context_length": -1},
        {"llama.attention.layer_norm_rms_epsilon": float("nan")},
    ],
    ids=",".join,
)
def test_overrides_that_do_not_fit_are_a_bad_option(
    overrides: dict[str, int | float], tiny_model: Path
) -> None:
    config = ModelConfig(context_length=256, threads=1, metadata_overrides=overrides)
    assert reason_of(tiny_model, config) == "invalid_option"
    SyncEngine.load(tiny_model, CONFIG).close()


def test_an_adapter_is_opened_with_its_model(tiny_models: Path, tmp_path: Path) -> None:
    write_changed(tiny_models / "lora.gguf", tmp_path / "lora.gguf", {"adapter.lora.alpha": (T.UINT32, 4)})
    model = tiny_models / main_file("llama")
    config = ModelConfig(context_length=256, threads=1, lora=(LoraAdapter(path=tmp_path / "lora.gguf"),))
    assert reason_of(model, config) == "invalid_option"
    # Whole, and for a model of another shape.
    other = ModelConfig(context_length=256, threads=1, lora=(LoraAdapter(path=tiny_models / "lora.gguf"),))
    assert reason_of(tiny_models / main_file("swa"), other) == "invalid_option"
