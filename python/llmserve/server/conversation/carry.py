"""Where one segment ends and the next begins, which may be inside a token."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from llmserve.engine import Engine
from llmserve.server.conversation.segments import Cue
from llmserve.types import Completion, Token


@dataclass(frozen=True, slots=True)
class Carry:
    """Tokens of which a segment has only what comes first: the rest begins the next one's text.

    They stay as they were drawn, so that the model goes on as it would have.
    """

    tokens: tuple[Token, ...] = ()
    begin: int = 0
    """The bytes that are not carried."""

    @property
    def ids(self) -> list[int]:
        """All of the tokens."""
        return [token.id for token in self.tokens]

    @property
    def data(self) -> bytes:
        """What is carried."""
        return b"".join(token.bytes for token in self.tokens)[self.begin :]

    @property
    def text(self) -> str:
        """The same, decoded."""
        return self.data.decode(errors="replace")

    def plus(self, tokens: Iterable[Token]) -> Carry:
        """Followed by more tokens."""
        return Carry((*self.tokens, *tokens), self.begin)

    def find(self, text: str) -> int:
        """Where a text stands; -1 if it does not."""
        return self.data.find(text.encode())

    def split(self, place: int) -> tuple[list[int], Carry]:
        """The tokens that end before a place in the data, and the rest."""
        place += self.begin
        length = 0
        for index, token in enumerate(self.tokens):
            if length + len(token.bytes) > place:
                return self.ids[:index], Carry(self.tokens[index:], place - length)
            length += len(token.bytes)
        return self.ids, Carry()

    async def ids_before(self, engine: Engine, place: int) -> list[int]:
        """The tokens of what comes before a place in the data; one that goes on behind it is cut."""
        ids, rest = self.split(place)
        begun = b"".join(token.bytes for token in rest.tokens[:1])[: rest.begin].decode(errors="ignore")
        if begun:
            ids += await engine.tokenize(begun, add_special=False, parse_special=False)
        return ids


def behind(
    carry: Carry, completion: Completion, cue: Cue | None, *, is_shown: bool
) -> tuple[list[int], Carry]:
    """The tokens of a segment up to the end of its cue (if none: of its leading blanks), and the rest.

    The cue is part of the rest if it `is_shown`.
    """
    output = carry.plus(completion.tokens)
    if cue is not None and cue.token is not None:
        return output.ids, Carry()
    if not completion.tokens[-1].bytes:
        # It would have ended the generation, but what was carried has a cue.
        output = carry.plus(completion.tokens[:-1])
    if cue is not None:
        return output.split(output.find(cue.text) + (0 if is_shown else len(cue.text.encode())))
    text = output.text
    return output.split(len(text[: len(text) - len(text.lstrip())].encode()))


async def before(engine: Engine, carry: Carry, completion: Completion, cue: Cue | None) -> list[int]:
    """The tokens of a segment without its cue, or without the token that ended the generation."""
    tokens = completion.tokens
    if cue is not None and cue.token is None:
        output = carry.plus(tokens)
        place = output.find(cue.text)
        return output.ids if place < 0 else await output.ids_before(engine, place)
    ended_by_token = completion.finish_reason == "stop" and tokens and not tokens[-1].bytes
    return carry.plus(tokens[:-1] if ended_by_token else tokens).ids
