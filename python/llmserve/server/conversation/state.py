"""Where a turn is: its tokens so far, and what its next segment is for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeAlias

from llmserve.engine import Engine
from llmserve.server.conversation.call_ids import letters_of
from llmserve.server.conversation.carry import Carry, before, behind
from llmserve.server.conversation.segments import Cue
from llmserve.server.conversation.tools import Tool
from llmserve.server.conversation.turn_plan import TurnPlan
from llmserve.types import Completion

if TYPE_CHECKING:
    from llmserve.server.conversation.tagged_call import TaggedCall

Step: TypeAlias = Literal["think", "answer", "constrained", "name", "arguments", "tagged", "more"]
"""What a segment is for: reasoning, free text (or what may come before a document), the document itself,
a tool's name, its arguments, a part of those between tags, or whether another call follows."""


class TurnState:
    """The state between two segments."""

    def __init__(self, engine: Engine, plan: TurnPlan) -> None:
        self._engine = engine
        self._plan = plan
        self.ids: list[int] | None = None
        """Prompt and output so far; `None`: the prompt, which has not been tokenized yet."""
        self.carry = Carry()
        """The tokens behind them, which hold the beginning of the next segment's text."""
        self.step: Step = "answer"
        self.may_think = False
        """Whether the model may reason before a document or a call."""
        self.has_thought = False
        self.has_reasoning = False
        """Whether any reasoning has been shown that is not blank."""
        self.has_words = False
        """Likewise of the answer, or of its last message."""
        self.has_opened = False
        """Whether the model has written what begins the answer."""
        self.thinking_left = plan.reasoning_limit.max_tokens
        """The tokens of reasoning that are left; `None`: no limit of their own."""
        self.last_words = plan.reasoning_limit.message or ""
        """What will be inserted where reasoning is closed at that limit."""
        self.inserted = ""
        """The words that were, until they are shown."""
        self.tag = ""
        """The tag that came before the next segment."""
        self.begun = ""
        """What the model has written of a call that has not been shown."""
        self.num_segments = 0
        self.num_calls = 0
        self.call: TaggedCall | None = None
        """The call whose arguments stand between tags."""
        self._id_letters = ""
        self.candidates = plan.tools
        """The tools of which the next call's name is one."""
        self.call_fits = True
        """Whether there is room for a call of each of them."""
        self.tool: Tool | None = None
        """The tool that is called; `None` while its name is unknown."""
        if plan.tags is not None:
            is_open = plan.tags.is_open(plan.prompt.text, plan.continued)
            has_any = bool(plan.tags.split(plan.continued)[1].strip())
            self.has_reasoning, self.has_words = is_open and has_any, has_any and not is_open
            self.may_think = plan.tags.may_open(plan.prompt.text) and not self.has_words
            self.step = "think" if is_open else "answer"
        self._num_in_prompt = 0
        """The characters of a call's head with which the prompt ends."""
        if self.step == "answer" and plan.mode == "required":
            head = plan.format.head
            lengths = range(len(head), 0, -1)
            self._num_in_prompt = next((n for n in lengths if plan.prompt.text.endswith(head[:n])), 0)
            self.begin_call()

    @property
    def call_id(self) -> str:
        """The id of the call."""
        style = self._plan.format.id_style
        if style == "function":
            return f"functions.{self._name}:{self._index}"
        return self._id_letters if style == "short" else f"call_{self._id_letters}"

    @property
    def _name(self) -> str:
        return self.tool.name if self.tool is not None else ""

    @property
    def _index(self) -> int:
        return self._plan.format.first_index + self.num_calls

    def _filled(self, text: str) -> str:
        """A text of the format for this call."""
        for place, value in (("{index}", str(self._index)), ("{name}", self._name), ("{id}", self.call_id)):
            text = text.replace(place, value)
        return text

    @property
    def after_name(self) -> str:
        """What comes between the name of a call and its arguments."""
        return self._filled(self._plan.format.after_name)

    @property
    def after_arguments(self) -> str:
        """What closes a call."""
        format_ = self._plan.format
        text = self._filled(format_.after_arguments)
        is_object = format_.tags is not None and self.call is None
        return f"\n{text}" if is_object else text

    @property
    def head(self) -> str:
        """What comes before the name of the next call, without what the prompt ends with."""
        if self.num_calls:
            return self._filled(self._plan.format.next_head)
        return self._filled(self._plan.format.head[self._num_in_prompt :])

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
        self._id_letters = self._drawn_letters()

    def _drawn_letters(self) -> str:
        """Letters of an id, the same for the same request: some templates show it before the call's name."""
        params = self._plan.params
        seed = 0 if params.temperature == 0 else params.seed
        return letters_of(f"{seed} {params.choice_index} {self.num_calls} {self._plan.prompt.text}")

    def count_thought(self, num_tokens: int) -> None:
        """Counts tokens of reasoning."""
        if self.thinking_left is not None:
            self.thinking_left = max(0, self.thinking_left - num_tokens)

    async def close_thought(self) -> None:
        """Ends reasoning at its limit, or where a document or a required call must follow."""
        if self.thinking_left == 0 and self.last_words:
            words, self.last_words = self.last_words, ""
            ids = await self._engine.tokenize(words, add_special=False, parse_special=False)
            self.ids, self.carry, self.inserted = [*await self.with_text(""), *ids], Carry(), words
        tags = self._plan.tags
        self.tag = tags.close if tags else ""
        await self.put(tags.close + tags.after_close if tags else "")
        self.end_thought()
        if self._plan.mode == "required":
            self.begin_call()

    @property
    def must_call(self) -> bool:
        """Whether the next call is the one that the client requires."""
        return self._plan.mode == "required" and self.num_calls == 0

    def choose_tool(self, written: str) -> None:
        """Makes the next segment the arguments of a tool, whose name is written with the character after it.

        The budget may have cut the name short; that of a call that fits is then completed.
        """
        follower = self._plan.format.follower
        name = written.removesuffix(follower)
        if name != written:
            found = (tool for tool in self.candidates if tool.name == name)
        else:
            found = (tool for tool in self.candidates if self.call_fits and tool.name.startswith(name))
        self.tool, self.step = next(found, None), "arguments"

    async def settled(self) -> list[int]:
        """The tokens so far, without what is carried."""
        if self.ids is None:
            self.ids = await self._engine.tokenize(self._plan.prompt)
        return self.ids

    async def with_text(self, text: str) -> list[int]:
        """The tokens so far, without what is carried, followed by a text of the format."""
        ids = [*await self.settled(), *await self.carry.ids_before(self._engine, 0)]
        return [*ids, *await self._engine.tokenize(text, add_special=False)] if text else ids

    async def put(self, text: str) -> None:
        """Appends a text of the format to the tokens so far; what was carried is left out."""
        self.ids, self.carry = await self.with_text(text), Carry()

    def carried(self) -> tuple[str, str | None]:
        """The text that is carried, up to the stop string that it holds, if it does."""
        text = self.carry.text
        stops = self._plan.params.stop if self.step == "answer" else ()
        ends = [(place + len(stop), -len(stop), stop) for stop in stops if (place := text.find(stop)) >= 0]
        if not ends:
            return text, None
        end, length, stop = min(ends)
        return text[: end + length], stop

    async def drop_carry(self) -> None:
        """Leaves out what was carried."""
        if self.carry.tokens:
            await self.put("")

    async def cross(self, completion: Completion, cue: Cue | None, *, is_shown: bool = False) -> None:
        """Appends the output of a segment with its cue, or its leading blanks if there is none.

        What the tokens hold behind it is carried over to the next segment, and a cue that is shown, too.
        """
        ids, self.carry = behind(self.carry, completion, cue, is_shown=is_shown)
        self.ids = [*await self.settled(), *ids]

    async def keep(self, completion: Completion, cue: Cue | None) -> None:
        """Appends the output of a segment, without its cue, to the tokens so far."""
        ids = await before(self._engine, self.carry, completion, cue)
        self.ids, self.carry = [*await self.settled(), *ids], Carry()
