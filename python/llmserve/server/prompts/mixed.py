"""Prompts of texts and token ids together."""

from __future__ import annotations

from llmserve.embedder import Embedder
from llmserve.engine import Engine
from llmserve.server.web.token_kinds import MixedPrompt, WirePrompt


async def plain_prompt(handle: Engine | Embedder, prompt: WirePrompt) -> str | list[int]:
    """A prompt as a model takes it. A text at the beginning of a mixed prompt is tokenized with its BOS."""
    return await tokens_of(handle, prompt) if isinstance(prompt, MixedPrompt) else prompt


async def tokens_of(
    handle: Engine | Embedder, prompt: WirePrompt, *, add_special: bool = True, parse_special: bool = True
) -> list[int]:
    """The tokens of a prompt; the options are those of `Engine.tokenize`, for its texts."""
    if isinstance(prompt, str):
        return await handle.tokenize(prompt, add_special=add_special, parse_special=parse_special)
    parts = prompt.parts if isinstance(prompt, MixedPrompt) else prompt
    tokens: list[int] = []
    for index, part in enumerate(parts):
        if isinstance(part, int):
            tokens.append(part)
        else:
            begins = add_special and index == 0
            tokens += await handle.tokenize(part, add_special=begins, parse_special=parse_special)
    return tokens
