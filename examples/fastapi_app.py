"""A FastAPI application with the engine in its own process.

    MODEL=model.gguf uvicorn fastapi_app:app
    curl -N http://127.0.0.1:8000/poem?topic=rain
    curl http://127.0.0.1:8000/cities/Paris

It needs `pip install llmserve fastapi uvicorn`.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated

from fastapi import Depends, FastAPI, HTTPException, Request
from fastapi.responses import StreamingResponse
from pydantic import BaseModel, Field

import llmserve


class City(BaseModel):
    """What the model says about a city."""

    country: str = Field(max_length=40)
    is_capital: bool


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    """Loads the model before the first request, and frees it after the last."""
    async with llmserve.Engine.load(os.environ["MODEL"], context_length=2048) as engine:
        app.state.engine = engine
        yield


app = FastAPI(lifespan=lifespan)


def loaded_engine(request: Request) -> llmserve.Engine:
    """The engine of this application."""
    engine: llmserve.Engine = request.app.state.engine
    return engine


Engine = Annotated[llmserve.Engine, Depends(loaded_engine)]


@app.get("/poem")
async def poem(topic: str, engine: Engine) -> StreamingResponse:
    """Streams a poem. A client that leaves ends its generation."""
    messages = [{"role": "user", "content": f"Write a short poem about {topic}."}]
    try:
        stream = await engine.chat_stream(messages, max_tokens=80, temperature=0.7)
        await stream.accepted()  # refusals come before the answer's status
    except llmserve.QueueFullError as error:
        raise HTTPException(503, str(error)) from error

    async def texts() -> AsyncIterator[str]:
        async with stream:
            async for delta in stream:
                yield delta.text

    return StreamingResponse(texts(), media_type="text/plain")


@app.get("/cities/{name}")
async def city(name: str, engine: Engine) -> City:
    """An answer that always has the fields of `City`."""
    prompt = await engine.chat_prompt([{"role": "user", "content": f"Describe the city {name} as JSON."}])
    described: City = await engine.generate_json(prompt, City, max_tokens=100, temperature=0)
    return described
