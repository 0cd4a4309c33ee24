"""Answers of `/completion` and `/infill` in llama-server's shape."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from typing import Any

from llmserve.server.apis.openai import answers
from llmserve.server.apis.openai.completion_choice import Choice
from llmserve.server.apis.openai.generation_settings import generation_settings
from llmserve.server.apis.openai.native_probabilities import probabilities
from llmserve.server.apis.openai.native_schema import NativeFields
from llmserve.server.generation import is_context_full, merged
from llmserve.types import Completion, Delta, Token


class NativeAnswer:
    """The answer for one prompt or several."""

    def __init__(self, model: str, request: NativeFields, choices: Sequence[Choice]) -> None:
        self._choices = [_OneAnswer(model, request, choice) for choice in choices]

    async def whole(self) -> dict[str, Any] | list[dict[str, Any]]:
        """An object for one prompt, an array for several."""
        async with aclosing(self._deltas()) as deltas:
            async for _ in deltas:
                pass
        answered = [await choice.whole() for choice in self._choices]
        return answered if len(answered) > 1 else answered[0]

    async def frames(self) -> AsyncGenerator[bytes, None]:
        """The answer as events; nothing follows a prompt's one that has `stop`."""
        async with aclosing(self._deltas()) as deltas:
            async for index, delta in deltas:
                choice = self._choices[index]
                for event in [await choice.last()] if delta is None else await choice.parts(delta):
                    yield answers.frame(event)

    def _deltas(self) -> AsyncGenerator[tuple[int, Delta | None], None]:
        return merged([choice.choice.deltas() for choice in self._choices])


class _OneAnswer:
    """The answer for one prompt."""

    def __init__(self, model: str, request: NativeFields, choice: Choice) -> None:
        self.choice = choice
        self._model = model
        self._request = request

    async def whole(self) -> dict[str, Any]:
        """The answer as one object."""
        completion = await self.choice.result()
        text = completion.text + self.choice.shown_stop
        tokens = completion.tokens if self._request.return_tokens else ()
        shown = self.choice.shown.push(completion.text, completion.tokens)
        shown += self.choice.shown.flush(self.choice.hidden_stop)
        return self._chosen({**await self._ended(completion, text, tokens), **await self._scored(shown)})

    async def parts(self, delta: Delta) -> list[dict[str, Any]]:
        """The events of a delta: one for each token if they are scored."""
        if delta.progress is not None:
            report = self.choice.reports.of_prompt(delta.progress)
            return [{**self._begun("", ()), **report}] if report else []
        if not self._request.n_probs:
            return [self._part(delta.text, delta.tokens)] if delta.text else []
        events = []
        for token in delta.tokens:
            scored = await self._scored(self.choice.shown.push(token.text, [token]))
            if token.text or scored:
                events.append({**self._part(token.text, [token]), **scored})
        return events

    async def last(self) -> dict[str, Any]:
        """The event that has `stop`."""
        completion = await self.choice.result()
        rest = await self._scored(self.choice.shown.flush(self.choice.hidden_stop))
        return self._chosen({**await self._ended(completion, self.choice.shown_stop, ()), **rest})

    def _part(self, text: str, tokens: Sequence[Token]) -> dict[str, Any]:
        return {**self._begun(text, tokens), **self.choice.reports.of_output(self.choice.num_tokens)}

    def _begun(self, text: str, tokens: Sequence[Token]) -> dict[str, Any]:
        return {
            "index": self.choice.index,
            "content": text,
            "tokens": [token.id for token in tokens],
            "stop": False,
            "id_slot": self._request.id_slot,
            "tokens_predicted": self.choice.num_tokens,
        }

    async def _scored(self, tokens: Sequence[Token]) -> dict[str, Any]:
        if not self._request.n_probs or not tokens:
            return {}
        return {"completion_probabilities": await probabilities(self.choice.engine, tokens)}

    async def _ended(self, completion: Completion, text: str, tokens: Sequence[Token]) -> dict[str, Any]:
        counts = completion.usage
        is_cut = completion.finish_reason != "stop"
        is_full = is_context_full(completion, self.choice.engine.info)
        settings = generation_settings(self.choice.base)
        prompt = await self.choice.prompt_ids()
        return {
            "index": self.choice.index,
            "content": text,
            "tokens": [token.id for token in tokens],
            "id_slot": self._request.id_slot,
            "stop": True,
            "model": self._model,
            "tokens_predicted": counts.completion_tokens,
            "tokens_evaluated": counts.prompt_tokens,
            "tokens_cached": counts.cached_tokens,
            "generation_settings": {**settings, "stream": self._request.stream},
            "prompt": await self.choice.engine.detokenize(prompt, render_special=True),
            "has_new_line": "\n" in completion.text,
            "truncated": self.choice.is_truncated or is_full,
            "stop_type": "limit" if is_cut else "eos" if completion.stop is None else "word",
            "stopping_word": completion.stop or "",
            "timings": answers.timings(counts, completion.timings),
        }

    def _chosen(self, answer: Mapping[str, Any]) -> dict[str, Any]:
        """The fields that the client wants to see; `a/b` is the field `b` of the object `a`."""
        if not self._request.response_fields:
            return dict(answer)
        found = {}
        for path in self._request.response_fields:
            value: Any = answer
            for name in path.split("/"):
                value = value.get(name, _MISSING) if isinstance(value, Mapping) else _MISSING
            if value is not _MISSING:
                found[path] = value
        return found


_MISSING = object()
