"""How models write tool calls. A format is chosen by the text of the model's chat template."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolFormat:
    """The texts around the name and the arguments of a call; the arguments are always a JSON object."""

    triggers: tuple[str, ...] = ()
    """Texts that begin calls in free text."""
    begins_with_brace: bool = False
    """Whether `{` as the first character that is not blank begins a call."""
    head: str
    """From the beginning of the first call to its name."""
    after_name: str
    """Between name and arguments. Without a blank at its end: that would be half of a token."""
    after_arguments: str
    """What closes a call."""
    again: str | None = None
    """What begins another call; `None` where there is one only."""
    next_head: str = ""
    """From the end of a call to the name of another."""
    has_short_ids: bool = False
    """Whether the template wants ids of nine letters and digits."""

    def name_pattern(self, names: Iterable[str]) -> str:
        """A regular expression for one of the names.

        The first character after the name belongs to it, so that no name is taken for the beginning of
        another one.
        """
        return f"(?:{'|'.join(re.escape(name) for name in names)}){re.escape(self.after_name[0])}"


HERMES = ToolFormat(
    triggers=("<tool_call>",),
    head='<tool_call>\n{"name": "',
    after_name='", "arguments":',
    after_arguments="}\n</tool_call>",
    again="<tool_call>",
    next_head='\n<tool_call>\n{"name": "',
)
"""Hermes, Qwen and many more. Models that write XML between these tags are held to JSON."""

LLAMA_3 = ToolFormat(
    triggers=("<|python_tag|>",),
    begins_with_brace=True,
    head='{"name": "',
    after_name='", "parameters":',
    after_arguments="}",
)

MISTRAL = ToolFormat(
    triggers=("[TOOL_CALLS]",),
    head='[TOOL_CALLS] [{"name": "',
    after_name='", "arguments":',
    after_arguments="}",
    again=",",
    next_head=', {"name": "',
    has_short_ids=True,
)
"""One array of all calls."""

MISTRAL_ARGS = ToolFormat(
    triggers=("[TOOL_CALLS]",),
    head="[TOOL_CALLS]",
    after_name="[ARGS]",
    after_arguments="",
    again="[TOOL_CALLS]",
    next_head="[TOOL_CALLS]",
    has_short_ids=True,
)
"""Mistral's newer models."""

TOOL_CALL_TOKEN = ToolFormat(
    triggers=("<|tool_call|>",),
    head='<|tool_call|>[{"name": "',
    after_name='", "arguments":',
    after_arguments="}",
    again=",",
    next_head=', {"name": "',
)
"""Granite 3 and Phi-4."""

FUNCTION_TAG = ToolFormat(
    triggers=("<function=",),
    head="<function=",
    after_name=">",
    after_arguments="</function>",
    again="<function=",
    next_head="<function=",
)
"""Functionary and Llama 3.1's custom calls."""

PLAIN = ToolFormat(
    begins_with_brace=True,
    head='{"name": "',
    after_name='", "arguments":',
    after_arguments="}",
)
"""A JSON object, for all other models."""

# The first text that a template has decides.
_BY_TEXT: tuple[tuple[str, ToolFormat], ...] = (
    ("[ARGS]", MISTRAL_ARGS),
    ("[TOOL_CALLS]", MISTRAL),
    ("<tool_call>", HERMES),
    ("<|tool_call|>", TOOL_CALL_TOKEN),
    ("<function=", FUNCTION_TAG),
    ("<|python_tag|>", LLAMA_3),
    ('"parameters": ', LLAMA_3),
)


def format_of(template: str) -> ToolFormat:
    """The format in which a model with this chat template writes its calls."""
    return next((format_ for text, format_ in _BY_TEXT if text in template), PLAIN)
