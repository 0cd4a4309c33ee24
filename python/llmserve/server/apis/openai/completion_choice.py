"""One choice of a completion: its prompt, its output, and what is shown of both."""

from __future__ import annotations

import math
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from llmserve.engine import Engine
from llmserve.sampling_params import SamplingParams
from llmserve.server.apis.openai import logprobs
from llmserve.server.apis.openai.completions_schema import OpenAiCompletionRequest
from llmserve.server.apis.openai.prompt_logprobs import echoed
from llmserve.server.apis.openai.reports import StreamReports
from llmserve.server.apis.openai.time_limit import TimeLimit, time_limit
from llmserve.server.generation import Run
from llmserve.server.generation.logprobs import ShownTokens, load_texts
from llmserve.server.prompts.infill import Infill
from llmserve.server.prompts.mixed import plain_prompt
from llmserve.server.refusals import CallCancelledError
from llmserve.stream import Stream
from llmserve.types import Completion, Delta, PromptToken, Timings, Usage


@dataclass(slots=True)
class Choice:
    """One choice for one prompt."""

    engine: Engine
    request: OpenAiCompletionRequest
    prompt_index: int
    number: int
    base: SamplingParams
    infill: Infill | None = None
    """What the prompt stands between, if it is to be filled in there."""
    prompt: str | list[int] = ""
    """The prompt as the engine takes it, once it is prepared."""
    is_truncated: bool = False
    """Whether `truncate_prompt_tokens` has left something of it out."""
    run: Run[Stream] | None = None
    """`None` if nothing is to be generated."""
    echoed: str = ""
    shown: ShownTokens = field(default_factory=ShownTokens)
    legacy: logprobs.LegacyLogprobs | None = None
    unshown: list[PromptToken] = field(default_factory=list)
    """What has come of the prompt, until it is echoed in a stream."""
    completion: Completion | None = None
    """Once it has ended."""
    time_limit: TimeLimit | None = None
    num_tokens: int = 0
    """Tokens that have been read."""
    reports: StreamReports = field(init=False)

    def __post_init__(self) -> None:
        self.time_limit = time_limit(self.request)
        self.reports = StreamReports(self.request)

    @property
    def index(self) -> int:
        """Its place among all that are generated."""
        return self.prompt_index * self.request.num_drawn + self.number

    @property
    def name(self) -> str:
        """How the client calls its prompt, if it sent several."""
        return f"prompt[{self.prompt_index}]" if len(self.request.prompt) > 1 else ""

    @property
    def params(self) -> SamplingParams:
        """The sampling parameters, with what keys the choice's draws."""
        return self.base.replace(choice_index=self.number) if self.number else self.base

    @property
    def is_wanted_at_end(self) -> bool:
        """Whether nobody looks at single outputs."""
        return not self.request.stream and self.time_limit is None

    @property
    def is_timed_out(self) -> bool:
        """Whether the client's time limit has ended the text."""
        return self.time_limit is not None and self.time_limit.has_passed

    @property
    def shown_stop(self) -> str:
        """The stop string that ended the text, if it is shown."""
        if self.completion is None or not self.request.include_stop_str_in_output:
            return ""
        return self.completion.stop or ""

    @property
    def hidden_stop(self) -> str | None:
        """The stop string that ended the text, if it is not shown."""
        return None if self.completion is None or self.shown_stop else self.completion.stop

    async def deltas(self) -> AsyncGenerator[Delta, None]:
        """The outputs, up to the client's time limit."""
        if self.run is None:
            return
        output = (await self.run.outputs())[self.index]
        async for delta in output:
            self.num_tokens += len(delta.tokens)
            if self.time_limit is not None and delta.tokens and self.time_limit.ends_with(delta.text):
                output.abort()
            yield delta

    async def result(self) -> Completion:
        """The whole output.

        Raises:
            CallCancelledError: Another client cancelled it.
            ServerStoppingError: The server did.
        """
        if self.run is None:
            self.completion = await self._without_output()
        else:
            outputs = await self.run.outputs()
            self.completion = await outputs[self.index].result()
            if self.is_timed_out and self.completion.finish_reason == "cancelled":
                self.completion = replace(self.completion, finish_reason="length")
            self.run.check_end(self.completion.finish_reason, CallCancelledError)
        return self.completion

    @property
    def mean_logprob(self) -> float:
        """How likely a token of the output is on average."""
        tokens = () if self.completion is None else self.completion.tokens
        found = [token.logprobs.logprob for token in tokens if token.logprobs is not None]
        return sum(found) / len(found) if found else -math.inf

    async def _without_output(self) -> Completion:
        return Completion(
            text="",
            tokens=(),
            finish_reason="length",
            usage=Usage(prompt_tokens=len(await self.prompt_ids())),
            timings=Timings(),
            seed=self.params.seed or 0,
            stop=None,
        )

    async def prepare(self) -> None:
        """Makes the prompt, truncates it, and finds the text that is echoed."""
        if self.infill is not None:
            self.prompt = await self.infill.tokens(self.engine, self.base.max_tokens)
        else:
            self.prompt = await plain_prompt(self.engine, self.request.prompt[self.prompt_index])
        if (limit := self.request.truncate_prompt_tokens) is not None:
            ids = await self.prompt_ids()
            self.prompt, self.is_truncated = ids[-limit:], len(ids) > limit
        if self.request.echo:
            await self._find_echo()
        if self.request.logprobs is not None:
            self.legacy = logprobs.LegacyLogprobs(self.request.logprobs)

    async def _find_echo(self) -> None:
        prompt = self.prompt
        self.echoed = (
            prompt if isinstance(prompt, str) else await self.engine.detokenize(prompt, render_special=True)
        )

    async def prompt_ids(self) -> list[int]:
        """The prompt's tokens."""
        prompt = self.prompt
        return await self.engine.tokenize(prompt) if isinstance(prompt, str) else prompt

    async def echo_of(self, prompt: Sequence[PromptToken]) -> dict[str, Any] | None:
        """The lists of the echoed prompt's tokens, if they are shown."""
        if not self.scores_echo or self.legacy is None:
            return None
        return await echoed(self.engine, prompt, self.echoed, self.legacy)

    @property
    def scores_echo(self) -> bool:
        """Whether the prompt's tokens are shown with it."""
        return self.request.echo and self.legacy is not None

    async def logprobs_of(self, delta: Delta, stop: str | None, *, is_last: bool) -> dict[str, Any] | None:
        """The lists of the tokens that are shown with a delta."""
        if self.legacy is None or self.run is None:
            return None
        tokens = self.shown.push(delta.text, delta.tokens)
        if is_last:
            tokens += self.shown.flush(stop)
        return self.legacy.render(tokens, await load_texts(self.engine, tokens))
