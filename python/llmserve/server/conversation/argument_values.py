"""How the value of an argument between tags is asked for, and how its text becomes JSON."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace

from llmserve.errors import GenerationError
from llmserve.server.conversation.argument_rules import (
    Argument,
    Choice,
    Document,
    FreeText,
    Number,
    QuotedText,
    Rule,
)
from llmserve.server.conversation.tool_formats import ArgumentTags, literal

_NULL = "null"
_TO_ESCAPE = re.compile(r"[\\'\"]")
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_WHOLE = re.compile(r"\\.|[^\\](?=.)", re.DOTALL)
_ESCAPED = {"n": "\n", "r": "\r", "t": "\t"}


def fitted(argument: Argument, tags: ArgumentTags) -> Argument:
    """The argument as it is written between such tags: strings with quotation marks are escaped."""
    rule = argument.rule
    if isinstance(rule, FreeText) and tags.quote:
        return replace(argument, rule=QuotedText(tags.quote))
    if isinstance(rule, Choice) and tags.kinds and argument.kind is None:
        return replace(argument, rule=Choice(tuple((text, text) for _, text in rule.values)))
    if isinstance(rule, Choice) and tags.quote and argument.kind == "string":
        values = ((_TO_ESCAPE.sub(r"\\\g<0>", value), text) for value, text in rule.values)
        return replace(argument, rule=Choice(tuple(values)))
    return argument


def constraint_of(argument: Argument, tags: ArgumentTags) -> dict[str, str]:
    """The constraint of a value's segment, as sampling parameters; none for free text.

    A value that does not show where it ends is followed by the first character of what closes it.
    """
    rule = argument.rule
    followers = tags.followers(tags.around(argument.kind, argument.name)[1])
    if isinstance(rule, QuotedText):
        return {"regex": rf"(?:[^{rule.quote}\\\n]|\\[\\'\"nrt])*{rule.quote}"}
    if isinstance(rule, Choice):
        values = "|".join(literal(value) for value, _ in rule.values)
        return {"regex": f"(?:{values})(?:{'|'.join(map(literal, followers))})"}
    if isinstance(rule, Number):
        ends = " | ".join(map(json.dumps, followers))
        return {"grammar": f"start: value ({ends})\nvalue: %json {rule.schema}"}
    return {"json_schema": rule.schema} if isinstance(rule, Document) else {}


def is_rewritten(rule: Rule) -> bool:
    """Whether the drawn text ends with the follower, which is then inserted again."""
    return isinstance(rule, QuotedText | Choice | Number)


@dataclass(frozen=True, slots=True)
class Written:
    """A complete value: its text for the model, and the rest of its JSON."""

    text: str
    json: str


class ValueWriter:
    """Makes the JSON of one value while its text arrives."""

    def __init__(self, rule: Rule) -> None:
        self._rule = rule
        self._text = ""
        self._num_shown = 0
        self._is_open = False

    def push(self, text: str) -> str:
        """Takes more text; gives more JSON."""
        self._text += text
        if isinstance(self._rule, Document):
            return text
        if isinstance(self._rule, QuotedText):
            return self._unescaped(self._rule)
        if not isinstance(self._rule, FreeText) or (self._rule.is_nullable and self._may_be_null()):
            return ""
        return self._quoted()

    def end(self) -> Written:
        """Complete the value at the end of the text.

        Raises `GenerationError` if the text is not a value: its constraint has failed.
        """
        if isinstance(self._rule, Document):
            return Written(self._text, "")
        if isinstance(self._rule, QuotedText):
            return Written(self._text.removesuffix(self._rule.quote), self._unescaped(self._rule) + '"')
        if isinstance(self._rule, Choice):
            return self._chosen(self._rule)
        if isinstance(self._rule, Number):
            return self._number()
        if self._rule.is_nullable and self._text == _NULL:
            return Written(self._text, _NULL)
        return Written(self._text, self._quoted() + '"')

    def _may_be_null(self) -> bool:
        return not self._is_open and _NULL.startswith(self._text)

    def _quoted(self) -> str:
        return self._opened(self._text)

    def _opened(self, text: str) -> str:
        begin = "" if self._is_open else '"'
        self._is_open = True
        new, self._num_shown = text[self._num_shown :], len(text)
        return begin + json.dumps(new, ensure_ascii=False)[1:-1]

    def _unescaped(self, rule: QuotedText) -> str:
        """The string as far as it is known: without half of an escape, or the closing mark."""
        text = _ESCAPE.sub(lambda found: _ESCAPED.get(found[1], found[1]), self._text)
        # Escapes are whole in what the pattern takes; a mark outside of them closes the string.
        ends = _WHOLE.sub("", self._text) in ("\\", rule.quote)
        return self._opened(text[:-1] if ends else text)

    def _chosen(self, rule: Choice) -> Written:
        known = dict(rule.values)
        # The text without the follower; a text that the budget has cut short is the value that it begins.
        text = self._text[:-1] if self._text[:-1] in known else self._text
        value = next((value for value in known if value.startswith(text)), None)
        if value is None:
            raise GenerationError("an argument of a tool call is not one of its allowed values")
        return Written(value, known[value])

    def _number(self) -> Written:
        text = self._text[:-1]
        try:
            json.loads(text)
        except ValueError:
            raise GenerationError("an argument of a tool call is not a number") from None
        return Written(text, text)
