"""Answers of `/v1/completions`: all choices as one object, or as events."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import Any

from llmserve.server.apis.openai import answers, logprobs
from llmserve.server.apis.openai.answers import Envelope
from llmserve.server.apis.openai.completion_choice import Choice
from llmserve.server.apis.openai.completions_schema import OpenAiCompletionRequest
from llmserve.server.apis.openai.prompt_logprobs import prompt_logprobs
from llmserve.server.generation import merged
from llmserve.server.web.sse import DONE
from llmserve.types import Delta, Usage


class CompletionAnswer:
    """All choices of a request as one answer."""

    def __init__(
        self, envelope: Envelope, request: OpenAiCompletionRequest, choices: Sequence[Choice]
    ) -> None:
        self._envelope = envelope
        self._request = request
        self._choices = choices

    async def whole(self) -> dict[str, Any]:
        """The answer as one object."""
        async with aclosing(self._deltas()) as deltas:
            async for _ in deltas:
                pass
        completions = [await choice.result() for choice in self._choices]
        shown = []
        for index, choice in enumerate(self._best()):
            completion = completions[choice.index]
            delta = Delta(text=completion.text, tokens=completion.tokens)
            echo = await choice.echo_of(completion.prompt)
            lists = await choice.logprobs_of(delta, choice.hidden_stop, is_last=True)
            if echo is not None and lists is not None:
                lists = logprobs.joined(echo, lists)
            text = choice.echoed + completion.text + choice.shown_stop
            entry = _choice(index, text, lists, completion.finish_reason)
            if (num_top := self._request.prompt_logprobs) is not None:
                entry["prompt_logprobs"] = await prompt_logprobs(choice.engine, completion.prompt, num_top)
            shown.append(entry)
        whole = self._envelope.fields(self._envelope.kind, shown)
        return {**whole, "usage": self._usage(), **self._timings()}

    def _best(self) -> list[Choice]:
        """The choices that are shown, the likeliest ones of each prompt, if they are not all."""
        num_drawn, num_shown = self._request.num_drawn, self._request.n
        if num_drawn == num_shown:
            return list(self._choices)
        ranked = sorted(self._choices, key=lambda choice: (choice.prompt_index, -choice.mean_logprob))
        return [choice for place, choice in enumerate(ranked) if place % num_drawn < num_shown]

    async def frames(self) -> AsyncGenerator[bytes, None]:
        """The answer as events."""
        for index, choice in enumerate(self._choices):
            if choice.run is None:
                await choice.result()
                yield self._frame(_choice(index, choice.echoed, None, "length"))
            elif self._request.echo and not choice.scores_echo:
                yield self._frame(_choice(index, choice.echoed, None, None))
        if self._choices[0].run is not None:
            async with aclosing(self._deltas()) as deltas:
                async for index, delta in deltas:
                    frame = await (self._last(index) if delta is None else self._part(index, delta))
                    if frame:
                        yield frame
        if self._request.stream_options.include_usage:
            yield answers.frame(
                {
                    **self._envelope.fields(self._envelope.kind, []),
                    "usage": self._usage(),
                    **self._timings(),
                }
            )
        yield DONE

    def _deltas(self) -> AsyncGenerator[tuple[int, Delta | None], None]:
        return merged([choice.deltas() for choice in self._choices])

    async def _part(self, index: int, delta: Delta) -> bytes:
        choice = self._choices[index]
        if delta.progress is not None:
            report = choice.reports.of_prompt(delta.progress)
            return self._frame(_choice(index, "", None, None), **report) if report else b""
        if delta.prompt:
            choice.unshown += delta.prompt
            return b""
        return await self._echo(choice) + await self._output(index, delta)

    async def _echo(self, choice: Choice) -> bytes:
        """The prompt with its lists, once all of it has come."""
        prompt, choice.unshown = choice.unshown, []
        if not prompt:
            return b""
        return self._frame(_choice(choice.index, choice.echoed, await choice.echo_of(prompt), None))

    async def _output(self, index: int, delta: Delta) -> bytes:
        choice = self._choices[index]
        lists = await choice.logprobs_of(delta, None, is_last=False)
        has_tokens = lists is not None and lists["tokens"]
        if not delta.text and not has_tokens:
            return b""
        report = choice.reports.of_output(choice.num_tokens)
        return self._frame(_choice(index, delta.text, lists, None), **report)

    async def _last(self, index: int) -> bytes:
        choice = self._choices[index]
        completion = await choice.result()
        echo = await self._echo(choice)
        rest = await choice.logprobs_of(Delta(text="", tokens=()), choice.hidden_stop, is_last=True)
        timings = answers.timings(completion.usage, completion.timings)
        last = _choice(index, choice.shown_stop, rest, completion.finish_reason)
        return echo + self._frame(last, timings=timings)

    def _frame(self, choice: dict[str, Any], **extra: Any) -> bytes:
        usage = {"usage": None} if self._request.stream_options.include_usage else {}
        return answers.frame({**self._envelope.fields(self._envelope.kind, [choice]), **usage, **extra})

    def _timings(self) -> dict[str, Any]:
        """Those of the first choice."""
        completion = self._choices[0].completion
        return (
            {} if completion is None else {"timings": answers.timings(completion.usage, completion.timings)}
        )

    def _usage(self) -> dict[str, Any]:
        usages: dict[int, list[Usage]] = {}
        for choice in self._choices:
            if choice.completion is not None:
                usages.setdefault(choice.prompt_index, []).append(choice.completion.usage)
        return answers.usage(usages)


def _choice(index: int, text: str, lists: dict[str, Any] | None, reason: str | None) -> dict[str, Any]:
    return {"index": index, "text": text, "logprobs": lists, "finish_reason": reason}
