"""Whether a model can be held to the schemas of tools, found out before anything is generated."""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Sequence
from weakref import WeakKeyDictionary

from llmserve.assistant.tools import Tool
from llmserve.engine import Engine
from llmserve.errors import BudgetTooSmallError, InvalidParameterError

_MAX_KNOWN = 4096

# Schemas that were taken, by engine; the longest unused first.
_known: WeakKeyDictionary[Engine, OrderedDict[str, None]] = WeakKeyDictionary()


async def check_tools(engine: Engine, tools: Sequence[Tool]) -> None:
    """Compiles the schemas of tools that this engine has not seen yet.

    Raises `InvalidParameterError` with the field `tools` for the first one that cannot be honoured.
    """
    known = _known.setdefault(engine, OrderedDict())
    for tool in tools:
        schema = json.dumps(tool.schema)
        if schema not in known:
            await _compile(engine, tool, schema)
        known[schema] = None
        known.move_to_end(schema)
        if len(known) > _MAX_KNOWN:
            known.popitem(last=False)


async def _compile(engine: Engine, tool: Tool, schema: str) -> None:
    # Whoever is accepted, or refused for the size of the shortest document, has a schema that holds.
    try:
        async with engine.stream([0], json_schema=schema, max_tokens=1, cache_prompt=False) as stream:
            await stream.accepted()
    except BudgetTooSmallError:
        return
    except InvalidParameterError as error:
        reason = str(error).removeprefix(f"{error.field}: ")
        raise InvalidParameterError(f"tools: parameters of {tool.name}: {reason}", field="tools") from None
