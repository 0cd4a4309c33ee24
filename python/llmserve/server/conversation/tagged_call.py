"""The arguments of a call that each stand between tags, while they are generated.

A chain of segments: which argument comes next (or the end) is drawn under a regular expression, its value
under a rule of its own. Every required argument is there at the end of any budget: what their shortest values
take is reserved, and when nothing else is left they are inserted without asking which comes next.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from llmserve.errors import BudgetTooSmallError
from llmserve.server.conversation.argument_rules import Argument, FreeText
from llmserve.server.conversation.argument_values import ValueWriter, is_rewritten
from llmserve.server.conversation.segments import Cue
from llmserve.server.conversation.state import TurnState
from llmserve.server.conversation.tool_formats import ArgumentTags, literal
from llmserve.types import Completion

CallStep: TypeAlias = Literal["key", "value", "done"]

_SLACK = 4
"""Spare tokens: the model may write a tag in a few more than the tokenizer does."""


@dataclass(frozen=True, slots=True)
class PricedArgument:
    """An argument and what it takes at least, in tokens."""

    argument: Argument
    minimum: int
    """Tokens of the value, which are drawn."""
    num_tag_tokens: int
    """Tokens of the texts around it."""
    num_closing_tokens: int
    """Those behind it."""


def least_tokens(arguments: Sequence[PricedArgument]) -> int:
    """What a whole call with these arguments takes at least: room for whichever is chosen first."""
    values = sum(priced.minimum for priced in arguments if priced.argument.is_required)
    return _key_tokens(arguments) + _dearest(arguments) + values


def _key_tokens(arguments: Sequence[PricedArgument]) -> int:
    return max((priced.num_tag_tokens for priced in arguments), default=0) + _SLACK


def _dearest(arguments: Sequence[PricedArgument]) -> int:
    optional = [p.minimum + p.num_tag_tokens for p in arguments if not p.argument.is_required]
    return max(optional, default=0)


class TaggedCall:
    """One call, from the end of its head to what closes it."""

    def __init__(
        self, state: TurnState, tags: ArgumentTags, arguments: Sequence[PricedArgument], context_length: int
    ) -> None:
        self._state = state
        self._tags = tags
        self._left = list(arguments)
        self._context_length = context_length
        self._current: PricedArgument | None = None
        self._writer: ValueWriter | None = None
        self._has_any = False
        self._is_closing = False
        self.step: CallStep = "key"
        self.is_new = True
        """Whether no segment of the call has been read."""

    @property
    def is_cut(self) -> bool:
        """Whether the budget has ended the call."""
        return self._is_closing

    @property
    def argument(self) -> Argument | None:
        """The argument whose value is due."""
        return self._current.argument if self._current is not None else None

    def room(self, budget: int | None) -> int:
        """The tokens that the next segment may have, of `budget` (`None`: up to the context length)."""
        needed = [priced for priced in self._left if priced.argument.is_required]
        texts = sum(priced.num_tag_tokens for priced in needed) + _SLACK
        texts += self._current.num_closing_tokens if self._current is not None else 0
        left = self._context_length - len(self._state.ids or ()) - texts
        if budget is not None:
            left = min(left, budget)
        left -= sum(priced.minimum for priced in needed)
        # Whichever argument is chosen must fit.
        return left - _dearest(self._left) if self.step == "key" else left

    def check_start(self, budget: int | None) -> None:
        """Raises `BudgetTooSmallError` if a whole call does not fit."""
        missing = _key_tokens(self._left) - self.room(budget)
        if missing <= 0:
            return
        minimum = least_tokens(self._left)
        raise BudgetTooSmallError(
            f"a tool call takes {minimum} tokens, but only {minimum - missing} may be generated",
            minimum=minimum,
            budget=minimum - missing,
        )

    def key_pattern(self) -> str:
        """A regular expression for what begins an argument, or ends the call where it may end."""
        names = "|".join(literal(priced.argument.name) for priced in self._left)
        tags = self._tags
        begun = f"{literal(self._before_name)}(?:{names}){literal(tags.after_name[0])}" if names else ""
        if any(priced.argument.is_required for priced in self._left):
            return begun
        return f"(?:{begun}|{literal(tags.end)})" if begun else literal(tags.end)

    def push(self, text: str) -> str:
        """Takes more of the segment's text; gives more JSON."""
        return self._writer.push(text) if self._writer is not None else ""

    async def take(self, text: str, completion: Completion, cue: Cue | None) -> str:
        """Takes the end of a segment, of which `text` is all; gives more JSON."""
        if self.step == "value" and self._current is not None:
            if not is_rewritten(self._current.argument.rule):
                await self._state.keep(completion, cue)
            return await self._end_value()
        if text == self._tags.end:
            return self._end()
        chosen = next((priced for priced in self._left if text == self._begin_of(priced)), None)
        if chosen is None:
            self._is_closing = True
            return ""
        return await self._begin_value(chosen)

    async def settle(self, budget: int | None) -> str:
        """Takes the steps that need no generation; gives their JSON."""
        shown = ""
        while self.step != "done":
            room = self.room(budget)
            if self.step == "key":
                if not self._is_closing and room >= _key_tokens(self._left):
                    return shown
                self._is_closing = True
                missing = next((priced for priced in self._left if priced.argument.is_required), None)
                shown += self._end() if missing is None else await self._begin_value(missing)
            elif self._current is None or not isinstance(self._current.argument.rule, FreeText) or room > 0:
                return shown
            else:
                shown += await self._end_value()
        return shown

    @property
    def _before_name(self) -> str:
        return (self._tags.between if self._has_any else "") + self._tags.before_name

    def _begin_of(self, priced: PricedArgument) -> str:
        return self._before_name + priced.argument.name + self._tags.after_name[0]

    @property
    def after_value(self) -> str:
        """What closes the value that is due."""
        argument = self.argument
        return self._tags.around(argument.kind, argument.name)[1] if argument is not None else ""

    async def _begin_value(self, priced: PricedArgument) -> str:
        self._left.remove(priced)
        self._current, self._writer, self.step = priced, ValueWriter(priced.argument.rule), "value"
        name = priced.argument.name
        after_name, _ = self._tags.around(priced.argument.kind, name)
        await self._state.put(self._before_name + name + after_name)
        begin, self._has_any = ("," if self._has_any else "{"), True
        return f"{begin}{json.dumps(name, ensure_ascii=False)}:"

    async def _end_value(self) -> str:
        if self._current is None or self._writer is None:
            raise RuntimeError("no value was begun")
        written = self._writer.end()
        text = written.text if is_rewritten(self._current.argument.rule) else ""
        await self._state.put(text + self.after_value)
        self._current, self._writer, self.step = None, None, "key"
        return written.json

    def _end(self) -> str:
        self.step = "done"
        return "}" if self._has_any else "{}"
