"""Completions of raw prompts on models that are loaded by path."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass

from llmserve.engine import Engine
from llmserve.errors import ContextExceededError
from llmserve.sampling_params import SamplingParams
from llmserve.server.apis.completions import convert
from llmserve.server.apis.completions.schema import CompletionRequest
from llmserve.server.generation import Call, Run, raw_text
from llmserve.server.models import Model
from llmserve.server.prompts.mixed import plain_prompt
from llmserve.server.services import Services
from llmserve.server.web.headers import ignored_header
from llmserve.server.web.schema import Parsed
from llmserve.stream import Stream

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class CompletionCall:
    """A request with what it runs on."""

    request: CompletionRequest
    model: Model
    engine: Engine
    session: str | None
    """Name of the session that the prompt continues."""
    params: SamplingParams
    """Meaningless if no token is wanted."""
    ignored: Sequence[str]
    """Fields that were given and have no effect."""

    @property
    def wants_tokens(self) -> bool:
        """Whether anything is to be generated."""
        return convert.num_tokens_wanted(self.request) > 0


class CompletionCalls:
    """The completions of one dialect."""

    def __init__(self, services: Services, dialect: str, *, waits_long: bool = False) -> None:
        """``waits_long``: the head of a stream waits for acceptance, however long that takes."""
        self._services = services
        self._dialect = dialect
        self._waits_long = waits_long
        self._reported: set[str] = set()

    @contextmanager
    def begin(self, parsed: Parsed[CompletionRequest], session: str | None) -> Iterator[CompletionCall]:
        """A call on the model that the request names, which stays for as long as the context.

        Raises:
            UnknownModelError: The model is not loaded.
            ModelLoadingError: The model is being loaded.
        """
        request = parsed.value
        model = self._services.registry.pick(self._services.models_folder.resolve(request.model, "model"))
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
    async def run(self, call: CompletionCall) -> AsyncGenerator[Run[Stream], None]:
        """A call that runs for as long as the context.

        Raises:
            FieldError: The call was refused because of a field.
            LlmserveError: What `GenerationService.run` raises.
        """
        is_stream = call.request.stream
        prompt = await plain_prompt(call.engine, call.request.prompt)
        wanted = Call(
            dialect=self._dialect,
            model=call.model,
            starts=[raw_text(prompt, call.params, at_end=not is_stream)],
            is_stream=is_stream and not self._waits_long,
            session=call.session,
        )
        async with AsyncExitStack() as stack:
            try:
                run = await stack.enter_async_context(self._services.generation.run(wanted))
            except ContextExceededError as error:
                raise convert.prompt_refusal(error, call.request.options) from None
            yield run

    def _report(self, ignored: Sequence[str]) -> None:
        """Logs each option without effect once."""
        for name in ignored:
            if name.startswith("options.") and name not in self._reported and len(self._reported) < 1000:
                self._reported.add(name)
                logger.warning("%s has no effect here and is ignored", ignored_header([name]))
