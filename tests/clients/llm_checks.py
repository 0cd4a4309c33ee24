"""What users of `llm` do, on its command line and from Python. Runs in an environment that has it (see
`checks`); `LLM_USER_PATH` has an `extra-openai-models.yaml` and `keys.json`."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import llm
import openai
from pydantic import BaseModel, Field

from clients.checks import raised, run_checks

SHORT = ["-o", "temperature", "0", "-o", "max_tokens", "8"]


class Person(BaseModel):
    name: str = Field(max_length=20)
    age: int


def run(*arguments: str, model: str = "local") -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "llm", "prompt", "-m", model]
    return subprocess.run([*command, *arguments], capture_output=True, text=True, timeout=300)


def cli(*arguments: str, model: str = "local") -> str:
    made = run(*arguments, model=model)
    assert made.returncode == 0, made.stderr
    return made.stdout


def ask(text: str, model: str = "local", **settings: Any) -> Any:
    options = {"temperature": 0, "max_tokens": 8, **settings}
    return llm.get_model(model).prompt(text, **options)


def check_the_command_line() -> None:
    streamed = cli(*SHORT, "Say hello")
    assert streamed.strip()
    assert streamed == cli(*SHORT, "--no-stream", "Say hello")
    assert cli(*SHORT, "-s", "Be brief.", "Say hello").strip()
    assert "input" in run(*SHORT, "--usage", "Say hello").stderr


def check_a_conversation_on_the_command_line() -> None:
    cli(*SHORT, "Say hello")
    assert cli(*SHORT, "--continue", "Say it again").strip()


def check_a_schema_on_the_command_line() -> None:
    assert set(json.loads(cli("-o", "temperature", "0", "--schema", "name, age int", "Bob is 5"))) == {
        "name",
        "age",
    }


def check_a_prompt() -> None:
    whole = ask("Say hello", stream=False)
    response = ask("Say hello")
    assert "".join(response) == whole.text()
    assert response.usage().output <= 8
    assert response.usage().input == whole.usage().input


async def check_async() -> None:
    model = llm.get_async_model("local")
    response = await model.prompt("Say hello", temperature=0, max_tokens=8)
    assert await response.text() == ask("Say hello").text()


def check_a_conversation() -> None:
    conversation = llm.get_model("local").conversation()
    options = {"temperature": 0, "max_tokens": 8}
    first = conversation.prompt("Say hello", **options)
    assert first.text()
    second = conversation.prompt("Say it again", **options)
    assert second.text()
    assert second.usage().input > first.usage().input


def check_a_schema() -> None:
    Person.model_validate_json(ask("Bob is 5", schema=Person, max_tokens=60).text())


def check_tools() -> None:
    def weather(city: str) -> str:
        """Finds the weather of a city."""
        return f"12 degrees in {city}"

    chain = (
        llm.get_model("local")
        .conversation()
        .chain(
            "Weather in Paris?",
            tools=[weather],
            options={"temperature": 0, "max_tokens": 60},
        )
    )
    assert chain.text()


def check_a_raw_prompt() -> None:
    assert (
        cli(
            "-o", "temperature", "0", "-o", "max_tokens", "2", "The capital of France is", model="raw"
        ).strip()
        == "Paris."
    )


def check_errors() -> None:
    assert "2048 tokens" in str(raised(openai.BadRequestError, lambda: ask("word " * 3000).text()))
    raised(openai.NotFoundError, lambda: ask("Say hello", model="unknown").text())
    raised(openai.AuthenticationError, lambda: ask("Say hello", model="locked").text())
    made = run("Say hello", model="unknown")
    assert made.returncode == 1
    assert "none" in made.stderr


if __name__ == "__main__":
    run_checks(globals())
