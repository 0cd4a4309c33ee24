"""What a call takes of the token limit at least: a required one that has no room is refused."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from llmserve.engine import Engine
from llmserve.errors import BudgetTooSmallError
from llmserve.server.conversation.per_engine import PerEngine
from llmserve.server.conversation.tagged_call import PricedArgument, least_tokens
from llmserve.server.conversation.tool_formats import ToolFormat
from llmserve.server.conversation.tools import Tool


@dataclass(frozen=True, slots=True)
class CallPrice:
    """The least tokens of a call. The texts around name and arguments are inserted, so they cost nothing."""

    name: int
    arguments: int

    @property
    def whole(self) -> int:
        """Of name and arguments together."""
        return self.name + self.arguments


async def price_calls(
    engine: Engine,
    tools: Sequence[Tool],
    tool_format: ToolFormat,
    *,
    documents: Mapping[str, int],
    between_tags: Mapping[str, Sequence[PricedArgument]],
) -> Mapping[str, CallPrice]:
    """The prices of calls, by tool: `documents` has those of arguments as one JSON object."""
    prices = {}
    for tool in tools:
        tagged = between_tags.get(tool.name)
        arguments = documents[tool.name] if tagged is None else least_tokens(tagged)
        prices[tool.name] = CallPrice(await _name_tokens(engine, tools, tool, tool_format), arguments)
    return prices


async def _name_tokens(engine: Engine, tools: Sequence[Tool], tool: Tool, tool_format: ToolFormat) -> int:
    if len(tools) == 1:  # its name is inserted
        return 0
    return await _num_tokens.of(engine, tool.name + tool_format.follower)


async def _count(engine: Engine, text: str) -> int:
    return len(await engine.tokenize(text, add_special=False))


_num_tokens = PerEngine(_count)


def affordable(
    tools: Sequence[Tool], prices: Mapping[str, CallPrice], budget: int | None
) -> tuple[tuple[Tool, ...], int | None]:
    """The tools of which any may be called within a budget, and how much of it a name may take of these.

    The longest of their names leaves room for the dearest of their arguments. Cheap calls come first. Without
    prices all tools may be called, and a name may take the whole budget.

    Raises:
        BudgetTooSmallError: No call fits.
    """
    if budget is None or not prices:
        return tuple(tools), budget
    name = arguments = 0
    fitting = set()
    for tool in sorted(tools, key=lambda tool: prices[tool.name].whole):
        price = prices[tool.name]
        if max(name, price.name) + max(arguments, price.arguments) <= budget:
            name, arguments = max(name, price.name), max(arguments, price.arguments)
            fitting.add(tool.name)
    if not fitting:
        minimum = min(prices[tool.name].whole for tool in tools)
        raise BudgetTooSmallError(
            f"a tool call takes {minimum} tokens, but only {budget} may be generated",
            minimum=minimum,
            budget=budget,
        )
    return tuple(tool for tool in tools if tool.name in fitting), budget - arguments
