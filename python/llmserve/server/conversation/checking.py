"""Whether a model can be held to the schemas of tools, found out before anything is generated."""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any
from weakref import WeakKeyDictionary

from llmserve.engine import Engine
from llmserve.errors import BudgetTooSmallError, InvalidParameterError
from llmserve.server.conversation.argument_rules import Argument, FreeText, arguments_of
from llmserve.server.conversation.argument_values import constraint_of
from llmserve.server.conversation.tagged_call import PricedArgument
from llmserve.server.conversation.tool_formats import ArgumentTags
from llmserve.server.conversation.tools import Tool

_MAX_KNOWN = 4096

# Schemas that were accepted and their shortest documents, by engine; the least recently used first.
_known: WeakKeyDictionary[Engine, OrderedDict[str, int]] = WeakKeyDictionary()
_prices: WeakKeyDictionary[Engine, OrderedDict[tuple[ArgumentTags, Argument], PricedArgument]] = (
    WeakKeyDictionary()
)


async def check_tools(engine: Engine, tools: Sequence[Tool]) -> Mapping[str, int]:
    """The tokens of the shortest arguments as one JSON object, by tool. Schemas that this engine has not seen
    yet are compiled.

    Raises `InvalidParameterError` with the field of the schema for the first one that cannot be honoured.
    """
    known = _known.setdefault(engine, OrderedDict())
    lengths = {}
    for tool in tools:
        schema = json.dumps(tool.schema)
        if schema not in known:
            try:
                known[schema] = await _shortest(engine, {"json_schema": schema})
            except InvalidParameterError as error:
                raise error.named(tool.parameters_field) from None
        lengths[tool.name] = known[schema]
        known.move_to_end(schema)
        if len(known) > _MAX_KNOWN:
            known.popitem(last=False)
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
            priced[tool.name] = tuple([await _price(engine, argument, tags) for argument in arguments])
    return priced


async def _price(engine: Engine, argument: Argument, tags: ArgumentTags) -> PricedArgument:
    known = _prices.setdefault(engine, OrderedDict())
    key = (tags, argument)
    if key not in known:
        texts = (tags.before_name + argument.name + tags.after_name, tags.after_value)
        ids = [await engine.tokenize(text, add_special=False) for text in texts]
        minimum = 0
        if not isinstance(argument.rule, FreeText):
            minimum = await _shortest(engine, constraint_of(argument.rule, tags))
        known[key] = PricedArgument(argument, minimum, sum(map(len, ids)))
    known.move_to_end(key)
    if len(known) > _MAX_KNOWN:
        known.popitem(last=False)
    return known[key]


async def _shortest(engine: Engine, constraint: Mapping[str, Any]) -> int:
    """The tokens of the shortest text that a constraint takes. Raises what `Stream.accepted` raises."""
    try:
        async with engine.stream([0], **constraint, max_tokens=1, cache_prompt=False) as stream:
            await stream.accepted()
    except BudgetTooSmallError as error:
        return error.minimum
    return 1
