"""What users of `openai-agents` do. Runs in an environment that has it (see `checks`)."""

from __future__ import annotations

import os
from typing import Any, Literal

from agents import (
    Agent,
    ModelSettings,
    OpenAIChatCompletionsModel,
    OpenAIConversationsSession,
    Runner,
    SQLiteSession,
    function_tool,
    set_default_openai_client,
    set_tracing_disabled,
)
from openai import AsyncOpenAI
from pydantic import BaseModel

from clients.checks import run_checks

MODEL = os.environ["MODEL"]
CLIENT = AsyncOpenAI(base_url=os.environ["BASE"], api_key=os.environ["KEY"], max_retries=0)
set_default_openai_client(CLIENT, use_for_tracing=False)
set_tracing_disabled(True)


class City(BaseModel):
    """A city."""

    name: Literal["Paris", "Rome"]


@function_tool
def weather(city: Literal["Paris"]) -> str:
    """Finds the weather of a city."""
    return f"sunny in {city}"


def agent(model: Any = MODEL, *, must_call: bool = False, **fields: Any) -> Agent[Any]:
    settings = ModelSettings(
        max_tokens=200,
        temperature=0,
        tool_choice="required" if must_call else None,
        store=True,
        # A run fails where the token limit cuts its answer.
        extra_body={"stop": [".", "!", "?"], "include_stop_str_in_output": True},
    )
    return Agent(name="a", instructions="Be brief.", model=model, model_settings=settings, **fields)


async def check_run() -> None:
    assert (await Runner.run(agent(), "Say hello.")).final_output


async def check_previous_response() -> None:
    first = await Runner.run(agent(), "My name is Ada.")
    second = await Runner.run(agent(), "Who am I?", previous_response_id=first.last_response_id)
    assert second.final_output
    first_usage, second_usage = first.context_wrapper.usage, second.context_wrapper.usage
    assert second_usage.input_tokens > first_usage.input_tokens
    assert second_usage.input_tokens_details.cached_tokens > 0


async def check_tool() -> None:
    caller = agent(must_call=True, tools=[weather], tool_use_behavior="stop_on_first_tool")
    made = await Runner.run(caller, "Weather in Paris?", auto_previous_response_id=True)
    assert made.final_output == "sunny in Paris"


async def check_typed_output() -> None:
    made = await Runner.run(agent(output_type=City), "Name a city.")
    assert isinstance(made.final_output, City)


async def check_stream() -> None:
    made = Runner.run_streamed(agent(), "Say hello.")
    kinds = [event.type async for event in made.stream_events()]
    assert "raw_response_event" in kinds
    assert made.final_output


async def check_session() -> None:
    session = SQLiteSession("a")
    await Runner.run(agent(), "My name is Ada.", session=session)
    assert (await Runner.run(agent(), "Who am I?", session=session)).final_output


async def check_session_on_the_server() -> None:
    session = OpenAIConversationsSession(openai_client=CLIENT)
    await Runner.run(agent(), "My name is Ada.", session=session)
    assert (await Runner.run(agent(), "Who am I?", session=session)).final_output
    assert len(await session.get_items()) == 4
    await session.clear_session()


async def check_chat_model() -> None:
    model = OpenAIChatCompletionsModel(MODEL, openai_client=CLIENT)
    assert (await Runner.run(agent(model, tools=[weather]), "Say hello.")).final_output


if __name__ == "__main__":
    run_checks(globals())
