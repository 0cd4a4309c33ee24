"""The table of named sessions, with real engines of a model that loads in milliseconds."""

from __future__ import annotations

import asyncio
import tracemalloc
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from llmserve import Engine, InvalidParameterError, ModelConfig
from llmserve.server.models import Model, Registry, SessionCall, SessionMoves, SessionTable
from llmserve.server.models.sessions import MAX_EXPIRED
from llmserve.server.refusals import SessionExpiredError, SessionsFullError
from synthetic import main_file

CONFIG = ModelConfig(context_length=512, max_sequences=2, threads=1)


@dataclass
class Clock:
    now: float = 0.0

    def __call__(self) -> float:
        return self.now


@dataclass
class World:
    registry: Registry
    table: SessionTable
    clock: Clock
    model: Model

    async def load(self, config: ModelConfig) -> Model:
        with self.registry.load(self.model.path, "test", config) as ticket:
            await ticket.wait()
        model = self.registry.find(self.model.path, config)
        assert model is not None
        return model

    def touch(self, name: str, *, goes_on: bool = False) -> object:
        """One call; what it was a call of."""
        with self.table.call(self.model, name, "test", goes_on=goes_on) as call:
            return call.named

    async def write(self, name: str, text: str, model: Model | None = None) -> None:
        model = model or self.model
        assert model.engine is not None
        with self.table.call(model, name, "test", goes_on=True) as call:
            async with call.submitting() as session:
                stream = model.engine.stream(text, max_tokens=3, session=session)
            async with stream:
                await stream.result()

    async def tokens(self, name: str, model: Model | None = None) -> list[int]:
        with self.table.call(model or self.model, name, "test", goes_on=True) as call:
            async with call.submitting() as session:
                return await session.tokens()


def run(path: Path, scenario: Callable[[World], Awaitable[None]]) -> None:
    async def main() -> None:
        registry, clock = Registry(CONFIG), Clock()
        table = SessionTable(100, 3, clock)
        registry.on_retire.append(table.forget_model)
        with registry.load(path, "test") as ticket:
            await ticket.wait()
        try:
            await scenario(World(registry, table, clock, registry.pick(path)))
        finally:
            await registry.close()
        assert len(table) == 0

    asyncio.run(main())


def test_a_name_is_one_session_until_it_was_idle_for_too_long(tiny_model: Path) -> None:
    async def scenario(world: World) -> None:
        first = world.touch("a")
        world.clock.now = 99
        assert world.touch("a", goes_on=True) is first
        world.clock.now = 198
        assert world.touch("a", goes_on=True) is first
        world.clock.now = 298
        with pytest.raises(SessionExpiredError):
            world.touch("a", goes_on=True)
        # Told once.
        assert world.touch("a", goes_on=True) is not first

    run(tiny_model, scenario)


def test_a_call_does_not_copy_the_table(tiny_model: Path) -> None:
    async def scenario(world: World) -> None:
        assert world.model.engine is not None
        table, session = SessionTable(100, 20_000, world.clock), world.model.engine.session()
        for number in range(10_000):
            table.add(world.model, str(number), session)
        tracemalloc.start()
        try:
            with table.call(world.model, "5", "test", goes_on=True):
                pass
            assert tracemalloc.get_traced_memory()[1] < 10_000
        finally:
            tracemalloc.stop()

    run(tiny_model, scenario)


def test_a_call_that_begins_anew_is_not_told_of_an_expiry(tiny_model: Path) -> None:
    async def scenario(world: World) -> None:
        first = world.touch("a")
        world.clock.now = 200
        second = world.touch("a", goes_on=False)
        assert second is not first
        assert world.touch("a", goes_on=True) is second

    run(tiny_model, scenario)


def test_a_session_that_was_never_used_goes_on_from_nothing(tiny_model: Path) -> None:
    async def scenario(world: World) -> None:
        assert world.touch("new", goes_on=True) is not None

    run(tiny_model, scenario)


