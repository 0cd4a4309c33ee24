"""Loads the model that is named, and prints a greedy text, its tokens and which CPU library ggml has loaded.

Run by the interpreter of the environment under test, which has llmserve and not the tests.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

from llmserve import ModelConfig, sync


def main(model: str) -> None:
    """Generate."""
    config = ModelConfig(context_length=128, max_sequences=1, threads=2)
    with sync.load(model, config) as engine:
        completion = engine.generate("the quick brown fox", max_tokens=8, temperature=0, ignore_eos=True)
    tokens = [token.id for token in completion.tokens]
    libraries = re.findall(r"libggml-cpu-([\w.]+)\.so", Path("/proc/self/maps").read_text())
    print(json.dumps({"text": completion.text, "tokens": tokens, "cpu": sorted(set(libraries))}))


if __name__ == "__main__":
    main(sys.argv[1])
