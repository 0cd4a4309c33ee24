"""Other clients of the OpenAI API, as they come. Heavy: each is skipped where it is missing."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from serving import ServerProcess

MODEL = "SmolLM2-135M-Instruct.Q4_1"


def run_client(package: str, program: str, server: ServerProcess) -> str:
    """Runs a program with the client in a process of its own: their warnings are not ours."""
    if importlib.util.find_spec(package) is None:
        pytest.skip(f"{package} is not installed")
    env = {**os.environ, "BASE": f"http://127.0.0.1:{server.port}/v1", "MODEL": MODEL}
    env |= {"LITELLM_LOCAL_MODEL_COST_MAP": "True", "LANGSMITH_TRACING": "false"}
    done = subprocess.run(
        [sys.executable, "-c", program], env=env, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


LANGCHAIN = """
import os
from langchain_openai import ChatOpenAI, OpenAI
from pydantic import BaseModel

class Weather(BaseModel):
    '''The weather of a city.'''
    city: str

base = {"base_url": os.environ["BASE"], "api_key": "none", "model": os.environ["MODEL"], "temperature": 0}
for use_responses in (False, True):
    chat = ChatOpenAI(**base, max_tokens=40, use_responses_api=use_responses)
    whole = chat.invoke("Say hello").text
    assert "".join(chunk.text for chunk in chat.stream("Say hello")) == whole
    for method in ("json_schema", "function_calling"):
        made = chat.with_structured_output(Weather, method=method).invoke("Weather in Paris")
        assert isinstance(made, Weather)
    (call,) = chat.bind_tools([Weather], tool_choice="any").invoke("Weather in Paris?").tool_calls
    assert list(call["args"]) == ["city"]
print(OpenAI(**base, max_tokens=2).invoke("The capital of France is"))
"""

LITELLM = """
import json, os
import litellm

base = {"api_base": os.environ["BASE"], "api_key": "none", "model": "openai/" + os.environ["MODEL"]}
base |= {"messages": [{"role": "user", "content": "Say hello"}], "temperature": 0, "max_tokens": 8}
whole = litellm.completion(**base).choices[0].message.content
parts = [chunk.choices[0].delta.content or "" for chunk in litellm.completion(**base, stream=True)]
assert "".join(parts) == whole, parts
schema = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
tool = {"type": "function", "function": {"name": "weather", "parameters": schema}}
base["max_tokens"] = 40
called = litellm.completion(**base, tools=[tool], tool_choice="required").choices[0].message.tool_calls
assert list(json.loads(called[0].function.arguments)) == ["city"]
print("done")
"""


def test_langchain(server: ServerProcess) -> None:
    assert run_client("langchain_openai", LANGCHAIN, server) == " Paris.\n"


def test_litellm(server: ServerProcess) -> None:
    assert run_client("litellm", LITELLM, server).endswith("done\n")


def test_llm(server: ServerProcess, tmp_path: Path) -> None:
    if importlib.util.find_spec("llm") is None:
        pytest.skip("llm is not installed")
    base = f"http://127.0.0.1:{server.port}/v1"
    lines = [f"- model_id: local\n  model_name: {MODEL}\n  api_base: {base}\n  supports_schema: true\n"]
    (tmp_path / "extra-openai-models.yaml").write_text("".join(lines))
    env = {**os.environ, "LLM_USER_PATH": str(tmp_path), "OPENAI_API_KEY": "none"}

    def ask(*arguments: str) -> str:
        command = [sys.executable, "-m", "llm", "-m", "local", "-o", "temperature", "0", *arguments]
        return subprocess.run(
            command, env=env, capture_output=True, text=True, check=True, timeout=300
        ).stdout

    streamed = ask("-o", "max_tokens", "8", "Say hello")
    assert streamed == ask("-o", "max_tokens", "8", "--no-stream", "Say hello")
    assert set(json.loads(ask("--schema", "name, age int", "Bob is 5"))) == {"name", "age"}