def test_a_session_in_use_does_not_expire(tiny_model: Path) -> None:
    async def scenario(world: World) -> None:
        with world.table.call(world.model, "a", "test", goes_on=False) as call:
            world.clock.now = 1000
            assert world.touch("a", goes_on=True) is call.named
        world.clock.now = 1099
        assert world.touch("a", goes_on=True) is call.named

    run(tiny_model, scenario)


def test_for_one_too_many_the_longest_idle_one_goes(tiny_model: Path) -> None:
    async def scenario(world: World) -> None:
        for name in ("a", "b", "c", "a"):
            world.clock.now += 1
            world.touch(name)
        world.touch("d")
        assert len(world.table) == 3
        with pytest.raises(SessionExpiredError):
            world.touch("b", goes_on=True)
        world.touch("a", goes_on=True)

    run(tiny_model, scenario)


def test_sessions_in_use_do_not_go_and_one_too_many_is_refused(tiny_model: Path) -> None:
    async def scenario(world: World) -> None:
        table, model = world.table, world.model
        with (
            table.call(model, "a", "test", goes_on=False),
            table.call(model, "b", "test", goes_on=False),
        ):
            world.touch("c")
            with table.call(model, "d", "test", goes_on=False):
                with pytest.raises(SessionsFullError, match="all 3 sessions"):
                    world.touch("e")
                world.touch("a")
            world.touch("e")

    run(tiny_model, scenario)


def test_names_of_expired_sessions_are_remembered_but_not_for_ever(tiny_model: Path) -> None:
    async def scenario(world: World) -> None:
        for number in range(MAX_EXPIRED + 5):
            world.table.expire(world.model, f"s{number}")
        world.touch("s4", goes_on=True)
        with pytest.raises(SessionExpiredError):
            world.touch("s5", goes_on=True)

    run(tiny_model, scenario)


def test_a_session_belongs_to_a_model_and_goes_with_it(tiny_model: Path) -> None:
    async def scenario(world: World) -> None:
        other = await world.load(ModelConfig(context_length=256, max_sequences=2, threads=1))
        await world.write("a", "sea")
        assert await world.tokens("a") != []
        assert await world.tokens("a", other) == []
        world.registry.unpin(other.path, "test", other.config)
        assert len(world.table) == 1
        assert await world.tokens("a") != []

    run(tiny_model, scenario)


def test_a_dropped_session_is_new_when_it_is_used_again(tiny_model: Path) -> None:
    async def scenario(world: World) -> None:
        await world.write("a", "sea")
        with world.table.call(world.model, "a", "test", goes_on=True):
            world.table.drop(world.model, "a")
        assert await world.tokens("a") == []

    run(tiny_model, scenario)


def test_cancel_reaches_calls_before_and_after_they_are_submitted(tiny_model: Path) -> None:
    async def scenario(world: World) -> None:
        model = world.model
        assert model.engine is not None
        with (
            world.table.call(model, "a", "one", goes_on=True) as first,
            world.table.call(model, "a", "two", goes_on=True) as second,
            world.table.call(model, "b", "one", goes_on=True) as third,
        ):
            stream = model.engine.stream("sea", max_tokens=400, ignore_eos=True, session=first.session)
            first.attach(stream)
            # The dialect's own call, and the other's because it is of the same session.
            world.table.cancel("a", "one", model)
            assert (await stream.result()).finish_reason == "cancelled"
            late = model.engine.stream("sea", max_tokens=400, ignore_eos=True, session=second.session)
            second.attach(late)
            assert (await late.result()).finish_reason == "cancelled"
            assert (first.is_cancelled, second.is_cancelled, third.is_cancelled) == (True, True, False)
        world.table.cancel("nobody", "one", None)

    run(tiny_model, scenario)


