"""Prompts of texts and token ids together."""

from __future__ import annotations

from llmserve.embedder import Embedder
from llmserve.engine import Engine
from llmserve.server.web.token_kinds import MixedPrompt, WirePrompt


async def plain_prompt(handle: Engine | Embedder, prompt: WirePrompt) -> str | list[int]:
    """A prompt as a model takes it. A text at the beginning of a mixed prompt is tokenized with its BOS."""
    if not isinstance(prompt, MixedPrompt):
        return prompt
    tokens: list[int] = []
    for index, part in enumerate(prompt.parts):
        tokens += [part] if isinstance(part, int) else await handle.tokenize(part, add_special=index == 0)
    return tokens
