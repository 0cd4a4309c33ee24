"""One request of a turn: it ends at a cue, or is dropped as soon as its first words turn out unwanted."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from llmserve._binding.loaded import Prompt
from llmserve.engine import Engine
from llmserve.sampling_params import SamplingParams
from llmserve.server.trust.tenants import current_tenant
from llmserve.session import Session
from llmserve.stream import Stream
from llmserve.types import Completion, Delta


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


def leading_token(engine: Engine, text: str) -> str:
    """The control token with which a text begins: the text itself never shows. Any other text as it is."""
    tokens = (token for token in engine.info.control_tokens if token and text.startswith(token))
    return max(tokens, key=len, default=text)


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentRequest:
    """What a segment asks of the engine."""

    prompt: Prompt
    params: SamplingParams
    begun: bytes = b""
    """What the prompt's last tokens hold of the output."""
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
            tenant=current_tenant(),
            begun=request.begun,
            at_end=request.at_end and request.goes_on is None,
        )
        self.dropped: Delta | None = None
        """The first words, if they turned out unwanted."""
        self._goes_on = request.goes_on
        self._held: list[Delta] = []

    async def next(self) -> Delta | None:
        """The next output, `None` after the last; a dropped segment has none."""
        while (delta := await anext(self.stream, None)) is not None:
            if self._goes_on is None or delta.progress is not None:
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
