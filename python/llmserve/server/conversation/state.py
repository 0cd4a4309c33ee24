"""Where a turn is: its tokens so far, and what its next segment is for."""

from __future__ import annotations

import secrets
import string
from typing import TYPE_CHECKING, Literal, TypeAlias

from llmserve.engine import Engine
from llmserve.server.conversation.segments import Cue, crossing, ids_before
from llmserve.server.conversation.tools import Tool
from llmserve.server.conversation.turn_plan import TurnPlan
from llmserve.types import Completion

if TYPE_CHECKING:
    from llmserve.server.conversation.tagged_call import TaggedCall

Step: TypeAlias = Literal["think", "answer", "constrained", "name", "arguments", "tagged", "more"]
"""What a segment is for: reasoning, free text (or what may come before a document), the document itself,
a tool's name, its arguments, a part of those between tags, or whether another call follows."""

_ID_LETTERS = string.ascii_letters + string.digits


class TurnState:
    """The state between two segments."""

    def __init__(self, engine: Engine, plan: TurnPlan) -> None:
        self._engine = engine
        self._plan = plan
        self.ids: list[int] | None = None
        """Prompt and output so far; `None`: the prompt, which has not been tokenized yet."""
        self.step: Step = "answer"
        self.may_think = False
        """Whether the model may reason before a document or a call."""
        self.has_thought = False
        self.has_reasoning = False
        """Whether any reasoning has been shown that is not blank."""
        self.has_words = False
        """Likewise of the answer."""
        self.carry = ""
        """What the tokens so far hold of the next segment's text."""
        self.begun = ""
        """What the model has written of a call that has not been shown."""
        self.num_segments = 0
        self.num_calls = 0
        self.call: TaggedCall | None = None
        """The call whose arguments stand between tags."""
        self.call_id = ""
        self.tool: Tool | None = None
        """The tool that is called; `None` while its name is unknown."""
        if plan.tags is not None:
            self.may_think = plan.tags.may_open(plan.prompt.text)
        if plan.tags is not None and plan.tags.is_open(plan.prompt.text, plan.continued):
            self.step = "think"
            self.has_reasoning = bool(plan.continued.rpartition(plan.tags.open)[2].strip())
        elif plan.mode == "required":
            self.begin_call()

    @property
    def after_name(self) -> str:
        """What comes between the name of a call and its arguments."""
        return self._plan.format.after_name.replace("{id}", self.call_id)

    @property
    def after_arguments(self) -> str:
        """What closes a call."""
        format_ = self._plan.format
        is_object = format_.tags is not None and self.call is None
        return f"\n{format_.after_arguments}" if is_object else format_.after_arguments

    @property
    def head(self) -> str:
        """What comes before the name of the next call."""
        return self._plan.format.head if self.num_calls == 0 else self._plan.format.next_head

    @property
    def is_nameless(self) -> bool:
        """Whether a call's arguments are due, and its name was cut short."""
        return self.step == "arguments" and self.tool is None

    def begin_thought(self) -> None:
        """Makes the next segment reasoning."""
        self.may_think, self.step = False, "think"

    def end_thought(self) -> None:
        """Makes the next segment the answer."""
        self.may_think, self.has_thought, self.step = False, True, "answer"

    def begin_call(self, begun: str = "") -> None:
        """Makes the next segment the beginning of a call, of which the model has written something.

        The name of an only tool is not drawn.
        """
        self.begun = begun
        tools = self._plan.tools
        self.tool = tools[0] if len(tools) == 1 else None
        self.step = "name" if self.tool is None else "arguments"
        self.call = None
        letters = "".join(secrets.choice(_ID_LETTERS) for _ in range(9))
        self.call_id = letters if self._plan.format.id_style == "short" else f"call_{letters}"

    def choose_tool(self, name: str) -> None:
        """Makes the next segment the arguments of a tool."""
        self.tool = next((tool for tool in self._plan.tools if tool.name == name), None)
        self.step = "arguments"

    async def with_text(self, text: str) -> list[int]:
        """The tokens so far, followed by a text of the format."""
        if self.ids is None:
            self.ids = await self._engine.tokenize(self._plan.prompt)
        return [*self.ids, *await self._engine.tokenize(text, add_special=False)]

    async def put(self, text: str) -> None:
        """Appends a text of the format to the tokens so far."""
        self.ids = await self.with_text(text)

    async def cross(self, completion: Completion, cue: Cue | None) -> None:
        """Appends the output of a segment with its cue, or its leading blanks if there is none.

        What the last token holds behind it is for the next segment.
        """
        crossed = await crossing(self._engine, completion, cue, self._plan.cues)
        self.ids = [*await self.with_text(""), *crossed.ids]
        self.carry = crossed.rest

    async def keep(self, completion: Completion, cue: Cue | None) -> None:
        """Appends the output of a segment, without its cue, to the tokens so far."""
        output = await ids_before(self._engine, completion, cue)
        self.ids = [*await self.with_text(""), *output]
