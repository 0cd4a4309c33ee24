"""How a request becomes a prompt, and what becomes of its session."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Literal

from llmserve.chat import ChatPrompt, NextTurn
from llmserve.drafting import Drafting
from llmserve.engine import Engine
from llmserve.errors import TemplateError
from llmserve.sampling_params import SamplingParams
from llmserve.server.apis.llamatik import convert
from llmserve.server.apis.llamatik.schema import AnyGenerationRequest, ContextRequest, ContinueRequest
from llmserve.server.generation import Start
from llmserve.server.models import SessionCall
from llmserve.server.trust.tenants import current_tenant
from llmserve.stream import Stream


@dataclass(frozen=True, slots=True)
class Manner:
    """How a request is generated. ``drafting`` says, on submission, what it drafts with."""

    params: SamplingParams
    at_end: bool
    place: Callable[[], AbstractContextManager[None]]
    """Held while a template is rendered."""
    drafting: Callable[[], Awaitable[Drafting | Literal[False] | None]]


def start(request: AnyGenerationRequest, manner: Manner) -> Start[Stream]:
    """Renders the request's prompt and gives it to the engine as a call of its session.

    Raises, when the call is submitted:
        TemplateError: The model's chat template refused the turns.
        FieldError: There is no user turn.
    """

    async def submit(engine: Engine, call: SessionCall | None) -> Stream:
        if call is None:
            raise RuntimeError("every call of this dialect has a session")
        words = await _words(engine, request, call, manner.place)
        params = manner.params
        if words.stop:
            params = params.replace(stop=(*params.stop, *words.stop))
        # Last: nobody may release the drafting before the engine has it.
        drafting = await manner.drafting()
        return engine.stream(
            words.prompt,
            params,
            session=call.session,
            append=words.append,
            templated=words.is_templated,
            drafting=drafting,
            tenant=current_tenant(),
            at_end=manner.at_end,
        )

    return submit


@dataclass(frozen=True, slots=True)
class _Words:
    """A prompt, what it is to its session, and the stop texts that its layout needs."""

    prompt: str | ChatPrompt
    append: bool | NextTurn = False
    stop: Sequence[str] = ()
    is_templated: bool = False


async def _words(
    engine: Engine,
    request: AnyGenerationRequest,
    call: SessionCall,
    place: Callable[[], AbstractContextManager[None]],
) -> _Words:
    if isinstance(request, ContextRequest):
        with place():
            prompt = await engine.chat_prompt(convert.messages(request))
        return _Words(prompt, stop=prompt.stop, is_templated=True)
    if not isinstance(request, ContinueRequest):
        return _Words(request.prompt)
    with place():
        turn = await _next_turn(engine, request.prompt, call)
    if turn is not None and (call.session.is_templated or not call.is_alone):
        return _Words(request.prompt, turn, turn.stop)
    return _Words(request.prompt, turn or True)


async def _next_turn(engine: Engine, text: str, call: SessionCall) -> NextTurn | None:
    """The next turn of a templated session; ``None`` if the template has none and the session needs none.

    Whether the session is one shows when its running call is over; the engine takes turn or text then.
    """
    try:
        return await engine.next_turn(text)
    except TemplateError:
        if call.session.is_templated:
            raise
        return None
