"""An assistant's turn: its reasoning, its words and its tool calls, separated while they are generated.

`tool_formats` says how a model may write calls. `call_probes` has a template show calls, `call_frames` and
`tag_frames` read the format off that, cutting texts at the `borders` of tags, and `known_formats` has those
of templates that show none; `reasoning` finds how reasoning is marked, `fallback` gives tools to models whose
template has none, `planning` makes the prompt and a `turn_plan`. `segments` runs
one request of a turn, `requests` says what it asks for, and `turn` joins them by the turn's `state`; tokens
at the border of two segments are a `carry`. Where arguments of calls stand between tags, `argument_rules`
says what each may be, `argument_values` makes JSON of its text, and a `tagged_call` joins them to whole
arguments; `call_price` is what a call takes at least, and `reserve` what reasoning leaves to others; a
`reasoning_limit` is how long it may be. What clients send is read by `tool_choice`, `messages` and
`json_formats`, in the form that most dialects share; `naming` has their names for
messages.
"""

from llmserve.server.conversation.pieces import (
    CallArguments,
    CallBegin,
    Piece,
    Reasoning,
    Tag,
    TurnEnd,
    Words,
)
from llmserve.server.conversation.planning import Conversation, check_plan, plan_turn, prompt_tokens
from llmserve.server.conversation.reasoning_limit import ReasoningLimit
from llmserve.server.conversation.tools import Tool
from llmserve.server.conversation.turn import Turn
from llmserve.server.conversation.turn_plan import TurnPlan

__all__ = [
    "CallArguments",
    "CallBegin",
    "Conversation",
    "Piece",
    "Reasoning",
    "ReasoningLimit",
    "Tag",
    "Tool",
    "Turn",
    "TurnEnd",
    "TurnPlan",
    "Words",
    "check_plan",
    "plan_turn",
    "prompt_tokens",
]
