"""How a request's words become a prompt, and what becomes of its session."""

from __future__ import annotations

from collections.abc import Sequence

import anyio.to_thread

from llmserve.apis.llamatik import convert
from llmserve.apis.llamatik.schema import AnyGenerationRequest, ContextRequest
from llmserve.engine import Engine
from llmserve.registry import SessionCall
from llmserve.sampling_params import SamplingParams
from llmserve.stream import Stream
from llmserve.types import ChatMessage


async def rendered(engine: Engine, messages: Sequence[ChatMessage], add_generation_prompt: bool) -> str:
    """The text that messages make with the model's chat template.

    Raises:
        TemplateError: It refused them.
    """
    return await anyio.to_thread.run_sync(engine.apply_chat_template, messages, add_generation_prompt)


async def submit(
    engine: Engine, request: AnyGenerationRequest, params: SamplingParams, call: SessionCall, *, at_end: bool
) -> Stream:
    """Renders the request's prompt and gives it to the engine as a call of its session.

    Raises:
        TemplateError: The model's chat template refused the turns.
        FieldError: There is no user turn.
    """
    # seam: sessions and chat prompts
    if isinstance(request, ContextRequest):
        messages = convert.messages(request)
        prompt = await anyio.to_thread.run_sync(engine.apply_chat_template, messages)
    else:
        prompt = request.prompt
    stream = engine.stream(prompt, params, at_end=at_end)
    call.attach(stream)
    return stream
