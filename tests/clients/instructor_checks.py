"""What users of `instructor` do. Runs in an environment that has it (see `checks`)."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any, Literal

import instructor
from openai import OpenAI
from pydantic import BaseModel

from clients.checks import run_checks

MODEL = os.environ["MODEL"]
CLIENT = OpenAI(base_url=os.environ["BASE"], api_key=os.environ["KEY"], max_retries=0)


class City(BaseModel):
    """A city."""

    name: Literal["Paris", "Rome"]
    people: Literal[1, 2]


def asked(mode: instructor.Mode, wanted: Any = City, **fields: Any) -> Any:
    client = instructor.from_openai(CLIENT, mode=mode)
    return client.chat.completions.create(
        model=MODEL,
        messages=[{"role": "user", "content": "Name a city."}],
        response_model=wanted,
        max_tokens=100,
        temperature=0,
        max_retries=0,
        **fields,
    )


def check_tools() -> None:
    assert isinstance(asked(instructor.Mode.TOOLS), City)


def check_strict_tools() -> None:
    assert isinstance(asked(instructor.Mode.TOOLS_STRICT), City)


def check_json_schema() -> None:
    assert isinstance(asked(instructor.Mode.JSON_SCHEMA), City)


def check_responses() -> None:
    assert isinstance(asked(instructor.Mode.RESPONSES_TOOLS), City)


def check_partial() -> None:
    parts = list(asked(instructor.Mode.TOOLS, instructor.Partial[City], stream=True))
    City.model_validate(parts[-1].model_dump())


def check_iterable() -> None:
    for city in asked(instructor.Mode.TOOLS, Iterable[City], stream=True):
        assert isinstance(city, City)


if __name__ == "__main__":
    run_checks(globals())
