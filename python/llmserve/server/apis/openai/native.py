"""llama-server's own `/completion` and `/infill`: `/v1/completions` in another shape."""

from __future__ import annotations

from collections.abc import Sequence

from llmserve.server.apis.openai import answers
from llmserve.server.apis.openai.completions import CompletionsApi
from llmserve.server.apis.openai.completions_schema import OpenAiCompletionRequest
from llmserve.server.apis.openai.constraints import with_constraint
from llmserve.server.apis.openai.contents import COMPLETION_ERRORS, GENERATED, answered
from llmserve.server.apis.openai.native_answer import NativeAnswer
from llmserve.server.apis.openai.native_schema import (
    NATIVE_SAMPLING,
    InfillRequest,
    NativeCompletionRequest,
    NativeFields,
)
from llmserve.server.apis.openai.sampling import ignored_fields, sampling_params
from llmserve.server.error_shapes.openai import OPENAI
from llmserve.server.prompts.infill import Infill
from llmserve.server.web.endpoint import Endpoint
from llmserve.server.web.exchange import Exchange
from llmserve.server.web.fields import wire_name
from llmserve.server.web.headers import answer_headers
from llmserve.server.web.session_names import SESSION
from llmserve.server.web.token_kinds import Prompts

_EXAMPLE = {"content": " Paris.", "stop": True, "tokens_predicted": 2, "stop_type": "limit"}


class NativeCompletionApi:
    """The routes over the shared services."""

    def __init__(self, completions: CompletionsApi) -> None:
        self._completions = completions

    @Endpoint(
        path="/completion",
        method="POST",
        dialect=OPENAI,
        operation_id="createNativeCompletion",
        summary="Complete a prompt, in llama-server's shape",
        description=(
            "`/v1/completions` in llama-server's shape and with its defaults: an object for one prompt, an "
            "array for several. A stream ends with the events that have `stop`, without `[DONE]`."
        ),
        body=NativeCompletionRequest,
        responses=answered(GENERATED, _EXAMPLE, has_stream=True),
        errors=COMPLETION_ERRORS,
        parameters=[SESSION],
    )
    async def complete(self, exchange: Exchange) -> None:
        """`POST /completion`."""
        parsed = await exchange.read(NativeCompletionRequest)
        await self._answer(exchange, parsed.value, parsed.unknown, parsed.value.prompt)

    @Endpoint(
        path="/infill",
        method="POST",
        dialect=OPENAI,
        operation_id="infill",
        summary="Fill in code, in llama-server's shape",
        description=(
            "Writes what stands between `input_prefix` and `input_suffix`. For models whose vocabulary has "
            "tokens for that; others get a 501. The answer is that of `/completion`."
        ),
        body=InfillRequest,
        responses=answered(GENERATED, _EXAMPLE, has_stream=True),
        errors={**COMPLETION_ERRORS, 501: "The model cannot fill in text."},
    )
    async def infill(self, exchange: Exchange) -> None:
        """`POST /infill`."""
        parsed = await exchange.read(InfillRequest)
        request = parsed.value
        infill = Infill(
            prefix=request.input_prefix,
            suffix=request.input_suffix,
            extra=request.input_extra,
            middle=request.prompt,
        )
        await self._answer(exchange, request, parsed.unknown, ("",), infill)

    async def _answer(
        self,
        exchange: Exchange,
        native: NativeFields,
        unknown: Sequence[str],
        prompt: Prompts,
        infill: Infill | None = None,
    ) -> None:
        request = OpenAiCompletionRequest(
            model=native.model,
            prompt=prompt,
            n=native.n_cmpl,
            max_tokens=native.num_tokens_wanted,
            sampling=native.sampling,
            bad_words=native.bad_words,
            stream=native.stream,
            logprobs=native.n_probs or None,
            include_stop_str_in_output=native.include_stop_str_in_output,
            truncate_prompt_tokens=native.truncate_prompt_tokens,
            t_max_predict_ms=native.t_max_predict_ms,
            id_slot=native.id_slot,
            return_progress=native.return_progress,
            timings_per_token=native.timings_per_token,
        )
        values = {**NATIVE_SAMPLING.defaults(), **native.sampling}
        params = sampling_params(values, max_tokens=native.num_tokens_wanted or 1, logprobs=request.logprobs)
        params = await with_constraint(native, params, native.response_format)
        # `/infill` has no session: its prompt is whole.
        session = SESSION.of(exchange.request.scope) if infill is None else None
        ignored = ignored_fields(request, params, len(prompt) * native.n_cmpl)
        headers = answer_headers([*unknown, *ignored], seed=params.seed)
        tokens_field = wire_name(native, "max_tokens")
        submitted = self._completions.submitted(request, params, session, tokens_field, infill)
        async with submitted as (used, choices):
            answer = NativeAnswer(used.entry.id, native, choices)
            if native.stream:
                await exchange.send_events(answer.frames(), answers.render_error, headers=headers)
            else:
                await exchange.send_json(await answer.whole(), headers=headers)
