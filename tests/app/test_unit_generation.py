"""The generation service: acceptance, cancellation and ends, on outputs that generate nothing."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack, ExitStack, contextmanager
from contextvars import copy_context
from dataclasses import replace
from typing import Any

import pytest

from llmserve import GenerationError, QueueFullError, Tenant
from llmserve.server.generation import Call, GenerationService
from llmserve.server.generation.admission import Admission
from llmserve.server.generation.deadlines import Deadlines, TimeLimit, TimeLimits
from llmserve.server.lifecycle import Lifecycle
from llmserve.server.metrics import Ended, RequestMetrics
from llmserve.server.metrics.requests import (
    DECODE,
    FIRST_TOKEN,
    GAP,
    GENERATION_TOKENS,
    PREFILL,
    PROMPT_TOKENS,
    QUEUE,
    WHOLE,
)
from llmserve.server.models import SessionTable
from llmserve.server.refusals import CallCancelledError, GenerationTimeoutError, ServerStoppingError
from llmserve.server.trust.tenants import serve_as
from llmserve.server.web.request_log import logged
from llmserve.types import Timings, Usage


class Fake:
    """Anything with some attributes."""

    def __init__(self, **fields: Any) -> None:
        self.__dict__.update(fields)


class Output:
    """Is accepted, refused or aborted when a test says so."""

    def __init__(self, refusal: Exception | None = None, *, is_accepted: bool = True) -> None:
        self._refusal = refusal
        self._settled = asyncio.Event()
        self.is_aborted = False
        self.is_closed = False
        self.end: Ended | None = None
        self.on_output: Callable[[], object] | None = None
        if is_accepted or refusal is not None:
            self._settled.set()

    async def accepted(self) -> int:
        await self._settled.wait()
        if self._refusal is not None:
            raise self._refusal
        return 1

    def abort(self) -> None:
        self.is_aborted = True
        self._settled.set()

    async def aclose(self) -> None:
        self.is_closed = True

    @property
    def ended(self) -> Ended | None:
        return self.end

    def observe(self, on_output: Callable[[], object]) -> None:
        self.on_output = on_output


class World:
    """The service over a model that is always loaded."""

    def __init__(self, patience_s: float = math.inf) -> None:
        self.lifecycle = Lifecycle()
        self.sessions = SessionTable(math.inf, 10)
        self.metrics = RequestMetrics()
        engine = Fake(session=lambda: Fake(is_templated=False))
        config = Fake(max_queued_requests=1)
        self.model: Any = Fake(engine=engine, config=config, id="model", path="path", num_uses=0)
        self.service = GenerationService(
            self,  # type: ignore[arg-type]
            self.sessions,
            self.lifecycle,
            self.metrics,
            patience_s,
        )

    @contextmanager
    def use_model(self, model: Any) -> Iterator[Any]:
        model.num_uses += 1
        try:
            yield model.engine
        finally:
            model.num_uses -= 1

    def call(self, *outputs: Output, **fields: Any) -> Call[Output]:
        async def start(output: Output) -> Output:
            return output

        starts = [lambda engine, call, output=output: start(output) for output in outputs]
        return Call(dialect="test", model=self.model, starts=starts, **{"is_stream": False, **fields})


def test_outputs_end_with_the_context() -> None:
    async def scenario() -> None:
        world = World()
        outputs = Output(), Output()
        async with world.service.run(world.call(*outputs)) as run:
            assert list(await run.outputs()) == list(outputs)
            assert world.model.num_uses == 1
            assert not any(output.is_closed for output in outputs)
        assert all(output.is_closed for output in outputs)
        assert world.model.num_uses == 0

    asyncio.run(scenario())


def test_the_refusal_of_one_output_ends_all() -> None:
    async def scenario() -> None:
        world = World()
        outputs = Output(), Output(QueueFullError("full"))
        with pytest.raises(QueueFullError):
            async with world.service.run(world.call(*outputs)):
                pass
        assert all(output.is_closed for output in outputs)

    asyncio.run(scenario())


def test_the_head_of_a_stream_does_not_wait_for_long() -> None:
    async def scenario() -> None:
        world = World(patience_s=0)
        async with world.service.run(world.call(Output(is_accepted=False), is_stream=True)) as run:
            assert not (await run.output()).is_aborted

    asyncio.run(scenario())


def test_the_servers_stop_ends_what_waits_for_acceptance() -> None:
    async def scenario() -> None:
        world = World()
        output = Output(is_accepted=False)
        asyncio.get_running_loop().call_soon(world.lifecycle.stop)
        with pytest.raises(ServerStoppingError):
            async with world.service.run(world.call(output)):
                pass
        assert output.is_aborted

    asyncio.run(scenario())


def test_other_callers_of_a_session_end_what_runs_in_it() -> None:
    async def scenario() -> None:
        world = World()
        output = Output()
        async with world.service.run(world.call(output, session="s")) as run:
            was_cancelled = run.is_cancelled
            world.sessions.cancel("s", "other", world.model)
            assert (was_cancelled, run.is_cancelled) == (False, True)
            assert output.is_aborted
            run.check_end("stop", CallCancelledError)
            run.check_end("cancelled")
            with pytest.raises(CallCancelledError):
                run.check_end("cancelled", CallCancelledError)
            world.lifecycle.stop()
            with pytest.raises(ServerStoppingError):
                run.check_end("cancelled")

    asyncio.run(scenario())


@pytest.mark.parametrize("holds_session", [False, True])
def test_a_session_is_held_until_the_submission_or_the_end(holds_session: bool) -> None:
    async def scenario() -> None:
        world = World()
        first = world.call(Output(), session="s", holds_session=holds_session)
        second = world.call(Output(), session="s")
        has_begun = asyncio.Event()

        async def run_second() -> None:
            async with world.service.run(second):
                has_begun.set()

        async with world.service.run(first):
            task = asyncio.create_task(run_second())
            await settle()
            assert has_begun.is_set() is not holds_session
        await task

    asyncio.run(scenario())


@pytest.fixture
def world_of_streams() -> World:
    """Heads of streams wait for nothing."""
    return World(patience_s=0)


async def settle() -> None:
    """Lets all tasks go on as far as they can."""
    for _ in range(20):
        await asyncio.sleep(0)


def test_the_head_of_a_stream_does_not_wait_for_the_turn_of_its_session(world_of_streams: World) -> None:
    async def scenario() -> None:
        world = world_of_streams
        first = world.call(Output(), session="s", holds_session=True)
        outputs = Output(), Output()
        streams = [world.call(output, session="s", is_stream=True) for output in outputs]
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(world.service.run(first))
            # Their heads could go out now, and neither loses its turn.
            runs = [await stack.enter_async_context(world.service.run(stream)) for stream in streams]
            waiting = [asyncio.create_task(run.output()) for run in runs]
            await settle()
            assert not any(task.done() for task in waiting)
            world.sessions.cancel("s", "test", None)
            assert [await task for task in waiting] == list(outputs)

    asyncio.run(scenario())


def test_a_refusal_after_the_turn_of_a_session_comes_with_the_outputs(world_of_streams: World) -> None:
    async def refuse(engine: Any, call: Any) -> Output:
        raise QueueFullError("full")

    async def scenario() -> None:
        world = world_of_streams
        stream = replace(world.call(session="s", is_stream=True), starts=[refuse])
        async with AsyncExitStack() as stack:
            first = world.service.run(world.call(Output(), session="s", holds_session=True))
            await first.__aenter__()
            run = await stack.enter_async_context(world.service.run(stream))
            await first.__aexit__(None, None, None)
            with pytest.raises(QueueFullError):
                await run.output()

    asyncio.run(scenario())


def test_a_refusal_in_time_has_a_status_though_the_session_was_waited_for() -> None:
    async def scenario() -> None:
        world = World()
        refused = world.call(Output(QueueFullError("full")), session="s", is_stream=True)

        async def run_refused() -> None:
            async with world.service.run(refused):
                pass

        async with world.service.run(world.call(Output(), session="s", holds_session=True)):
            task = asyncio.create_task(run_refused())
            await settle()
        with pytest.raises(QueueFullError):
            await task

    asyncio.run(scenario())


@pytest.mark.parametrize("is_stream", [False, True])
def test_time_limits_pass_while_a_call_waits_for_its_turn(is_stream: bool, world_of_streams: World) -> None:
    async def scenario() -> None:
        world = world_of_streams
        deadlines = Deadlines(TimeLimits(overall=TimeLimit("overall", 0.01)))
        late = world.call(Output(), session="s", is_stream=is_stream, deadlines=deadlines)
        async with world.service.run(world.call(Output(), session="s", holds_session=True)):
            with pytest.raises(GenerationTimeoutError, match="overall"):
                async with world.service.run(late) as run:
                    await run.output()

    asyncio.run(scenario())


def test_a_stream_that_leaves_while_it_waits_leaves_the_turn_to_the_next(world_of_streams: World) -> None:
    async def scenario() -> None:
        world = world_of_streams
        left, next_one = (world.call(Output(), session="s", is_stream=True) for _ in range(2))
        async with AsyncExitStack() as stack:
            async with world.service.run(world.call(Output(), session="s", holds_session=True)):
                async with world.service.run(left):
                    pass
                run = await stack.enter_async_context(world.service.run(next_one))
            assert not (await run.output()).is_aborted
        assert world.model.num_uses == 0

    asyncio.run(scenario())


def test_the_stop_ends_a_stream_that_waits_for_its_turn(world_of_streams: World) -> None:
    async def scenario() -> None:
        world = world_of_streams
        waiting = world.call(Output(), session="s", is_stream=True)
        first = world.call(Output(), session="s", holds_session=True)
        async with world.service.run(first), world.service.run(waiting) as run:
            world.lifecycle.stop()
            assert (await run.output()).is_aborted
            with pytest.raises(ServerStoppingError):
                run.check_end("cancelled")

    asyncio.run(scenario())


def test_only_so_many_conversations_are_prepared_at_once() -> None:
    admission = Admission()
    model: Any = Fake(config=Fake(max_queued_requests=1))
    other: Any = Fake(config=Fake(max_queued_requests=1))
    with admission.place(model):
        with pytest.raises(QueueFullError, match="1 requests are being prepared"), admission.place(model):
            pass
        with admission.place(other):
            pass
    with admission.place(model):
        pass


def test_each_tenant_finds_a_share_of_the_places() -> None:
    admission = Admission()
    model: Any = Fake(config=Fake(max_queued_requests=4))

    def num_taken(tenant: str) -> int:
        serve_as(Tenant(tenant))
        for number in range(9):
            try:
                places.enter_context(admission.place(model))
            except QueueFullError:
                return number
        return 9

    with ExitStack() as places:
        taken = [copy_context().run(num_taken, tenant) for tenant in ("flood", "newcomer", "flood", "third")]
        assert taken == [4, 2, 0, 1]
    with admission.place(model):
        pass


def test_the_log_is_told_what_a_call_used_and_how_it_ended(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        world = World()
        outputs = [Output() for _ in range(3)]
        for output, prompt_tokens in zip(outputs, (5, 5, 7), strict=True):
            usage = Usage(prompt_tokens=prompt_tokens, completion_tokens=10)
            output.end = Fake(usage=usage, timings=Timings(), finish_reason="stop")  # type: ignore[assignment]
        call = world.call(*outputs, prompts=["a", "a", "b"])
        with logged("POST", "/path", lambda: 200):
            async with world.service.run(call):
                pass
        with logged("POST", "/path", lambda: 499), pytest.raises(asyncio.CancelledError):
            async with world.service.run(world.call(Output())):
                raise asyncio.CancelledError
        with logged("POST", "/path", lambda: 500), pytest.raises(GenerationError):
            async with world.service.run(world.call(Output())):
                raise GenerationError("broken")

    with caplog.at_level(logging.INFO, "llmserve.requests"):
        asyncio.run(scenario())
    fields = [record.__dict__["fields"] for record in caplog.records if record.name == "llmserve.requests"]
    for record in fields:
        assert record.pop("seconds") >= 0
    start = {"method": "POST", "path": "/path", "model": "model"}
    # Choices of one prompt share its tokens.
    tokens = {"tokens_in": 12, "tokens_out": 30}
    assert fields == [
        {**start, "status": 200, **tokens, "finish_reason": "stop"},
        {**start, "status": 499, "finish_reason": "cancelled"},
        {**start, "status": 500, "finish_reason": "error"},
    ]


def values_of(world: World, kind: str) -> list[str]:
    """The sum of a histogram and the number of its values."""
    lines = list(world.metrics.lines(kind))[2:]
    assert all('model="model",dialect="test"' in line for line in lines)
    return [line.rsplit(" ", 1)[1] for line in lines if "_bucket" not in line]


def test_a_stream_is_measured_as_it_comes_and_at_its_end() -> None:
    async def scenario() -> None:
        world, output = World(), Output()
        async with world.service.run(world.call(output, is_stream=True)):
            assert output.on_output is not None
            for _ in range(3):
                output.on_output()
            output.end = Fake(  # type: ignore[assignment]
                usage=Usage(prompt_tokens=7, completion_tokens=5),
                finish_reason="stop",
                timings=Timings(queue_s=1, prefill_s=2, decode_s=4, time_to_first_token_s=3),
            )
        # Each kind has its sum and its number of values. The first token was measured when it came.
        assert [values_of(world, kind)[1] for kind in (FIRST_TOKEN, GAP)] == ["1", "2"]
        assert float(values_of(world, FIRST_TOKEN)[0]) < 3
        sums = {QUEUE: 1, PREFILL: 2, DECODE: 4, WHOLE: 7, PROMPT_TOKENS: 7, GENERATION_TOKENS: 5}
        for kind, total in sums.items():
            assert values_of(world, kind) == [repr(float(total)), "1"]

    asyncio.run(scenario())


def test_an_output_that_comes_as_a_whole_has_the_times_of_the_engine() -> None:
    async def scenario() -> None:
        world, output = World(), Output()
        async with world.service.run(world.call(output)):
            assert output.on_output is None
            output.end = Fake(  # type: ignore[assignment]
                usage=Usage(prompt_tokens=7, completion_tokens=1),
                finish_reason="stop",
                timings=Timings(time_to_first_token_s=3),
            )
        assert values_of(world, FIRST_TOKEN) == ["3.0", "1"]
        assert values_of(world, GAP) == ["0.0", "0"]

    asyncio.run(scenario())


def test_what_ends_before_its_first_token_has_only_waited() -> None:
    async def scenario() -> None:
        world, outputs = World(), [Output(), Output()]
        async with world.service.run(world.call(*outputs)):
            # The other one is given up before its end is known.
            outputs[0].end = Fake(
                usage=Usage(prompt_tokens=7), finish_reason="cancelled", timings=Timings(queue_s=1)
            )  # type: ignore[assignment]
        assert values_of(world, QUEUE) == ["1.0", "1"]
        assert [values_of(world, kind)[1] for kind in (FIRST_TOKEN, PREFILL, DECODE)] == ["0", "0", "0"]

    asyncio.run(scenario())
