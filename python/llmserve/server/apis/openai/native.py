"""llama-server's own `/completion`: `/v1/completions` in another shape, for its older clients."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

from llmserve.server.apis.openai import answers
from llmserve.server.apis.openai.completion_choice import Choice
from llmserve.server.apis.openai.completions import CompletionsApi
from llmserve.server.apis.openai.completions_schema import OpenAiCompletionRequest
from llmserve.server.apis.openai.constraints import with_constraint
from llmserve.server.apis.openai.contents import COMPLETION_ERRORS, GENERATED, answered
from llmserve.server.apis.openai.model_choice import chosen_model
from llmserve.server.apis.openai.native_schema import NATIVE_SAMPLING, NativeCompletionRequest
from llmserve.server.apis.openai.sampling import ignored_stops, sampling_params
from llmserve.server.error_shapes.openai import OPENAI
from llmserve.server.refusals import FieldError
from llmserve.server.services import Services
from llmserve.server.web.endpoint import Endpoint
from llmserve.server.web.exchange import Exchange
from llmserve.server.web.fields import wire_name
from llmserve.server.web.headers import answer_headers
from llmserve.server.web.session_names import SESSION
from llmserve.types import Completion, Delta

_EXAMPLE = {"content": " Paris.", "stop": True, "tokens_predicted": 2, "stop_type": "limit"}


class NativeCompletionApi:
    """The route over the shared services."""

    def __init__(self, services: Services, completions: CompletionsApi) -> None:
        self._services = services
        self._completions = completions

    @Endpoint(
        path="/completion",
        method="POST",
        dialect=OPENAI,
        operation_id="createNativeCompletion",
        summary="Complete a prompt, in llama-server's shape",
        description=(
            "`/v1/completions` for one prompt, in llama-server's shape and with its defaults. A "
            "stream ends with the event that has `stop`, without `[DONE]`."
        ),
        body=NativeCompletionRequest,
        responses=answered(GENERATED, _EXAMPLE, has_stream=True),
        errors=COMPLETION_ERRORS,
        parameters=[SESSION],
    )
    async def serve(self, exchange: Exchange) -> None:
        """`POST /completion`."""
        parsed = await exchange.read(NativeCompletionRequest)
        native = parsed.value
        if len(native.prompt) != 1:
            raise FieldError("prompt", f"must be one text, got {len(native.prompt)}")
        model = await chosen_model(self._services, native.model)
        request = OpenAiCompletionRequest(
            model=model,
            prompt=native.prompt,
            max_tokens=native.num_tokens_wanted,
            sampling=native.sampling,
            bad_words=native.bad_words,
            stream=native.stream,
            include_stop_str_in_output=native.include_stop_str_in_output,
            truncate_prompt_tokens=native.truncate_prompt_tokens,
            t_max_predict_ms=native.t_max_predict_ms,
        )
        values = {**NATIVE_SAMPLING.defaults(), **native.sampling}
        params = sampling_params(values, max_tokens=native.num_tokens_wanted or 1, logprobs=None)
        params = await with_constraint(native, params, native.response_format)
        session = SESSION.of(exchange.request.scope)
        headers = answer_headers([*parsed.unknown, *ignored_stops(params)], seed=params.seed)
        tokens_field = wire_name(native, "max_tokens")
        async with self._completions.submitted(request, params, session, tokens_field) as (used, (choice,)):
            answer = _Answer(used.entry.id, native, choice)
            if native.stream:
                await exchange.send_events(answer.frames(), answers.render_error, headers=headers)
            else:
                await exchange.send_json(await answer.whole(), headers=headers)


class _Answer:
    """One answer."""

    def __init__(self, model: str, request: NativeCompletionRequest, choice: Choice) -> None:
        self._model = model
        self._request = request
        self._choice = choice

    async def whole(self) -> dict[str, Any]:
        """The answer as one object."""
        async with aclosing(self._choice.deltas()) as deltas:
            async for _ in deltas:
                pass
        completion = await self._choice.result()
        text = completion.text + self._choice.shown_stop
        return self._ended(completion, text, [token.id for token in completion.tokens])

    async def frames(self) -> AsyncGenerator[bytes, None]:
        """The answer as events; nothing follows the one that has `stop`."""
        async with aclosing(self._choice.deltas()) as deltas:
            async for delta in deltas:
                if delta.text:
                    yield answers.frame(self._part(delta))
        completion = await self._choice.result()
        yield answers.frame(self._ended(completion, self._choice.shown_stop, []))

    def _part(self, delta: Delta) -> dict[str, Any]:
        tokens = [token.id for token in delta.tokens] if self._request.return_tokens else []
        return {"index": 0, "content": delta.text, "tokens": tokens, "stop": False, "id_slot": -1}

    def _ended(self, completion: Completion, text: str, tokens: list[int]) -> dict[str, Any]:
        counts = completion.usage
        is_cut = completion.finish_reason != "stop"
        stop_type = "limit" if is_cut else "eos" if completion.stop is None else "word"
        return {
            "index": 0,
            "content": text,
            "tokens": tokens if self._request.return_tokens else [],
            "id_slot": -1,
            "stop": True,
            "model": self._model,
            "tokens_predicted": counts.completion_tokens,
            "tokens_evaluated": counts.prompt_tokens,
            "tokens_cached": counts.cached_tokens,
            "has_new_line": "\n" in completion.text,
            "truncated": self._choice.is_truncated,
            "stop_type": stop_type,
            "stopping_word": completion.stop or "",
            "timings": answers.timings(counts, completion.timings),
        }
