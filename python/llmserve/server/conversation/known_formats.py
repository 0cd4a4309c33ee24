"""The format of a chat template: derived from what it shows, or known by its text.

A template that shows no calls (it passes them on as text, or expects them there) still names the tokens that
its model writes. The table has those, and what a rendered conversation cannot tell of harmony.
"""

from __future__ import annotations

from dataclasses import replace

from llmserve.server.conversation.call_frames import derived_format
from llmserve.server.conversation.tool_formats import PLAIN, ArgumentTags, KindTexts, ToolFormat

HERMES = ToolFormat(
    triggers=("<tool_call>",),
    head='<tool_call>\n{"name": "',
    after_name='", "arguments":',
    after_arguments="}\n</tool_call>",
    again="<tool_call>",
    next_head='\n<tool_call>\n{"name": "',
)
"""Hermes, and many more."""

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
    id_style="short",
)
"""One array of all calls."""

TOOL_CALL_TOKEN = ToolFormat(
    triggers=("<|tool_call|>",),
    head='<|tool_call|>[{"name": "',
    after_name='", "arguments":',
    after_arguments="}",
    again=",",
    next_head=', {"name": "',
)
"""Granite 3 and Phi-4."""

KIMI = ToolFormat(
    triggers=("<|tool_calls_section_begin|>",),
    head="<|tool_calls_section_begin|><|tool_call_begin|>functions.",
    after_name=":{index}<|tool_call_argument_begin|>",
    after_arguments="<|tool_call_end|>",
    again="<|tool_call_begin|>",
    next_head="<|tool_call_begin|>functions.",
    id_style="function",
)
"""Kimi K2, whose later templates show a call's id alone, which holds the name."""

LFM = ToolFormat(
    triggers=("<|tool_call_start|>",),
    head="<|tool_call_start|>[",
    after_name="(",
    tags=ArgumentTags(
        before_name="",
        after_name='="',
        after_value='"',
        between=", ",
        end=")",
        kinds=tuple(
            KindTexts(kind, "=", "") for kind in ("integer", "number", "boolean", "null", "object", "array")
        ),
    ),
    after_arguments=")",
    again=",",
    next_head=", ",
)
"""LFM2: Python's calls."""

# The first line whose texts all occur in a template decides.
_BY_TEXTS: tuple[tuple[tuple[str, ...], ToolFormat], ...] = (
    (("<|tool_call_argument_begin|>",), KIMI),
    (("<|tool_list_start|>",), LFM),
    (("[TOOL_CALLS]",), MISTRAL),
    (("<tool_call>",), HERMES),
    (("<|tool_call|>",), TOOL_CALL_TOKEN),
    (("<|python_tag|>",), LLAMA_3),
    (('"parameters": ',), LLAMA_3),
)

_HARMONY = ("<|channel|>", "<|message|>", "analysis", "functions.")
_HARMONY_TRIGGERS = (" to=functions.", "<|channel|>commentary to=functions.")


def is_harmony(template: str) -> bool:
    """Whether a template's messages have channels: gpt-oss and its kin."""
    return all(text in template for text in _HARMONY)


def format_of(template: str) -> ToolFormat:
    """The format in which a model with this chat template writes its calls."""
    derived = derived_format(template)
    if derived is not None:
        # The template shows one of the two places where a model may name the function.
        return replace(derived, triggers=_HARMONY_TRIGGERS) if is_harmony(template) else derived
    return next((format_ for texts, format_ in _BY_TEXTS if all(text in template for text in texts)), PLAIN)
