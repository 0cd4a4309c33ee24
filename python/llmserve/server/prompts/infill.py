"""Prompts by which a model fills in code: llama-server's layout for the tokens that a vocabulary has."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from llmserve.engine import Engine
from llmserve.server.refusals import FieldError, NotSupportedError
from llmserve.types import ModelInfo

_REPOSITORY = "myproject\n"
_CURRENT_FILE = "filename\n"
_SNIPPET = "\n\n--- snippet ---\n\n"
"""Between the files of a model that has no token for that."""


@dataclass(frozen=True, slots=True)
class ExtraFile:
    """Context from elsewhere."""

    name: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Infill:
    """What stands around the text that a model is to write."""

    prefix: str
    suffix: str
    extra: Sequence[ExtraFile] = ()
    middle: str = ""
    """The beginning of what is to be written, which follows the prefix."""

    field: str = ""
    """The field that asks for it; empty for a route that does nothing else."""

    def check(self, info: ModelInfo) -> None:
        """Refuses a model whose vocabulary cannot frame what is to be filled in.

        Raises:
            FieldError: It cannot, and a field asks for it.
            NotSupportedError: It cannot.
        """
        missing = [name for name in ("prefix", "suffix", "middle") if name not in info.infill_tokens]
        if not missing:
            return
        reason = f"this model's vocabulary has no token for the {' and the '.join(missing)} of an infill"
        if self.field:
            raise FieldError(self.field, f"is not supported: {reason}")
        raise NotSupportedError(reason)

    async def tokens(self, engine: Engine, max_tokens: int | None) -> list[int]:
        """The prompt, for a model that has passed the `check`.

        What does not fit beside `max_tokens` is left out: the extra files before anything else, then the
        beginning of the prefix and the end of the suffix, which get room as 3 to 1.
        """
        known = engine.info.infill_tokens
        prefix = await _plain(engine, self.prefix)
        suffix = await _plain(engine, self.suffix)
        middle = await engine.tokenize(self.middle, add_special=False)
        begin = [token for token in await engine.tokenize("") if token == engine.info.bos_token]
        frame = len(begin) + len(("prefix", "suffix", "middle")) + len(middle)
        wanted = engine.info.context_length // 4 if max_tokens is None else max_tokens
        room = max(0, engine.info.context_length - wanted - frame)
        if len(prefix) + len(suffix) > room:
            num_suffix = max(min(len(suffix), room // 4), room - len(prefix))
            prefix = _last(prefix, room - num_suffix)
            suffix = suffix[:num_suffix]
        extra = await self._extra(engine)
        extra = _last(extra, room - len(prefix) - len(suffix))
        return [
            *extra,
            *begin,
            known["prefix"],
            *prefix,
            *middle,
            known["suffix"],
            *suffix,
            known["middle"],
        ]

    async def _extra(self, engine: Engine) -> list[int]:
        known = engine.info.infill_tokens
        tokens: list[int] = []
        if "repository" in known:
            tokens += [known["repository"], *await _plain(engine, _REPOSITORY)]
        for file in self.extra:
            if "file" in known:
                tokens += [known["file"], *await _plain(engine, f"{file.name}\n")]
            else:
                tokens += await _plain(engine, _SNIPPET)
            tokens += await _plain(engine, file.text)
        if "file" in known:
            tokens += [known["file"], *await _plain(engine, _CURRENT_FILE)]
        return tokens


async def _plain(engine: Engine, text: str) -> list[int]:
    return await engine.tokenize(text, add_special=False, parse_special=False)


def _last(tokens: list[int], number: int) -> list[int]:
    return tokens[max(0, len(tokens) - number) :] if number > 0 else []
