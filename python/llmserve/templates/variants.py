"""Which of a model's chat templates is meant."""

from __future__ import annotations

from llmserve.errors import TemplateError
from llmserve.templates.plain import PLAIN_TEMPLATE
from llmserve.types import ModelInfo

__all__ = ["choose"]

DEFAULT = "default"
TOOL_USE = "tool_use"


def choose(info: ModelInfo, name: str | None, has_tools: bool) -> str:
    """A template's source: a variant of the model's by name, or what is given if it is Jinja itself.

    Without a name, it is `tool_use` if there are tools and the model has that variant, then the default,
    then the plain layout. Raises `TemplateError` for a name that the model does not have.
    """
    named = dict(info.chat_templates)
    if info.chat_template is not None:
        named[DEFAULT] = info.chat_template
    if name is None:
        if has_tools and TOOL_USE in named:
            return named[TOOL_USE]
        if DEFAULT in named or not named:
            return named.get(DEFAULT, PLAIN_TEMPLATE)
    elif name in named:
        return named[name]
    elif "{" in name:
        return name
    asked = "no default" if name is None else f"no {name!r}"
    raise TemplateError(f"template: the model has {asked}, only {', '.join(sorted(named)) or 'none'}")
