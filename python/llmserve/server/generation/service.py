"""Runs the calls of all dialects."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncGenerator, Callable, Coroutine, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

import anyio

from llmserve.errors import ContextExceededError, EmptyPromptError, LlmserveError
from llmserve.sampling_params import SamplingParams
from llmserve.server.conversation import Conversation, ReasoningLimit, TurnPlan, plan_turn
from llmserve.server.conversation.reasoning_limit import NO_LIMIT
from llmserve.server.generation.admission import Admission
from llmserve.server.generation.call import Call, R, Running
from llmserve.server.generation.deadlines import Deadlines
from llmserve.server.lifecycle import Lifecycle
from llmserve.server.metrics import OutputMetrics, RequestMetrics
from llmserve.server.models import Registry, SessionCall, SessionTable, UsedModel
from llmserve.server.refusals import Refusal, ServerStoppingError
from llmserve.server.request_notes import TimedOutput, notes
from llmserve.server.web.tasks import end_tasks
from llmserve.types import FinishReason, Usage

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Run(Generic[R]):
    """A call that runs."""

    _submission: asyncio.Task[Sequence[R]]
    _deadlines: Deadlines
    _lifecycle: Lifecycle
    _session: SessionCall | None

    async def outputs(self) -> Sequence[R]:
        """The outputs in the order of the call's `starts`, once they are submitted: a stream's may not be.

        Raises:
            LlmserveError: One was refused.
            GenerationTimeoutError: A limit of the call has passed before.
        """
        if not self._submission.done():
            await self._deadlines.wait(lambda: asyncio.wait({self._submission}))
        return self._submission.result()

    async def output(self) -> R:
        """The only output, as `outputs` gives it."""
        (output,) = await self.outputs()
        return output

    @property
    def is_cancelled(self) -> bool:
        """Whether somebody has cancelled the calls of its session."""
        return self._session is not None and self._session.is_cancelled

    def check_end(self, reason: FinishReason, otherwise: Callable[[], Refusal] | None = None) -> None:
        """Refuses to pass an output that was cut short off as a complete one.

        Raises:
            ServerStoppingError: The stopping server cancelled it.
            Refusal: `otherwise`, if that is given: another client cancelled it.
        """
        if reason != "cancelled":
            return
        if self._lifecycle.is_stopping:
            raise ServerStoppingError
        if otherwise is not None:
            raise otherwise()


class GenerationService:
    """Owns what is between a call and its outputs."""

    def __init__(
        self,
        registry: Registry,
        sessions: SessionTable,
        lifecycle: Lifecycle,
        metrics: RequestMetrics,
        patience_s: float,
        reasoning_limit: ReasoningLimit = NO_LIMIT,
    ) -> None:
        """`patience_s` is how long the head of a stream waits for the engine's acceptance, and
        `reasoning_limit` that of conversations without one of their own.
        """
        self._registry = registry
        self._sessions = sessions
        self._lifecycle = lifecycle
        self._metrics = metrics
        self._patience_s = patience_s
        self._reasoning_limit = reasoning_limit
        self.admission = Admission()
        """For what dialects render themselves."""

    async def plan(
        self, used: UsedModel, conversation: Conversation, params: SamplingParams, *, is_stream: bool
    ) -> TurnPlan:
        """The plan of a turn; no more plans are made at once than requests may wait in the engine's queue.

        Raises:
            QueueFullError: That many are being made.
            LlmserveError: What `plan_turn` raises.
        """
        limit = conversation.reasoning_limit.over(self._reasoning_limit)
        conversation = replace(conversation, reasoning_limit=limit)
        with self.admission.place(used.model):
            plan = await plan_turn(used.engine, conversation, params)
        return replace(plan, at_end=not is_stream)

    @asynccontextmanager
    async def run(self, call: Call[R]) -> AsyncGenerator[Run[R], None]:
        """A call whose outputs are all accepted, or a stream that has waited for that as long as heads do.

        Then its head goes out, whether it waits for its turn in a session or for the engine, and a refusal
        becomes its last event. Leaving the context ends the outputs; so do the server's stop and whoever
        cancels the calls of the session.

        Raises:
            RequestError: An output was refused.
            SessionExpiredError: The session has expired.
            SessionsFullError: There would be too many sessions.
            ServerStoppingError: The server stops.
            GenerationTimeoutError: A limit of the call has passed.
        """
        taken = notes()
        taken.model, taken.operation = call.model.id, call.operation
        async with AsyncExitStack() as stack:
            session = None
            if call.session is not None:
                session = stack.enter_context(
                    self._sessions.call(call.model, call.session, call.dialect, goes_on=call.goes_on)
                )
                stack.enter_context(self._lifecycle.running(session.cancel))
            # A task, so that a stream that has waited for long keeps its turn.
            submission = asyncio.create_task(self._submit(call, session, stack))
            run = Run(submission, call.deadlines or Deadlines(), self._lifecycle, session)
            try:
                with anyio.move_on_after(self._patience_s if call.is_stream else None):
                    for index, output in enumerate(await run.outputs()):
                        try:
                            await output.accepted()
                        except (ContextExceededError, EmptyPromptError) as error:
                            name = call.prompts[index] if call.prompts else ""
                            raise error.named(name) if name else error from None
                if self._lifecycle.is_stopping:  # the outputs were aborted then
                    raise ServerStoppingError
                yield run
            finally:
                await end_tasks(submission)
                if submission.done() and not submission.cancelled() and submission.exception() is None:
                    is_wrong = isinstance(sys.exception(), LlmserveError)
                    _note(call, submission.result(), "error" if is_wrong else "cancelled")

    async def until_stop(self, work: Coroutine[Any, Any, T]) -> T:
        """The result of work that only its own client can end otherwise, such as embeddings.

        Raises:
            ServerStoppingError: The server stops.
        """
        task = asyncio.create_task(work)
        try:
            with self._lifecycle.running(task.cancel):
                return await task
        except asyncio.CancelledError:
            current = asyncio.current_task()
            is_own = current is not None and current.cancelling() > 0
            if self._lifecycle.is_stopping and not is_own:
                raise ServerStoppingError from None
            raise

    async def _submit(self, call: Call[R], session: SessionCall | None, stack: AsyncExitStack) -> Sequence[R]:
        """Submits the outputs, which end with the stack."""
        engine = stack.enter_context(self._registry.use_model(call.model))
        outputs = []
        async with AsyncExitStack() as submission:
            if session is not None:
                held = stack if call.holds_session else submission
                await held.enter_async_context(session.submitting())
            for start in call.starts:
                measured = self._metrics.begin(call.model.id, call.dialect)
                output = await start(engine, session)
                stack.callback(_measure_end, measured, output)
                stack.push_async_callback(output.aclose)
                if call.is_stream:
                    output.observe(measured.on_output)
                stack.enter_context(self._lifecycle.running(output.abort))
                if session is not None:
                    session.attach(output)
                outputs.append(output)
        return outputs


def _note(call: Call[R], outputs: Sequence[R], otherwise: str) -> None:
    """Notes how outputs ended; ``otherwise``: why some did not end by themselves."""
    taken = notes()
    prompts: dict[str, Usage] = {}
    for index, output in enumerate(outputs):
        end = output.ended
        taken.finish_reasons.append(otherwise if end is None else end.finish_reason)
        if end is not None:
            # Choices of one prompt share it, and all but the first find it in the cache.
            prompts.setdefault(call.prompts[index] if call.prompts else "", end.usage)
            taken.completion_tokens += end.usage.completion_tokens
    taken.prompt_tokens += sum(usage.prompt_tokens for usage in prompts.values())
    taken.cached_tokens += sum(usage.cached_tokens for usage in prompts.values())


def _measure_end(measured: OutputMetrics, output: Running) -> None:
    ended = output.ended
    measured.end(ended)
    if ended is not None:
        notes().outputs.append(TimedOutput(measured.submitted_ns, ended.timings))
