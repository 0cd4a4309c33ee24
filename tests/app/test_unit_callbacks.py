"""A callback that fails keeps no other from being called."""

from __future__ import annotations

import asyncio
import logging
import math
from pathlib import Path
from typing import Any

import pytest

from llmserve import ModelConfig
from llmserve.server.apis.llamatik.state import Choice, ChosenModel
from llmserve.server.callbacks import call_all
from llmserve.server.models import Registry, SessionTable

CONFIG = ModelConfig(context_length=256, max_sequences=1, threads=1)


def fail(*arguments: object) -> None:
    raise RuntimeError("secret")


def test_all_are_called_and_failures_logged(caplog: pytest.LogCaptureFixture) -> None:
    called: list[int] = []
    callbacks = [called.append, fail, called.append]
    call_all(logging.getLogger("test"), "it failed", callbacks, 3)
    assert called == [3, 3]
    assert [(record.message, record.exc_info is not None) for record in caplog.records] == [
        ("it failed", True)
    ]


def test_a_callback_may_remove_itself() -> None:
    callbacks: list[Any] = []
    called: list[str] = []
    callbacks += [lambda: callbacks.pop(0), lambda: called.append("second")]
    call_all(logging.getLogger("test"), "it failed", callbacks)
    assert called == ["second"]


def test_models_come_and_go_whatever_their_callbacks_do(tiny_model: Path) -> None:
    async def main() -> None:
        registry = Registry(CONFIG)
        seen: list[str] = []
        registry.on_ready += [fail, lambda model: seen.append(f"{model.id} is ready")]
        registry.on_retire += [fail, lambda model: seen.append(f"{model.id} goes")]
        with registry.load(tiny_model, "a") as ticket:
            await asyncio.wait_for(ticket.wait(), 60)
        registry.unpin(tiny_model, "a")
        assert seen == ["llama is ready", "llama goes"]
        assert registry.models == ()
        await registry.close()

    asyncio.run(main())


def test_a_generation_model_is_given_back_whatever_its_callbacks_do(tiny_model: Path) -> None:
    async def main() -> None:
        registry = Registry(CONFIG)
        model = ChosenModel(registry, "test")
        seen: list[Choice | None] = []
        model.on_adopt += [fail, seen.append]
        await model.init(tiny_model, lambda: CONFIG)
        model.shutdown()
        assert seen == [None]
        assert registry.models == ()
        await registry.close()

    asyncio.run(main())


def test_a_call_that_cannot_be_cancelled_keeps_no_other_from_it() -> None:
    class Running:
        def __init__(self) -> None:
            self.is_aborted = False

        def abort(self) -> None:
            self.is_aborted = True
            raise RuntimeError("secret")

    class Loaded:
        path = Path("model")

        class engine:  # noqa: N801 - an attribute of a model
            session = object

    async def main() -> None:
        model: Any = Loaded()
        sessions = SessionTable(math.inf, 10)
        every = [Running(), Running()]
        with (
            sessions.call(model, "s", "test", goes_on=False) as first,
            sessions.call(model, "s", "test", goes_on=False) as second,
        ):
            first.attach(every[0])
            second.attach(every[1])
            sessions.cancel("s", "test", model)
        assert all(running.is_aborted for running in every)

    asyncio.run(main())
