"""What users of `openai` do with stored responses. Runs in an environment that has it (see `checks`)."""

from __future__ import annotations

import os
from typing import Any, cast

import openai
from openai import AsyncOpenAI, OpenAI
from openai.types.responses import Response, ResponseOutputMessage

from clients.checks import raised, run_checks

MODEL = os.environ["MODEL"]
CONNECTION: dict[str, Any] = {
    "base_url": os.environ["BASE"],
    "api_key": os.environ["KEY"],
    "max_retries": 0,
}
CLIENT = OpenAI(**CONNECTION)
SHORT: dict[str, Any] = {"model": MODEL, "temperature": 0, "max_output_tokens": 8}
LONG: dict[str, Any] = {
    **SHORT,
    "input": "Tell me a story.",
    "max_output_tokens": 1500,
    "extra_body": {"ignore_eos": True},
}
TOOL: Any = {
    "type": "function",
    "name": "weather",
    "strict": True,
    "parameters": {
        "type": "object",
        "properties": {"city": {"enum": ["Paris"]}},
        "required": ["city"],
        "additionalProperties": False,
    },
}


def ended(response: Response) -> Response:
    """Polls a response as OpenAI's guide does."""
    while response.status in ("queued", "in_progress"):
        response = CLIENT.responses.retrieve(response.id)
    return response


def text_of(item: Any) -> str:
    part: Any = cast("ResponseOutputMessage", item).content[0]
    text: str = part.text
    return text


def check_conversation_by_previous_response() -> None:
    first = CLIENT.responses.create(**SHORT, input="My name is Ada.", instructions="Be brief.")
    second = CLIENT.responses.create(**SHORT, input="What is my name?", previous_response_id=first.id)
    assert second.previous_response_id == first.id
    assert first.usage is not None
    assert second.usage is not None
    assert second.usage.input_tokens > first.usage.input_tokens
    # What is stored is found in the prefix cache, behind the instructions.
    third = CLIENT.responses.create(**SHORT, input="And now?", previous_response_id=second.id)
    assert third.usage is not None
    assert third.usage.input_tokens_details.cached_tokens >= second.usage.input_tokens - 8
    items = list(CLIENT.responses.input_items.list(third.id, order="asc", limit=2))
    texts = [text_of(item) for item in items]
    assert texts == [
        "My name is Ada.",
        first.output_text,
        "What is my name?",
        second.output_text,
        "And now?",
    ], texts


def check_tools_by_previous_response() -> None:
    first = CLIENT.responses.create(
        **{**SHORT, "max_output_tokens": 64}, input="Weather in Paris?", tools=[TOOL], tool_choice="required"
    )
    (call,) = [item for item in first.output if item.type == "function_call"][:1]
    result: Any = {"type": "function_call_output", "call_id": call.call_id, "output": "sunny"}
    second = CLIENT.responses.create(**SHORT, input=[result], previous_response_id=first.id)
    assert second.output_text


def check_retrieve_and_delete() -> None:
    made = CLIENT.responses.create(**SHORT, input="Say hello.", metadata={"topic": "demo"})
    found = CLIENT.responses.retrieve(made.id)
    assert found == made
    assert found.metadata == {"topic": "demo"}
    CLIENT.responses.delete(made.id)
    error = raised(openai.NotFoundError, lambda: CLIENT.responses.retrieve(made.id))
    assert f"Response with id '{made.id}' not found." in error.message
    refused = raised(
        openai.BadRequestError,
        lambda: CLIENT.responses.create(**SHORT, input="x", previous_response_id=made.id),
    )
    assert (refused.code, refused.param) == ("previous_response_not_found", "previous_response_id")


def check_store_false() -> None:
    made = CLIENT.responses.create(**SHORT, input="Say hello.", store=False)
    raised(openai.NotFoundError, lambda: CLIENT.responses.retrieve(made.id))


def check_background() -> None:
    made = CLIENT.responses.create(**SHORT, input="Say hello.", background=True)
    response = ended(made)
    assert response.status in ("completed", "incomplete"), response
    assert response.output_text


def check_cancel_in_the_background() -> None:
    made = CLIENT.responses.create(**LONG, background=True)
    cancelled = CLIENT.responses.cancel(made.id)
    assert cancelled.status == "cancelled"
    assert CLIENT.responses.cancel(made.id) == cancelled
    whole = CLIENT.responses.create(**SHORT, input="Say hello.")
    raised(openai.BadRequestError, lambda: CLIENT.responses.cancel(whole.id))


def check_stream_that_is_resumed() -> None:
    stream = CLIENT.responses.create(
        **{**SHORT, "max_output_tokens": 24}, input="Tell me a story.", background=True, stream=True
    )
    first = []
    with stream:
        for event in stream:
            first.append(event)
            if event.type == "response.output_text.delta":
                break  # the connection is lost
    (created, *_) = first
    assert created.type == "response.created"
    rest = list(
        CLIENT.responses.retrieve(created.response.id, stream=True, starting_after=first[-1].sequence_number)
    )
    numbers = [event.sequence_number for event in (*first, *rest)]
    assert numbers == list(range(len(numbers)))
    last = rest[-1]
    assert last.type in ("response.completed", "response.incomplete")
    deltas = [e.delta for e in (*first, *rest) if e.type == "response.output_text.delta"]
    assert "".join(deltas) == CLIENT.responses.retrieve(created.response.id).output_text


def check_stream_helper_continues() -> None:
    first = CLIENT.responses.create(**SHORT, input="My name is Ada.")
    with CLIENT.responses.stream(
        **SHORT, input="Who am I?", previous_response_id=first.id, extra_body={"stop": ["a", "e", "i", "o"]}
    ) as stream:
        for _ in stream:
            pass
        final = stream.get_final_response()
    assert final.previous_response_id == first.id


def check_input_tokens() -> None:
    count = CLIENT.responses.input_tokens.count(model=MODEL, input="Say hello.")
    made = CLIENT.responses.create(**SHORT, input="Say hello.")
    assert made.usage is not None
    assert count.input_tokens == made.usage.input_tokens


def check_conversations() -> None:
    conversation = CLIENT.conversations.create(metadata={"topic": "demo"})
    for said in ("My name is Ada.", "What is my name?"):
        answer = CLIENT.responses.create(**SHORT, input=said, conversation=conversation.id)
        assert answer.conversation is not None
        assert answer.conversation.id == conversation.id
    items = list(CLIENT.conversations.items.list(conversation.id, order="asc", limit=3))
    assert len(items) == 4
    CLIENT.conversations.items.delete(items[0].id or "", conversation_id=conversation.id)
    assert CLIENT.conversations.update(conversation.id, metadata={}).metadata == {}
    assert CLIENT.conversations.delete(conversation.id).deleted
    raised(openai.NotFoundError, lambda: CLIENT.conversations.retrieve(conversation.id))


async def check_asynchronous() -> None:
    async with AsyncOpenAI(**CONNECTION) as client:
        made = await client.responses.create(**LONG, background=True)
        assert (await client.responses.cancel(made.id)).status == "cancelled"
        await client.responses.delete(made.id)


def check_thinking_budget_is_taken() -> None:
    answer = CLIENT.chat.completions.create(
        model=MODEL,
        messages=[{"role": "user", "content": "Say hello."}],
        max_tokens=4,
        reasoning_effort="low",
        extra_body={"thinking_token_budget": 16},
    )
    assert answer.choices[0].message.content


if __name__ == "__main__":
    run_checks(globals())
