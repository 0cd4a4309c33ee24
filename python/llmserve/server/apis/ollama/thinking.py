"""Which models reason before they answer."""

from __future__ import annotations

import functools

import anyio.to_thread

from llmserve.errors import TemplateError
from llmserve.server.conversation.reasoning import tags_of
from llmserve.server.models import UsedModel
from llmserve.server.refusals import FieldError
from llmserve.templates.environment import variables_of
from llmserve.templates.variants import choose

_VARIABLES = frozenset({"enable_thinking", "thinking", "reasoning_effort"})


@functools.lru_cache(maxsize=64)
def thinks(template: str) -> bool:
    """Whether a chat template knows of reasoning."""
    try:
        return tags_of(template) is not None or bool(variables_of(template) & _VARIABLES)
    except TemplateError:
        return False


async def check_thinking(used: UsedModel, template: str | None, think: bool | str | None) -> None:
    """Refuses to have a model reason that does not.

    Raises:
        FieldError: The model does not reason, or there is no such template.
    """
    if not think:
        return
    try:
        source = choose(used.engine.info, template, False)
    except TemplateError as error:
        raise FieldError("template", f"cannot be used: {error}") from None
    if not await anyio.to_thread.run_sync(thinks, source):
        raise FieldError("think", "must be false: the model does not support thinking")
