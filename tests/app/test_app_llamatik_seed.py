"""Every example of the document of `/v1/generation`, in its order: shape and meaning."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from serving import Llamatik, Server, serve_in_process
from serving.llamatik import joined

pytestmark = [pytest.mark.model, pytest.mark.slow]

SCHEMA = '{"type":"object","properties":{"city":{"type":"string"},"country":{"type":"string"}}}'
NO_HEAD = "the model has no head for multi-token prediction (MTP) that can draft"
PARAMS = {
    "temperature": 0.7,
    "maxTokens": 512,
    "topP": 0.95,
    "topK": 40,
    "repeatPenalty": 1.1,
    "contextLength": 4096,
    "numThreads": 1,  # the example says 4, which the machines of tests do not have
    "useMmap": True,
    "flashAttention": False,
    "batchSize": 512,
    "gpuLayers": 0,
}


@pytest.fixture(scope="module")
def running(model_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serve_in_process(tmp_path_factory.mktemp("server"), model_path) as running:
        yield running


def is_document(text: str) -> bool:
    value = json.loads(text)
    return isinstance(value, dict) and all(
        isinstance(value.get(name, ""), str) for name in ("city", "country")
    )


def check_whole(answer: dict[str, Any]) -> str:
    assert set(answer) == {"text", "finishReason", "usage", "timings"}
    assert answer["finishReason"] in ("stop", "length")
    text: str = answer["text"]
    return text


def check_stream(made: list[dict[str, Any]]) -> str:
    text = joined(made)
    assert set(made[-1]) == {"event", "finishReason", "usage", "timings"}
    assert made[-1]["finishReason"] in ("stop", "length")
    assert len(made) > 2
    return text


def test_the_document_from_top_to_bottom(running: Server, model_path: Path) -> None:
    api = Llamatik(running)
    # Initialize
    api.ok("init", {"modelPath": str(model_path)})
    limit = {"maxTokens": 20, "seed": 1}  # so that the walk takes seconds
    # Text generation
    assert check_whole(api.whole("generate", prompt="Explain Kotlin Multiplatform in one sentence.", **limit))
    context = {
        "systemPrompt": "You are a concise assistant.",
        "contextBlock": "The user is building a KMP app.",
        "userPrompt": "Which Kotlin libraries should I use?",
    }
    assert check_whole(api.whole("generateWithContext", **context, **limit))
    prompt = "Extract city and country from: I live in Barcelona, Spain."
    whole = check_whole(api.whole("generateJson", prompt=prompt, jsonSchema=SCHEMA, **limit))
    assert is_document(whole)
    extract = {"systemPrompt": "Extract structured data.", "contextBlock": "", "userPrompt": "Paris, France."}
    assert is_document(
        check_whole(api.whole("generateJsonWithContext", **extract, jsonSchema=SCHEMA, **limit))
    )
    answer = api.whole("continue", prompt="Now show a Kotlin code example.", **limit)
    check_whole(answer)
    assert answer["usage"]["cachedTokens"] > 0
    # Streaming
    assert check_stream(api.stream("stream", prompt="Stream a short poem.", **limit))
    bullets = {
        "systemPrompt": "You are concise.",
        "contextBlock": "",
        "userPrompt": "3 bullet points on coroutines.",
    }
    assert check_stream(api.stream("streamWithContext", **bullets, **limit))
    assert is_document(check_stream(api.stream("jsonStream", prompt=prompt, jsonSchema=SCHEMA, **limit)))
    streamed = api.stream("jsonStreamWithContext", **extract, jsonSchema=SCHEMA, **limit)
    assert is_document(check_stream(streamed))
    api.stream("streamWithContext", **bullets, **limit)
    made = api.stream("continueStream", prompt="Continue the story.", **limit)
    assert check_stream(made)
    assert made[-1]["usage"]["cachedTokens"] > 0


def test_parameters_sessions_and_the_rest(running: Server, model_path: Path, tmp_path: Path) -> None:
    api = Llamatik(running)
    api.ok("init", {"modelPath": str(model_path)})
    # Generation parameters
    api.ok("params", PARAMS)
    shown = api.get("params").json
    assert {name: shown[name] for name in PARAMS} == PARAMS
    api.ok("cancel")
    # KV session management
    api.ok("session/reset")
    first = api.text("generate", prompt="Once upon a time", maxTokens=8, temperature=0)
    path = str(tmp_path / "chat1.bin")
    api.ok("session/save", {"path": path})
    further = api.text("continue", prompt=" and then", maxTokens=8, temperature=0)
    api.ok("session/reset")
    api.ok("session/load", {"path": path})
    again = api.whole("continue", prompt=" and then", maxTokens=8, temperature=0)
    assert again["text"] == further
    assert first != ""
    # Model metadata
    assert api.get("model/finetuneType").json == {"finetuneType": "8k-lc100k-mix1-ep2"}
    template = api.get("model/chatTemplate").json
    assert set(template) == {"chatTemplate"}
    assert template["chatTemplate"].startswith("{% for message in messages %}")
    messages = [
        {"role": "system", "content": "You are a helpful assistant."},
        {"role": "user", "content": "What is Kotlin?"},
    ]
    turns = (
        "<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n"
        "<|im_start|>user\nWhat is Kotlin?<|im_end|>\n"
    )
    prefix = "<|im_start|>assistant\n"
    for more, rendered in (
        ({"addAssistantPrefix": True}, turns + prefix),
        ({}, turns + prefix),
        ({"addAssistantPrefix": False}, turns),
    ):
        answer = api.post("model/applyChatTemplate", {"messages": messages, **more})
        assert (answer.status, answer.json) == (200, {"prompt": rendered})
    # Multi-token prediction
    answer = api.post("mtp/init", {"modelPath": str(model_path), "draftLen": 3})
    assert (answer.status, answer.json) == (400, {"error": NO_HEAD})
    assert api.text("generate", prompt="Once upon a time", maxTokens=8, temperature=0) == first
    api.ok("mtp/shutdown")
    api.ok("shutdown")
    assert api.post("generate", {"prompt": "x"}).status == 409
