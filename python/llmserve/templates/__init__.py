"""Chat templates: messages as the prompts that a model was trained with.

`environment` renders Jinja as Hugging Face's transformers do, `variants` picks one of a model's templates,
`capabilities` finds out what a template takes, `messages` gives it that, `marks` keeps text of users from
becoming control tokens, `turns` finds how a conversation goes on, `plain` is the layout for models without a
template, and `chat` joins them. This package needs jinja2, which `import llmserve` does not import.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from llmserve.templates.chat import ChatTemplates
from llmserve.templates.environment import check
from llmserve.templates.environment import render as render_variables
from llmserve.templates.messages import normalized

__all__ = ["ChatTemplates", "check", "render"]


def render(
    template: str, messages: Sequence[Mapping[str, Any]], add_generation_prompt: bool, **variables: Any
) -> str:
    """The text that a template's source makes of messages, as transformers render it.

    Nothing is marked, and content and tool calls stay as they are. Raises `TemplateError` with the template's
    own words if it has any.
    """
    # Transformers set these two whether or not they are given: `tools is defined` holds.
    given = {"tools": None, "documents": None, **variables}
    rendered = {"messages": normalized(messages), "add_generation_prompt": add_generation_prompt}
    return render_variables(template, {**rendered, **given})
