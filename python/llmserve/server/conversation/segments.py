"""One request of a turn: it ends at a cue, or is dropped as soon as its first words turn out unwanted."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from llmserve._binding.loaded import Prompt
from llmserve.engine import Engine
from llmserve.sampling_params import SamplingParams
from llmserve.session import Session
from llmserve.stream import Stream
from llmserve.types import Completion, Delta, Token


@dataclass(frozen=True, slots=True)
class Cue:
    """A text at which a segment ends. The text of a control token never shows, so its id is looked for."""

    text: str
    token: int | None


async def find_cues(engine: Engine, texts: Iterable[str]) -> tuple[Cue, ...]:
    """The cues of texts in a model's vocabulary."""
    cues = []
    for text in texts:
        token = None
        if text in engine.info.control_tokens:
            ids = await engine.tokenize(text, add_special=False)
            token = ids[-1] if ids else None
        cues.append(Cue(text, token))
    return tuple(cues)


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentRequest:
    """What a segment asks of the engine."""

    prompt: Prompt
    params: SamplingParams
    cues: tuple[Cue, ...] = ()
    goes_on: Callable[[str], bool] | None = None
    """Given the first words (never blank): whether the segment is wanted."""
    at_end: bool = False


class Segment:
    """A running request."""

    def __init__(self, engine: Engine, request: SegmentRequest, session: Session | None) -> None:
        self._request = request
        params = request.params
        if request.cues:
            texts = [cue.text for cue in request.cues if cue.token is None]
            tokens = [cue.token for cue in request.cues if cue.token is not None]
            params = params.replace(
                stop=(*params.stop, *texts), stop_token_ids=(*params.stop_token_ids, *tokens)
            )
        self.stream: Stream = engine.stream(
            request.prompt,
            params,
            session=session,
            append=False,
            templated=True,
            at_end=request.at_end and request.goes_on is None,
        )
        self.dropped: Delta | None = None
        """The first words, if they turned out unwanted."""
        self._goes_on = request.goes_on
        self._held: list[Delta] = []

    async def next(self) -> Delta | None:
        """The next output, `None` after the last; a dropped segment has none."""
        while (delta := await anext(self.stream, None)) is not None:
            if self._goes_on is None:
                return delta
            self._held.append(delta)
            words = "".join(delta.text for delta in self._held).lstrip()
            if not words:
                continue
            if not self._goes_on(words):
                self.dropped = self._released()
                self.stream.abort()
                return None
            self._goes_on = None
            return self._released()
        return self._released() if self._held else None

    def _released(self) -> Delta:
        held, self._held = self._held, []
        return _joined(held)

    async def completion(self) -> Completion:
        """The result, once all deltas have been read."""
        return await self.stream.result()

    def cue(self, completion: Completion) -> Cue | None:
        """The cue that ended the segment."""
        if completion.finish_reason != "stop":
            return None
        last = completion.tokens[-1].id if completion.tokens else None
        for cue in self._request.cues:
            if cue.token is not None and cue.token == last:
                return cue
            if cue.token is None and cue.text == completion.stop:
                return cue
        return None


def _joined(deltas: Sequence[Delta]) -> Delta:
    text = "".join(delta.text for delta in deltas)
    return Delta(
        text=text,
        tokens=tuple(token for delta in deltas for token in delta.tokens),
        prompt=tuple(token for delta in deltas for token in delta.prompt),
    )


@dataclass(frozen=True, slots=True)
class Crossing:
    """The end of a segment whose last token goes on behind the text that ended it."""

    ids: list[int]
    """The tokens that are kept, the cue's among them."""
    rest: str
    """What they hold behind the cue."""


async def crossing(engine: Engine, completion: Completion, cue: Cue | None, texts: Sequence[str]) -> Crossing:
    """The end of a segment behind its cue, or behind its leading blanks if there is none.

    What may begin one of `texts` is cut off, to be drawn again by a segment that looks for them.
    """
    tokens = completion.tokens
    if cue is not None and cue.token is not None:
        return Crossing([token.id for token in tokens], "")
    data = b"".join(token.bytes for token in tokens)
    if cue is None:
        begin = len(data) - len(data.lstrip())
    else:
        begin = data.find(cue.text.encode()) + len(cue.text.encode())
    rest = _before_any(data[begin:].decode(errors="ignore"), texts)
    end = begin + len(rest.encode())
    ids = [token.id for token in tokens] if end == len(data) else await _cut(engine, tokens, end)
    return Crossing(ids, rest)


def _before_any(text: str, texts: Sequence[str]) -> str:
    """The text before the first place where one of the others stands, or begins without an end."""
    for place in range(len(text)):
        left = text[place:]
        if any(left.startswith(other) or other.startswith(left) for other in texts):
            return text[:place]
    return text


async def ids_before(engine: Engine, completion: Completion, cue: Cue | None) -> list[int]:
    """The tokens of a completion without its cue, or without the token that ended the generation."""
    tokens = completion.tokens
    if cue is not None and cue.token is None:
        end = b"".join(token.bytes for token in tokens).find(cue.text.encode())
        return [token.id for token in tokens] if end < 0 else await _cut(engine, tokens, end)
    ended_by_token = completion.finish_reason == "stop" and tokens and not tokens[-1].bytes
    return [token.id for token in (tokens[:-1] if ended_by_token else tokens)]


async def _cut(engine: Engine, tokens: Sequence[Token], end: int) -> list[int]:
    """The tokens of the first bytes, which may end inside one."""
    ids: list[int] = []
    length = 0
    for token in tokens:
        if length + len(token.bytes) > end:
            rest = token.bytes[: end - length].decode(errors="ignore")
            if rest:
                ids += await engine.tokenize(rest, add_special=False, parse_special=False)
            break
        ids.append(token.id)
        length += len(token.bytes)
    return ids
