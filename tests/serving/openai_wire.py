"""Requests of the OpenAI dialect as its routes read them."""

from __future__ import annotations

from typing import Any

from llmserve.server.apis.openai.chat_schema import ChatRequest
from llmserve.server.apis.openai.completions_schema import OpenAiCompletionRequest
from llmserve.server.apis.openai.responses_schema import ResponsesRequest
from llmserve.server.web.schema import read

USER = {"role": "user", "content": "hi"}


def chat(**body: Any) -> ChatRequest:
    return read(ChatRequest, {"model": "m", "messages": [USER], **body}).value


def completion(**body: Any) -> OpenAiCompletionRequest:
    return read(OpenAiCompletionRequest, {"model": "m", "prompt": "p", **body}).value


def responses(**body: Any) -> ResponsesRequest:
    return read(ResponsesRequest, {"model": "m", "input": "hi", **body}).value
