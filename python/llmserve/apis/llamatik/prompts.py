"""How a request's words become a prompt, and what becomes of its session."""

from __future__ import annotations

from collections.abc import Sequence

from llmserve.apis.llamatik import convert
from llmserve.apis.llamatik.schema import AnyGenerationRequest, ContextRequest, ContinueRequest
from llmserve.chat import NextTurn
from llmserve.engine import Engine
from llmserve.errors import TemplateError
from llmserve.registry import SessionCall
from llmserve.sampling_params import SamplingParams
from llmserve.stream import Stream
from llmserve.types import ChatMessage


async def rendered(engine: Engine, messages: Sequence[ChatMessage], add_generation_prompt: bool) -> str:
    """The text that messages make with the model's chat template, or with the plain layout.

    Raises:
        TemplateError: It refused them.
    """
    prompt = await engine.chat_prompt(messages, add_generation_prompt=add_generation_prompt)
    return prompt.text


async def submit(
    engine: Engine, request: AnyGenerationRequest, params: SamplingParams, call: SessionCall, *, at_end: bool
) -> Stream:
    """Renders the request's prompt and gives it to the engine as a call of its session.

    Raises:
        TemplateError: The model's chat template refused the turns.
        FieldError: There is no user turn.
    """
    async with call.submitting() as session:
        if isinstance(request, ContextRequest):
            prompt = await engine.chat_prompt(convert.messages(request))
            params = _with_stop(params, prompt.stop)
            stream = engine.stream(
                prompt, params, session=session, append=False, templated=True, at_end=at_end
            )
        elif isinstance(request, ContinueRequest):
            turn = await _next_turn(engine, request.prompt, call)
            if turn is not None and (call.session.is_templated or not call.is_alone):
                params = _with_stop(params, turn.stop)
            stream = engine.stream(
                request.prompt, params, session=session, append=turn or True, at_end=at_end
            )
        else:
            stream = engine.stream(request.prompt, params, session=session, append=False, at_end=at_end)
        call.attach(stream)
        return stream


async def _next_turn(engine: Engine, text: str, call: SessionCall) -> NextTurn | None:
    """The next turn of a templated session; ``None`` where the template has none and the session needs none.

    Whether the session is one shows when its running call is over; the engine takes turn or text then.
    """
    try:
        return await engine.next_turn(text)
    except TemplateError:
        if call.session.is_templated:
            raise
        return None


def _with_stop(params: SamplingParams, stop: Sequence[str]) -> SamplingParams:
    """Parameters with the stop texts that a layout needs."""
    return params.replace(stop=(*params.stop, *stop)) if stop else params
