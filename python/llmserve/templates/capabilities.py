"""What a chat template takes, found out by rendering small conversations with it."""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from llmserve.errors import TemplateError
from llmserve.templates.environment import render
from llmserve.templates.limits import within_limits

__all__ = ["Capabilities", "EmptyContent", "call_message", "capabilities", "rendered"]

EmptyContent: TypeAlias = Literal["null", "empty", "absent"]
_Message: TypeAlias = dict[str, Any]

# Words that no template contains.
_WORD = "quokka"
_NAME = "find_wombat"
_OTHER = "bilby"
_KEY, _VALUE = "burrow", "numbat"
_ALWAYS_SHOWN = ("user", "assistant")
_ID = "call00001"  # nine letters and digits, which Mistral's templates ask for

_TOOL = {
    "type": "function",
    "function": {
        "name": _NAME,
        "description": "Finds a wombat.",
        "parameters": {
            "type": "object",
            "properties": {_KEY: {"type": "string", "description": "Its burrow."}},
            "required": [_KEY],
        },
    },
}


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What a template does with content, tools and tool calls."""

    source: str
    """The template."""
    takes_strings: bool
    """Content may be a string."""
    part_roles: frozenset[str]
    """Roles whose content may be a list of parts."""
    shows_tools: bool
    """Tools that are declared appear in the prompt."""
    shows_tool_calls: bool
    """Tool calls of the assistant appear."""
    takes_objects: bool
    """Arguments of tool calls are objects; else JSON text."""
    empty_content: EmptyContent
    """What stands for missing content beside tool calls."""

    def hides(self, role: str) -> bool:
        """Whether the template silently leaves out messages of a role."""
        return role not in _ALWAYS_SHOWN and _hides(self.source, role)

    @property
    def shows_systems(self) -> bool:
        """Whether a conversation may begin with a system message that appears."""
        return _shows_systems(self.source)

    @property
    def takes_systems(self) -> bool:
        """Whether a conversation may begin with several system messages."""
        return _takes_systems(self.source)


@functools.lru_cache(maxsize=64)
def capabilities(source: str) -> Capabilities:
    """What the template takes. Conversations that it refuses prove nothing, and ordinary use is assumed."""
    with within_limits():
        return _found(source)


def _found(source: str) -> Capabilities:
    text = rendered(source, [_user(_WORD)])
    part_roles = frozenset(
        role for role in ("system", "user", "assistant", "tool") if _takes_parts(source, role)
    )
    calls = _tool_call_form(source)
    takes_objects, empty_content = calls or (True, "empty")
    return Capabilities(
        source=source,
        takes_strings=text is None or _WORD in text or "user" not in part_roles,
        part_roles=part_roles,
        shows_tools=_shows_tools(source),
        shows_tool_calls=calls is not None,
        takes_objects=takes_objects,
        empty_content=empty_content,
    )


def rendered(
    source: str,
    messages: Sequence[_Message],
    tools: Sequence[Any] | None = None,
    *,
    adds_prompt: bool = False,
) -> str | None:
    """What the template makes of a conversation; `None` if it refuses it."""
    variables = {
        "messages": messages,
        "tools": tools,
        "documents": None,
        "add_generation_prompt": adds_prompt,
        "bos_token": "",
        "eos_token": "",
    }
    try:
        return render(source, variables)
    except TemplateError:
        return None


def _user(content: Any) -> _Message:
    return {"role": "user", "content": content}


def _call(arguments: Any, empty_content: EmptyContent) -> _Message:
    function = {"name": _NAME, "arguments": arguments}
    return call_message([{"id": _ID, "type": "function", "function": function}], empty_content)


def call_message(calls: Sequence[Mapping[str, Any]], empty_content: EmptyContent) -> _Message:
    """A message with calls and no content."""
    contents: Mapping[EmptyContent, _Message] = {
        "null": {"content": None},
        "empty": {"content": ""},
        "absent": {},
    }
    return {"role": "assistant", "tool_calls": list(calls)} | contents[empty_content]


def _result(content: Any) -> _Message:
    return {"role": "tool", "tool_call_id": _ID, "name": _NAME, "content": content}


def _arguments(takes_objects: bool) -> Any:
    arguments = {_KEY: _VALUE}
    return arguments if takes_objects else json.dumps(arguments)


def _takes_parts(source: str, role: str) -> bool:
    # Two calls, since some templates take the first and leave out the rest.
    parts = [{"type": "text", "text": word} for word in (_WORD, _NAME)]
    conversations: dict[str, list[_Message]] = {
        "system": [{"role": "system", "content": parts}, _user("a")],
        "user": [_user(parts)],
        "assistant": [_user("a"), {"role": "assistant", "content": parts}, _user("b")],
        "tool": [_user("a"), _call(_arguments(True), "empty"), _result(parts)],
    }
    text = rendered(source, conversations[role])
    # Python's or JSON's text of the list would have the key in quotes.
    is_picture = text is not None and ("'text'" in text or '"text"' in text)
    return text is not None and _WORD in text and _NAME in text and not is_picture


def _shows_tools(source: str) -> bool:
    system = {"role": "system", "content": "a"}
    conversations = ([_user("b")], [system, _user("b")])
    texts = (rendered(source, conversation, [_TOOL]) for conversation in conversations)
    return any(text is not None and _NAME in text for text in texts)


def _tool_call_form(source: str) -> tuple[bool, EmptyContent] | None:
    """The first form of a tool call that appears as it should: whether arguments are objects, and what stands
    for missing content."""
    # Transformers leave null out, so that comes first.
    empties: tuple[EmptyContent, ...] = ("absent", "null", "empty")
    for takes_objects in (True, False):
        for empty_content in empties:
            call = _call(_arguments(takes_objects), empty_content)
            for tools in (None, [_TOOL]):
                without = rendered(source, [_user("a"), {"role": "assistant", "content": "b"}], tools) or ""
                text = rendered(source, [_user("a"), call, _result("c")], tools)
                if text is not None and _shows_call(text, without):
                    return takes_objects, empty_content
    return None


def _shows_call(text: str, without: str) -> bool:
    """Whether name and arguments stand there as JSON or in the template's own form, and no `None`."""
    has_all = all(text.count(word) > without.count(word) for word in (_NAME, _KEY, _VALUE))
    # Python's text of a dict, and JSON text that was encoded as JSON again.
    is_odd = f"'{_KEY}'" in text or f'\\"{_KEY}' in text or text.count("None") > without.count("None")
    return has_all and not is_odd