def test_cancel_reaches_calls_that_wait_behind_another(tiny_model: Path) -> None:
    async def scenario(world: World) -> None:
        table, model = world.table, world.model
        reached: list[str] = []

        async def submit(call: SessionCall, name: str) -> None:
            async with call.submitting() as session:
                reached.append(name)
                is_the_session = session is call.named.session
                assert is_the_session is not call.is_cancelled
                assert session.num_tokens == 0 or is_the_session

        async def save(call: SessionCall) -> None:
            async with call.in_order() as session:
                assert session is call.session
                reached.append("save")

        with ExitStack() as stack:
            first, second, third, saving, late = (
                stack.enter_context(table.call(model, "a", "one", goes_on=True)) for _ in range(5)
            )
            async with first.submitting():
                waiting = [
                    asyncio.create_task(work)
                    for work in (submit(second, "second"), submit(third, "third"), save(saving))
                ]
                await asyncio.sleep(0)
                second.cancel()
                await waiting[0]
                saving.cancel()
                await asyncio.sleep(0)
                # A cancelled call is not behind the others; one that nothing cancels keeps its place.
                assert reached == ["second"]
                late.cancel()
                await submit(late, "late")
            await asyncio.gather(*waiting)
            assert reached == ["second", "late", "third", "save"]
            async with first.submitting() as session:
                assert session is first.session

    run(tiny_model, scenario)


def test_another_models_calls_of_other_dialects_are_not_cancelled(tiny_model: Path) -> None:
    async def scenario(world: World) -> None:
        other = await world.load(ModelConfig(context_length=256, max_sequences=2, threads=1))
        with (
            world.table.call(other, "a", "one", goes_on=True) as own,
            world.table.call(other, "a", "two", goes_on=True) as foreign,
        ):
            world.table.cancel("a", "one", world.model)
            assert (own.is_cancelled, foreign.is_cancelled) == (True, False)

    run(tiny_model, scenario)


def test_sessions_are_carried_over_once_their_calls_are_over(tiny_model: Path) -> None:
    async def scenario(world: World) -> None:
        former = world.model
        await world.write("a", "sea")
        await world.write("b", "tree")
        world.table.expire(former, "gone")
        model = await world.load(ModelConfig(context_length=256, max_sequences=2, threads=1))
        moves = SessionMoves(world.registry, world.table)
        with (
            world.registry.use_model(former),
            world.table.call(former, "a", "test", goes_on=True) as running,
        ):
            moves.carry_over(former, model)
            world.registry.unpin(former.path, "test", former.config)
            waiting = asyncio.create_task(world.write("a", " of", model))
            assert await world.tokens("b", model) != []
            assert former.engine is not None
            stream = former.engine.stream(" and", max_tokens=3, session=running.session)
            grown = len((await stream.result()).tokens) + 1
            before = await running.session.tokens()
            assert not waiting.done()
        await waiting
        after = await world.tokens("a", model)
        assert after[: len(before)] == before
        assert len(after) > len(before) > grown
        with pytest.raises(SessionExpiredError):
            await world.tokens("gone", model)
        assert world.registry.models == (model,)

    run(tiny_model, scenario)


def test_a_copy_goes_on_by_itself(tiny_model: Path) -> None:
    async def scenario(world: World) -> None:
        await world.write("a", "sea")
        engine = world.model.engine
        assert engine is not None
        with world.table.call(world.model, "a", "test", goes_on=True) as call:
            copy = engine.session(copy=call.session)
            assert await copy.tokens() == await call.session.tokens()
            grown = await engine.generate(" tree", max_tokens=3, session=copy)
            assert copy.num_tokens == grown.usage.prompt_tokens + grown.usage.completion_tokens
            assert copy.num_tokens > call.session.num_tokens
            await copy.reset()
            assert call.session.num_tokens > 0

    run(tiny_model, scenario)


def test_a_copy_takes_the_tokens_of_the_engines_vocabulary_only(tiny_models: Path, model_path: Path) -> None:
    async def main() -> None:
        async with (
            await Engine.load(model_path, CONFIG) as large,
            await Engine.load(tiny_models / main_file("llama"), CONFIG) as small,
        ):
            session = large.session()
            await large.generate("Once upon a time", max_tokens=1, session=session)
            with pytest.raises(
                InvalidParameterError, match=r"^session: must contain tokens of this vocabulary"
            ):
                small.session(copy=session)

    asyncio.run(main())
