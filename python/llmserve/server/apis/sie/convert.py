"""Pure functions of the SIE dialect: wire -> request, events -> wire."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import orjson

from llmserve.errors import ContextExceededError
from llmserve.server.apis.sie.schema import GenerateGrammar, GenerateOptions, GenerateRequest
from llmserve.server.error_shapes.sie import code_of
from llmserve.server.fields import sampling
from llmserve.server.generation.deadlines import TimeLimit, TimeLimits
from llmserve.server.grammars.requested import MAX_GRAMMAR_BYTES
from llmserve.server.refusals import FieldError, UnsupportedFieldError
from llmserve.server.web.errors import Fault
from llmserve.server.web.schema import read
from llmserve.server.web.sse import DONE, data_frame
from llmserve.types import Completion, Delta, SamplingParams, Token, TokenLogprobs, Usage

# JSON has no infinity; OpenAI's clients use this number for it.
_NO_LOGPROB = -9999.0


def read_request(body: Mapping[str, Any]) -> GenerateRequest:
    """The request of a body.

    Raises:
        UnsupportedFieldError: A field is unknown, or meaningless beside the others.
        FieldError: A field is missing, of a wrong type or out of range.
    """
    parsed = read(GenerateRequest, body)
    if parsed.unknown:
        raise UnsupportedFieldError(parsed.unknown[0][:128], "is not supported")
    request = parsed.value
    _check_logprobs(request)
    if request.grammar is not None:
        _check_grammar(request.grammar, body["grammar"])
    min_tokens = request.options.default_sampling.sampling.get("min_tokens", 0)
    if min_tokens > request.max_new_tokens:
        raise FieldError(
            "options.default_sampling.min_new_tokens",
            f"must be at most max_new_tokens ({request.max_new_tokens}), got {min_tokens}",
            limit=request.max_new_tokens,
        )
    return request


def _check_logprobs(request: GenerateRequest) -> None:
    if request.logprobs and not request.stream:
        raise UnsupportedFieldError("logprobs", "is supported only if stream is true")
    if request.top_logprobs is None:
        return
    if not request.stream:
        raise UnsupportedFieldError("top_logprobs", "is supported only if stream is true")
    if not request.logprobs:
        raise FieldError("top_logprobs", "needs logprobs to be true")


def _check_grammar(grammar: GenerateGrammar, raw: object) -> None:
    given = [name for name in ("json_schema", "regex", "ebnf") if getattr(grammar, name) is not None]
    if len(given) != 1:
        raise FieldError(
            "grammar",
            f"must have exactly one of json_schema, regex and ebnf, got {' and '.join(given) or 'none'}",
        )
    num_bytes = len(orjson.dumps(raw))
    if num_bytes > MAX_GRAMMAR_BYTES:
        raise FieldError(
            "grammar",
            f"must have at most {MAX_GRAMMAR_BYTES} bytes of JSON, got {num_bytes}",
            limit=MAX_GRAMMAR_BYTES,
        )


class Stops(NamedTuple):
    """What `options.stop_tokens` end the output at."""

    token_ids: Sequence[int]
    strings: Sequence[str]
    """Texts of several tokens."""


def sampling_params(request: GenerateRequest, stops: Stops, lark: str | None) -> SamplingParams:
    """The engine's parameters; ``lark`` is the request's grammar as text.

    A random seed is drawn here, so that a stream's head can name it.
    """
    grammar = request.grammar
    values = {
        "temperature": 1.0 if grammar is None else 0.0,
        **request.options.default_sampling.sampling,
        **request.sampling,
    }
    if "seed" in values:
        # The engine's seeds are unsigned.
        values["seed"] %= 2**64
    if stops.strings:
        values["stop"] = [*values.get("stop", ()), *stops.strings]
    return sampling.sampling_params(
        values,
        seed_bits=63,
        max_tokens=request.max_new_tokens,
        stop_token_ids=stops.token_ids,
        logprobs=(request.top_logprobs or 0) if request.logprobs else None,
        json_schema=None if grammar is None else grammar.json_schema,
        regex=None if grammar is None else grammar.regex,
        grammar=lark,
    )


def ignored_fields(request: GenerateRequest) -> list[str]:
    """Fields that were given and have no effect on this request."""
    if request.grammar is None or request.grammar.json_schema is None:
        return []
    given = {"stop": request.sampling.get("stop"), "options.stop_tokens": request.options.stop_tokens}
    return [name for name, values in given.items() if values]


def time_limits(options: GenerateOptions) -> TimeLimits:
    """The time limits of a request."""

    def limit(name: str) -> TimeLimit | None:
        seconds: float | None = getattr(options, name)
        return None if seconds is None else TimeLimit(f"options.{name}", seconds)

    return TimeLimits(
        overall=limit("overall_timeout_s"),
        first_output=limit("first_chunk_timeout_s"),
        between_outputs=limit("inter_chunk_timeout_s"),
    )


def check_cap(num_wanted: int, cap: int) -> None:
    """Refuses to generate more tokens than the model may.

    Raises:
        ContextExceededError: The request asks for more.
    """
    if num_wanted > cap:
        raise ContextExceededError(
            f"max_new_tokens must be at most {cap} for this model, got {num_wanted}", context_length=cap
        )


def check_length(num_prompt_tokens: int, num_wanted: int, context_length: int) -> None:
    """Refuses a request that could not get all of its tokens.

    Raises:
        ContextExceededError: Prompt and output do not fit into the context length.
    """
    if num_prompt_tokens + num_wanted > context_length:
        raise ContextExceededError(
            f"the prompt's {num_prompt_tokens} tokens and max_new_tokens ({num_wanted}) are "
            f"{num_prompt_tokens + num_wanted} tokens, more than the context length of {context_length}",
            prompt_tokens=num_prompt_tokens,
            context_length=context_length,
        )


def usage(counts: Usage) -> dict[str, Any]:
    """Token counts on this wire."""
    return {
        "prompt_tokens": counts.prompt_tokens,
        "completion_tokens": counts.completion_tokens,
        "total_tokens": counts.total_tokens,
        "prompt_tokens_details": {"cached_tokens": counts.cached_tokens},
    }


def answer(model_id: str, completion: Completion) -> dict[str, Any]:
    """The answer of a request without ``stream``."""
    return {
        "model": model_id,
        "text": completion.text,
        "finish_reason": completion.finish_reason,
        "usage": usage(completion.usage),
    }


@dataclass(slots=True)
class EventFrames:
    """Renders a stream's events, numbered from 0."""

    request_id: str
    seq: int = 0

    def delta(self, delta: Delta, pieces: Mapping[int, bytes] | None) -> bytes:
        """The event of a delta, unless it is empty. ``pieces``: bytes of its tokens and their
        alternatives, if log-probabilities were requested.
        """
        if pieces is None:
            return self._frame(text_delta=delta.text, done=False) if delta.text else b""
        logprobs = [_logprobs(token, pieces) for token in delta.tokens]
        return self._frame(text_delta=delta.text, logprobs=logprobs, done=False)

    def end(self, completion: Completion) -> bytes:
        """The events that end a stream."""
        terminal = self._frame(
            text_delta="",
            done=True,
            finish_reason=completion.finish_reason,
            usage=usage(completion.usage),
            ttft_ms=round(completion.timings.time_to_first_token_s * 1000, 3),
        )
        return terminal + DONE

    def failure(self, fault: Fault) -> bytes:
        """The events that end a stream that failed."""
        error = {"code": code_of(fault), "message": fault.message}
        return self._frame(text_delta="", done=True, finish_reason="error", error=error) + DONE

    def _frame(self, **fields: Any) -> bytes:
        event = {"request_id": self.request_id, "seq": self.seq, **fields}
        self.seq += 1
        return data_frame(orjson.dumps(event))


def shown_tokens(delta: Delta) -> set[int]:
    """The tokens of a delta, and their alternatives."""
    shown = {token.id for token in delta.tokens}
    for token in delta.tokens:
        if token.logprobs is not None:
            shown.update(alternative for alternative, _ in token.logprobs.top)
    return shown


def _logprobs(token: Token, pieces: Mapping[int, bytes]) -> dict[str, Any]:
    known = token.logprobs or TokenLogprobs(logprob=_NO_LOGPROB, top=())
    top = [_entry(pieces[alternative], logprob) for alternative, logprob in known.top]
    return {**_entry(pieces[token.id], known.logprob), "top_logprobs": top}


def _entry(piece: bytes, logprob: float) -> dict[str, Any]:
    return {
        "token": piece.decode(errors="replace"),
        "logprob": max(logprob, _NO_LOGPROB),
        "bytes": list(piece) if piece else None,
    }
