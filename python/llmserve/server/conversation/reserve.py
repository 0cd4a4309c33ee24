"""Room that reasoning leaves to the document or the call that has to follow it."""

from __future__ import annotations

from llmserve.engine import Engine
from llmserve.errors import InvalidParameterError
from llmserve.sampling_params import SamplingParams
from llmserve.server.conversation.checking import shortest
from llmserve.server.conversation.turn_plan import NO_RESERVE, Reserve, TurnPlan


async def reserve_of(engine: Engine, plan: TurnPlan) -> Reserve:
    """What the reasoning of a turn must leave. Raises what `Stream.accepted` raises."""
    if plan.tags is None or not plan.must_answer:
        return NO_RESERVE
    tags, words = plan.tags, plan.reasoning_limit.message or ""
    texts = "".join((words, tags.close, tags.after_close, *tags.hidden[:1]))
    end = len(await engine.tokenize(texts, add_special=False))
    if plan.mode != "required":
        try:
            return Reserve(await shortest(engine, _constraint(plan.params)), end)
        except InvalidParameterError:
            return NO_RESERVE  # the engine refuses the request itself
    name = min(plan.prices, key=lambda name: plan.prices[name].whole)
    begin = await engine.tokenize(plan.format.head + name + plan.format.after_name, add_special=False)
    around = sum(priced.num_tag_tokens for priced in plan.arguments.get(name, ()))
    return Reserve(plan.prices[name].whole, end + len(begin) + around)


def _constraint(params: SamplingParams) -> dict[str, str]:
    specs = {"json_schema": params.json_schema, "regex": params.regex, "grammar": params.grammar}
    return {name: spec for name, spec in specs.items() if isinstance(spec, str)}
