"""What users of `pydantic-ai` do. Runs in an environment that has it (see `checks`)."""

from __future__ import annotations

import os
from typing import Any, Literal

from pydantic import BaseModel
from pydantic_ai import Agent, NativeOutput
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
from pydantic_ai.providers.openai import OpenAIProvider

from clients.checks import run_checks

MODEL = os.environ["MODEL"]
PROVIDER = OpenAIProvider(base_url=os.environ["BASE"], api_key=os.environ["KEY"])
CHAT = OpenAIChatModel(MODEL, provider=PROVIDER)
RESPONSES = OpenAIResponsesModel(MODEL, provider=PROVIDER)
SETTINGS: Any = {"max_tokens": 60, "temperature": 0}


class City(BaseModel):
    """A city."""

    name: Literal["Paris", "Rome"]


async def check_chat() -> None:
    assert (await Agent(CHAT, model_settings=SETTINGS).run("Say hello.")).output


async def check_typed_chat() -> None:
    for output_type in (City, NativeOutput(City)):
        made = await Agent(CHAT, model_settings=SETTINGS, output_type=output_type).run("Name a city.")
        assert isinstance(made.output, City)


async def check_responses() -> None:
    assert (await Agent(RESPONSES, model_settings=SETTINGS).run("Say hello.")).output


async def check_typed_responses() -> None:
    made = await Agent(RESPONSES, model_settings=SETTINGS, output_type=City).run("Name a city.")
    assert isinstance(made.output, City)


async def check_previous_response() -> None:
    agent = Agent(RESPONSES, model_settings={**SETTINGS, "openai_previous_response_id": "auto"})
    first = await agent.run("My name is Ada.")
    second = await agent.run("Who am I?", message_history=first.all_messages())
    assert second.output
    assert second.usage.cache_read_tokens > 0


async def check_stream() -> None:
    async with Agent(RESPONSES, model_settings=SETTINGS).run_stream("Say hello.") as made:
        parts = [part async for part in made.stream_text()]
    assert parts[-1]


if __name__ == "__main__":
    run_checks(globals())
