"""Runs completions on loaded models, in their sessions, until the server stops."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass

from llmserve.engine import Engine
from llmserve.errors import ContextExceededError
from llmserve.sampling_params import SamplingParams
from llmserve.server.apis.completions import convert
from llmserve.server.apis.completions.schema import CompletionRequest
from llmserve.server.models import Model
from llmserve.server.refusals import ServerStoppingError
from llmserve.server.services import Services
from llmserve.server.web.acceptance import accepted_within
from llmserve.server.web.headers import ignored_header
from llmserve.server.web.schema import Parsed
from llmserve.stream import Stream
from llmserve.types import Completion

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class CompletionCall:
    """A request with what it runs on."""

    request: CompletionRequest
    model: Model
    engine: Engine
    session: str | None
    """Name of the session that the prompt goes on with."""
    params: SamplingParams
    """Meaningless where no token is wanted."""
    ignored: Sequence[str]
    """Fields that were given and have no effect."""

    @property
    def wants_tokens(self) -> bool:
        """Whether anything is to be generated."""
        return convert.num_tokens_wanted(self.request) > 0


class CompletionCalls:
    """The completions of one dialect."""

    def __init__(self, services: Services, dialect: str) -> None:
        self._services = services
        self._dialect = dialect
        self._reported: set[str] = set()

    @contextmanager
    def begin(self, parsed: Parsed[CompletionRequest], session: str | None) -> Iterator[CompletionCall]:
        """A call on the model that the request names, which stays for as long as the context.

        Raises:
            UnknownModelError: It is not loaded.
            ModelLoadingError: It is on its way.
        """
        request = parsed.value
        model = self._services.registry.pick(self._services.models_folder.resolve(request.model))
        with self._services.registry.use_model(model) as engine:
            ignored = [*parsed.unknown, *convert.ignored_options(request.options, engine.info)]
            self._report(ignored)
            yield CompletionCall(
                request=request,
                model=model,
                engine=engine,
                session=session,
                params=convert.sampling_params(request),
                ignored=ignored,
            )

    @asynccontextmanager
    async def accepted(
        self, call: CompletionCall, patience_s: float | None = None
    ) -> AsyncGenerator[Stream, None]:
        """The output of a call, once it is accepted or has waited so long for its turn in a session.

        Leaving the context ends the request, and so does the server's stop.

        Raises:
            RequestError: It was refused.
            FieldError: It was refused for a field.
            SessionExpiredError: Its session has expired.
            SessionsFullError: It would be one session too many.
            ServerStoppingError: The server has stopped it.
        """
        lifecycle = self._services.lifecycle
        async with self._submitted(call) as stream:
            with lifecycle.running(stream.abort):
                try:
                    await accepted_within(stream, patience_s)
                except ContextExceededError as error:
                    raise convert.prompt_refusal(error, call.request.options) from None
                if lifecycle.is_stopping:  # then it was aborted
                    raise ServerStoppingError
                yield stream

    def check_end(self, completion: Completion) -> None:
        """Tells a completion that the stopping server has cut short from one that ended.

        Raises:
            ServerStoppingError: It was cut short.
        """
        if completion.finish_reason == "cancelled" and self._services.lifecycle.is_stopping:
            raise ServerStoppingError

    @asynccontextmanager
    async def _submitted(self, call: CompletionCall) -> AsyncGenerator[Stream, None]:
        """The running request, as a call of its session where it has one."""
        at_end = not call.request.stream
        engine, prompt, params = call.engine, call.request.prompt, call.params
        if call.session is None:
            async with engine.stream(prompt, params, at_end=at_end) as stream:
                yield stream
            return
        with self._services.sessions.call(call.model, call.session, self._dialect, goes_on=True) as turn:
            async with turn.submitting() as session:
                stream = engine.stream(prompt, params, session=session, append=True, at_end=at_end)
                turn.attach(stream)
            async with stream:
                yield stream

    def _report(self, ignored: Sequence[str]) -> None:
        """Logs each option without effect once."""
        for name in ignored:
            if name.startswith("options.") and name not in self._reported and len(self._reported) < 1000:
                self._reported.add(name)
                logger.warning("%s has no effect here and is ignored", ignored_header([name]))
