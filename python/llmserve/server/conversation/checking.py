"""Whether a model can be held to the schemas of tools, found out before anything is generated."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from llmserve.engine import Engine
from llmserve.errors import BudgetTooSmallError, InvalidParameterError
from llmserve.server.conversation.argument_rules import Argument, FreeText, arguments_of
from llmserve.server.conversation.argument_values import constraint_of, fitted
from llmserve.server.conversation.per_engine import PerEngine
from llmserve.server.conversation.tagged_call import PricedArgument
from llmserve.server.conversation.tool_formats import ArgumentTags
from llmserve.server.conversation.tools import Tool
from llmserve.server.trust.tenants import current_tenant


async def check_tools(engine: Engine, tools: Sequence[Tool]) -> Mapping[str, int]:
    """The tokens of the shortest arguments as one JSON object, by tool. Schemas that this engine has not seen
    yet are compiled.

    Raises `InvalidParameterError` with the field of the schema for the first one that cannot be honoured.
    """
    lengths = {}
    for tool in tools:
        try:
            lengths[tool.name] = await shortest(engine, {"json_schema": json.dumps(tool.schema)})
        except InvalidParameterError as error:
            raise error.named(tool.parameters_field) from None
    return lengths


async def price_arguments(
    engine: Engine, tools: Sequence[Tool], tags: ArgumentTags
) -> Mapping[str, tuple[PricedArgument, ...]]:
    """What the arguments of tools take between such tags, by tool. Tools whose arguments are one JSON object
    all the same are left out. The tools must have been checked.
    """
    priced = {}
    for tool in tools:
        arguments = arguments_of(tool.schema)
        if arguments is not None:
            priced[tool.name] = tuple([await _priced.of(engine, (tags, argument)) for argument in arguments])
    return priced


async def shortest(engine: Engine, constraint: Mapping[str, str]) -> int:
    """The tokens of the shortest text that a constraint takes; at least one.

    Raises what `Stream.accepted` raises.
    """
    return await _shortest.of(engine, tuple(constraint.items()))


async def _ask_shortest(engine: Engine, constraint: tuple[tuple[str, str], ...]) -> int:
    given: dict[str, Any] = dict(constraint)
    try:
        async with engine.stream(
            [0], **given, max_tokens=1, cache_prompt=False, tenant=current_tenant()
        ) as stream:
            await stream.accepted()
    except BudgetTooSmallError as error:
        return error.minimum
    return 1


async def _ask_price(engine: Engine, asked: tuple[ArgumentTags, Argument]) -> PricedArgument:
    tags, argument = asked
    argument = fitted(argument, tags)
    after_name, after_value = tags.around(argument.kind, argument.name)
    texts = (tags.between + tags.before_name + argument.name + after_name, after_value)
    opening, closing = [len(await engine.tokenize(text, add_special=False)) for text in texts]
    minimum = 0
    if not isinstance(argument.rule, FreeText):
        minimum = await shortest(engine, constraint_of(argument, tags))
    return PricedArgument(argument, minimum, opening + closing, closing)


_shortest = PerEngine(_ask_shortest)
_priced = PerEngine(_ask_price)
