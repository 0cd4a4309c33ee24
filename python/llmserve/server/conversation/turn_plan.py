"""The plan of a turn: what it may contain."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from llmserve.chat import ChatPrompt
from llmserve.sampling_params import SamplingParams
from llmserve.server.conversation.reasoning import ReasoningTags
from llmserve.server.conversation.reasoning_limit import NO_LIMIT, ReasoningLimit
from llmserve.server.conversation.tool_formats import PLAIN, ToolFormat
from llmserve.server.conversation.tools import Tool, ToolMode
from llmserve.session import Session

if TYPE_CHECKING:
    from llmserve.server.conversation.call_price import CallPrice
    from llmserve.server.conversation.tagged_call import PricedArgument


@dataclass(frozen=True, slots=True)
class Reserve:
    """Tokens of the shortest document or call that must follow reasoning, and of the texts around it."""

    drawn: int = 0
    """Tokens that are drawn, and count towards the token limit."""
    inserted: int = 0
    """Tokens of the texts, which take room in the context only."""

    def room(self, budget: int | None, context: int) -> int:
        """The tokens of a budget (`None`: no limit) and of the context's rest that others may have."""
        left = context - self.drawn - self.inserted
        return max(0, left if budget is None else min(left, budget - self.drawn))


NO_RESERVE = Reserve()


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnPlan:
    """What a turn may contain."""

    prompt: ChatPrompt
    tokens: list[int] | None = None
    """The tokens to compute in place of the prompt's own: its last ones, or earlier ones before them."""
    params: SamplingParams
    """Parameters of the answer, with its constraint. The seed must be set."""
    tools: tuple[Tool, ...] = ()
    """The tools that may be called."""
    mode: ToolMode = "none"
    is_parallel: bool = True
    """Whether the turn may have several calls."""
    format: ToolFormat = PLAIN
    arguments: Mapping[str, tuple[PricedArgument, ...]] = field(default_factory=dict)
    """The arguments by tool, if they stand between tags; a tool that is missing takes a JSON object."""
    prices: Mapping[str, CallPrice] = field(default_factory=dict)
    """What a call takes at least, by tool."""
    reserve: Reserve = NO_RESERVE
    """What reasoning leaves to the document or the call that must come."""
    tags: ReasoningTags | None = None
    keeps_blanks: bool = False
    """Whether the blanks around reasoning are shown."""
    reasoning_limit: ReasoningLimit = NO_LIMIT
    continued: str = ""
    """The beginning of the turn, if the client has sent it to be continued."""
    at_end: bool = False
    """The output is wanted as a whole."""
    session: Session | None = None

    @property
    def must_answer(self) -> bool:
        """Whether a document or a call has to come, after any reasoning."""
        return self.is_constrained or self.mode == "required"

    @property
    def triggers(self) -> tuple[str, ...]:
        """Texts that begin a call in free text."""
        return self.format.triggers if self.mode == "auto" else ()

    @property
    def has_brace(self) -> bool:
        """Whether an answer that begins with a brace is a call."""
        return self.mode == "auto" and self.format.begins_with_brace

    @property
    def is_constrained(self) -> bool:
        """Whether the answer must match something."""
        params = self.params
        return any(spec is not None for spec in (params.json_schema, params.regex, params.grammar))
