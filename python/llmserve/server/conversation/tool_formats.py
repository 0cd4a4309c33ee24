"""How models write tool calls. A format is chosen by the text of the model's chat template."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, TypeAlias

_SPECIAL = re.compile(r"[\\.+*?()|\[\]{}^$]")

IdStyle: TypeAlias = Literal["openai", "short"]
"""`call_` and nine letters and digits, or these nine alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ArgumentTags:
    """The texts around each argument, if it stands between tags of its own, with strings unquoted."""

    before_name: str
    after_name: str
    after_value: str
    end: str
    """What follows the last argument: the beginning of what closes the call."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolFormat:
    """The texts around the name and the arguments of a call."""

    triggers: tuple[str, ...] = ()
    """Texts that begin calls in free text."""
    begins_with_brace: bool = False
    """Whether `{` as the first character that is not blank begins a call."""
    head: str
    """The text from the beginning of the first call to its name."""
    after_name: str
    """The text between name and arguments, with `{id}` for the call's id. Before JSON it does not end with a
    blank, which would be half of a token."""
    tags: ArgumentTags | None = None
    """`None`: the arguments are a JSON object."""
    after_arguments: str
    """The text that closes a call."""
    again: str | None = None
    """The text that begins another call; `None` if there can be only one."""
    next_head: str = ""
    """The text from the end of a call to the name of another."""
    id_style: IdStyle = "openai"
    """The ids that the template wants."""

    def name_pattern(self, names: Iterable[str]) -> str:
        """A regular expression for one of the names.

        The first character after the name belongs to it, so that no name is taken for the beginning of
        another one.
        """
        return f"(?:{'|'.join(map(literal, names))}){literal(self.after_name[0])}"


def literal(text: str) -> str:
    """A regular expression for this text alone."""
    return _SPECIAL.sub(r"\\\g<0>", text).replace("\n", "\\n")


HERMES = ToolFormat(
    triggers=("<tool_call>",),
    head='<tool_call>\n{"name": "',
    after_name='", "arguments":',
    after_arguments="}\n</tool_call>",
    again="<tool_call>",
    next_head='\n<tool_call>\n{"name": "',
)
"""Hermes, Qwen 2.5 and 3, Granite 4 and many more."""

QWEN_XML = ToolFormat(
    triggers=("<tool_call>",),
    head="<tool_call>\n<function=",
    after_name=">\n",
    tags=ArgumentTags(
        before_name="<parameter=", after_name=">\n", after_value="\n</parameter>\n", end="</function>"
    ),
    after_arguments="</function>\n</tool_call>",
    again="<tool_call>",
    next_head="\n<tool_call>\n<function=",
)
"""Qwen3-Coder, Qwen 3.5, Nemotron 3."""

SEED_XML = ToolFormat(
    triggers=("<seed:tool_call>",),
    head="<seed:tool_call>\n<function=",
    after_name=">\n",
    tags=ArgumentTags(
        before_name="<parameter=", after_name=">", after_value="</parameter>\n", end="</function>"
    ),
    after_arguments="</function>\n</seed:tool_call>",
    again="<seed:tool_call>",
    next_head="\n<seed:tool_call>\n<function=",
)
"""Seed-OSS."""

MINIMAX_XML = ToolFormat(
    triggers=("<minimax:tool_call>",),
    head='<minimax:tool_call>\n<invoke name="',
    after_name='">\n',
    tags=ArgumentTags(
        before_name='<parameter name="', after_name='">', after_value="</parameter>\n", end="</invoke>"
    ),
    after_arguments="</invoke>",
    again="<invoke",
    next_head='\n<invoke name="',
)
"""MiniMax M2: one element of all calls."""

GLM_XML = ToolFormat(
    triggers=("<tool_call>",),
    head="<tool_call>",
    after_name="\n",
    tags=ArgumentTags(
        before_name="<arg_key>",
        after_name="</arg_key>\n<arg_value>",
        after_value="</arg_value>\n",
        end="</tool_call>",
    ),
    after_arguments="</tool_call>",
    again="<tool_call>",
    next_head="\n<tool_call>",
)
"""GLM 4.5 and newer."""

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

MISTRAL_ARGS = ToolFormat(
    triggers=("[TOOL_CALLS]",),
    head="[TOOL_CALLS]",
    after_name="[ARGS]",
    after_arguments="",
    again="[TOOL_CALLS]",
    next_head="[TOOL_CALLS]",
    id_style="short",
)
"""Devstral, Ministral 3."""

MISTRAL_IDS = ToolFormat(
    triggers=("[TOOL_CALLS]",),
    head="[TOOL_CALLS]",
    after_name="[CALL_ID]{id}[ARGS]",
    after_arguments="",
    again="[TOOL_CALLS]",
    next_head="[TOOL_CALLS]",
    id_style="short",
)
"""Mistral Small 3.2: the model is shown the call's id."""

DEEPSEEK = ToolFormat(
    triggers=("<｜tool▁calls▁begin｜>",),
    head="<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>",
    after_name="<｜tool▁sep｜>",
    after_arguments="<｜tool▁call▁end｜>",
    again="<｜tool▁call▁begin｜>",
    next_head="<｜tool▁call▁begin｜>",
)
"""DeepSeek 3.1."""

TOOL_CALL_TOKEN = ToolFormat(
    triggers=("<|tool_call|>",),
    head='<|tool_call|>[{"name": "',
    after_name='", "arguments":',
    after_arguments="}",
    again=",",
    next_head=', {"name": "',
)
"""Granite 3 and Phi-4."""

TOOLCALL = ToolFormat(
    triggers=("<TOOLCALL>",),
    head='<TOOLCALL>[{"name": "',
    after_name='", "arguments":',
    after_arguments="}",
    again=",",
    next_head=', {"name": "',
)
"""Nemotron Nano 2."""

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

DEEPSEEK_FENCED = ToolFormat(
    triggers=("<｜tool▁calls▁begin｜>",),
    head="<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>",
    after_name="\n```json\n",
    after_arguments="\n```<｜tool▁call▁end｜>",
    again="<｜tool▁call▁begin｜>",
    next_head="\n<｜tool▁call▁begin｜>function<｜tool▁sep｜>",
)
"""DeepSeek 3 and R1."""

# The first line whose texts all occur in a template decides.
_BY_TEXTS: tuple[tuple[tuple[str, ...], ToolFormat], ...] = (
    (("[CALL_ID]",), MISTRAL_IDS),
    (("[ARGS]",), MISTRAL_ARGS),
    (("[TOOL_CALLS]",), MISTRAL),
    (("<seed:tool_call>",), SEED_XML),
    (("<minimax:tool_call>",), MINIMAX_XML),
    (("<tool_call>", "<arg_key>"), GLM_XML),
    (("<tool_call>", "<parameter="), QWEN_XML),
    (("<tool_call>",), HERMES),
    (("<|tool_call|>",), TOOL_CALL_TOKEN),
    (("<｜tool▁sep｜>", "```json"), DEEPSEEK_FENCED),
    (("<｜tool▁sep｜>",), DEEPSEEK),
    (("<TOOLCALL>",), TOOLCALL),
    (("<function=",), FUNCTION_TAG),
    (("<|python_tag|>",), LLAMA_3),
    (('"parameters": ',), LLAMA_3),
)


def format_of(template: str) -> ToolFormat:
    """The format in which a model with this chat template writes its calls."""
    return next((format_ for texts, format_ in _BY_TEXTS if all(text in template for text in texts)), PLAIN)
