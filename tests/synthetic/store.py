"""Writes models to files: whole or not at all, and only when the generator has changed."""

from __future__ import annotations

import hashlib
import os
import tempfile
from pathlib import Path

import gguf
import numpy as np

from . import sentencepiece
from .architectures import HEAD_SIZE, KINDS, NUM_HEADS, NUM_LAYERS, WIDTH, Kind, Model, build
from .draft_head import MEMORY_BOUND, build_draft_model
from .draft_hybrid import build_hybrid_draft_model
from .embedding_models import EMBEDDING_FILES
from .vocabulary import describe as describe_vocabulary
from .weights import Weights

SPLIT_FILES = ("split-00001-of-00002.gguf", "split-00002-of-00002.gguf")
ADAPTER_FILE = "lora.gguf"
SENTENCEPIECE_FILE = "sentencepiece.gguf"
STAMP_FILE = "version.txt"
# A draft head that is right after this share of tokens, one that never is, one that is announced only.
DRAFT_HEAD_FILE, DRAFT_AGREEMENT = "draft_head.gguf", 0.75
WRONG_HEAD_FILE = "wrong_head.gguf"
MISSING_HEAD_FILE = "missing_head.gguf"
HYBRID_HEAD_FILE = "hybrid_head.gguf"
LORA_RANK = 4
LORA_ALPHA = 4.0


def main_file(kind: Kind) -> str:
    """The name of the model of `kind` in the folder that `write_all` fills."""
    return f"{kind}.gguf"


DRAFT_FILES = (DRAFT_HEAD_FILE, WRONG_HEAD_FILE, MISSING_HEAD_FILE, HYBRID_HEAD_FILE)
FILES = (
    *(main_file(kind) for kind in KINDS),
    *SPLIT_FILES,
    ADAPTER_FILE,
    SENTENCEPIECE_FILE,
    *DRAFT_FILES,
    *EMBEDDING_FILES,
)


def write_all(folder: Path) -> None:
    """Fills `folder` with every file of `FILES`, unless they are there from the same sources."""
    stamp = folder / STAMP_FILE
    version = _version()
    complete = all((folder / name).is_file() for name in FILES)
    if complete and stamp.is_file() and stamp.read_text() == version:
        return
    folder.mkdir(parents=True, exist_ok=True)
    for kind in KINDS:
        write_model(kind, folder / main_file(kind))
    write_split(folder)
    write_adapter(folder / ADAPTER_FILE)
    write_sentencepiece(folder / SENTENCEPIECE_FILE)
    write_draft_models(folder)
    for name in EMBEDDING_FILES:
        write_embedding_model(name, folder)
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        fresh = Path(scratch, STAMP_FILE)
        fresh.write_text(version)
        fresh.replace(stamp)


def write_model(kind: Kind, path: Path) -> None:
    """Writes the model of `kind` to `path`, replacing it in one go."""
    _write(build(kind), path.parent, (path.name,))


def write_split(folder: Path) -> None:
    """Writes the `llama` model in two parts, `SPLIT_FILES`, to `folder`."""
    _write(build("llama"), folder, SPLIT_FILES)


def write_sentencepiece(path: Path) -> None:
    """Writes the `llama` model with a SentencePiece vocabulary to `path`."""
    model = build("llama")
    with tempfile.TemporaryDirectory(dir=path.parent) as scratch:
        fresh = Path(scratch, path.name)
        writer = gguf.GGUFWriter(fresh, model.architecture)
        writer.add_name(sentencepiece.NAME)
        writer.add_file_type(gguf.LlamaFileType.ALL_F32)
        model.describe(writer)
        sentencepiece.describe(writer)
        for name, tensor in model.tensors.items():
            writer.add_tensor(name, tensor)
        _flush(writer)
        fresh.replace(path)


def write_draft_models(folder: Path) -> None:
    """Writes `DRAFT_FILES` to `folder`.

    Three have one language, and a head that is often right, always wrong, and missing; the last one has a
    recurrent layer, and a language with a memory.
    """
    _write(build_draft_model(DRAFT_AGREEMENT), folder, (DRAFT_HEAD_FILE,))
    _write(build_draft_model(0.0), folder, (WRONG_HEAD_FILE,))
    _write(build_draft_model(1.0, head="missing"), folder, (MISSING_HEAD_FILE,))
    _write(build_hybrid_draft_model(1.0), folder, (HYBRID_HEAD_FILE,))


def write_memory_bound(path: Path, agreement: float) -> None:
    """Writes a large model (670 MB, F16) whose head is right after the share `agreement` of all tokens."""
    _write(build_draft_model(agreement, MEMORY_BOUND), path.parent, (path.name,), half=True)


def write_embedding_model(name: str, folder: Path) -> None:
    """Writes one of `EMBEDDING_FILES` to `folder`."""
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        fresh = Path(scratch, name)
        _flush(EMBEDDING_FILES[name](fresh))
        fresh.replace(folder / name)


def write_adapter(path: Path) -> None:
    """Writes a LoRA adapter for the `llama` model to `path`, changing two matrices a layer."""
    weights = Weights(5)
    with tempfile.TemporaryDirectory(dir=path.parent) as scratch:
        fresh = Path(scratch, path.name)
        writer = gguf.GGUFWriter(fresh, "llama")
        writer.add_type(gguf.GGUFType.ADAPTER)
        writer.add_string("adapter.type", "lora")
        writer.add_float32("adapter.lora.alpha", LORA_ALPHA)
        for layer in range(NUM_LAYERS):
            for name, inputs, outputs in (
                ("attn_q", WIDTH, NUM_HEADS * HEAD_SIZE),
                ("attn_output", NUM_HEADS * HEAD_SIZE, WIDTH),
            ):
                weight = f"blk.{layer}.{name}.weight"
                writer.add_tensor(f"{weight}.lora_a", weights.linear(LORA_RANK, inputs))
                writer.add_tensor(f"{weight}.lora_b", weights.linear(outputs, LORA_RANK))
        _flush(writer)
        fresh.replace(path)


def _write(model: Model, folder: Path, names: tuple[str, ...], *, half: bool = False) -> None:
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        per_part = -(-len(model.tensors) // len(names)) if len(names) > 1 else 0
        # For a split model the writer makes the names of the parts from this one.
        fresh = Path(scratch, "split.gguf" if per_part else names[0])
        writer = gguf.GGUFWriter(fresh, model.architecture, split_max_tensors=per_part)
        writer.add_name(f"synthetic {model.architecture}")
        writer.add_file_type(gguf.LlamaFileType.MOSTLY_F16 if half else gguf.LlamaFileType.ALL_F32)
        model.describe(writer)
        describe_vocabulary(writer)
        for name, tensor in model.tensors.items():
            is_half = half and name.startswith("blk.") and tensor.ndim > 1
            writer.add_tensor(name, tensor.astype(np.float16) if is_half else tensor)
        _flush(writer)
        for name in names:
            Path(scratch, name).replace(folder / name)


def _flush(writer: gguf.GGUFWriter) -> None:
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _version() -> str:
    digest = hashlib.sha256()
    for source in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(os.fsencode(source.name) + b"\0" + source.read_bytes())
    return digest.hexdigest()