@functools.lru_cache(maxsize=256)
def _hides(source: str, role: str) -> bool:
    one, other = _with_role(source, role, _WORD), _with_role(source, role, _OTHER)
    with within_limits():
        pairs = [(rendered(source, one, tools), rendered(source, other, tools)) for tools in (None, [_TOOL])]
    # A template that refuses the role will say so itself; one that shows it may change its text.
    shown = [pair for pair in pairs if pair != (None, None)]
    return bool(shown) and all(text == with_other for text, with_other in shown)


def _with_role(source: str, role: str, content: str) -> list[_Message]:
    """A conversation in which a message of the role has this content."""
    if role != "tool":
        return [{"role": role, "content": content}, _user("a")]
    calls = _tool_call_form(source)
    # Tool calls that the template does not show are passed as text.
    call = _call(_arguments(calls[0]), calls[1]) if calls else {"role": "assistant", "content": "b"}
    return [_user("a"), call, _result(content)]


@functools.lru_cache(maxsize=64)
def _shows_systems(source: str) -> bool:
    with within_limits():
        texts = [rendered(source, _with_role(source, "system", content)) for content in (_WORD, _OTHER)]
    return None not in texts and texts[0] != texts[1]


@functools.lru_cache(maxsize=64)
def _takes_systems(source: str) -> bool:
    first = {"role": "system", "content": _WORD}
    with within_limits():
        texts = [
            rendered(source, [first, {"role": "system", "content": content}, _user("a")])
            for content in (_NAME, _OTHER)
        ]
    return None not in texts and texts[0] != texts[1]
