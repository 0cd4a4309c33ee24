"""Fields of other servers that would change the answer, and that llmserve does not honour.

A dialect lists those that its clients may send. They are refused by name, except with a value that changes
nothing. Unknown fields that are not in this table have no effect on the text and are ignored.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from llmserve.server.refusals import FieldError
from llmserve.server.web.fields import Entry, Field, Group, Kind
from llmserve.server.web.schema import shown


class Refused(NamedTuple):
    """Why a field is refused, and the values that are not."""

    reason: str
    neutral: tuple[Any, ...] = ()
    """Values with which the field changes nothing; so do null and empty texts, arrays and objects."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusedKind(Kind):
    """The kind of a field that is refused."""

    refused: Refused


_SAMPLER = "the sampler is not supported"
_PENALTIES = "the penalties of this API look at the whole text"
_BEAMS = "beam search is not supported"
_SCORES = "only /v1/completions and /v1/chat/completions give log-probabilities"
_REASONING = "use reasoning_format of /v1/chat/completions"
_CONTEXT = "use a route whose name ends in WithContext"
_LENGTH = "use the dialect's own limit on tokens"
_ADAPTERS = "adapters are not supported"
_CONSTRAINT = "the constraint is not supported"
_OPENAI = "use a route of the OpenAI API"
_OPTIONS = "put it into options"
_DETOKENIZED = "control tokens and stop strings are left out of the text"

SAMPLERS = {
    "adaptive_target": Refused(_SAMPLER, (-1,)),
    "penalty_last_n": Refused("use repeat_last_n", (-1,)),
    "repetition_penalty_range": Refused("use repeat_last_n", (0, -1)),
    "mirostat_mode": Refused("use mirostat", (0,)),
    "tfs": Refused(_SAMPLER, (1,)),
    "tfs_z": Refused(_SAMPLER, (1,)),
    "top_a": Refused(_SAMPLER, (0,)),
    "epsilon_cutoff": Refused(_SAMPLER, (0,)),
    "eta_cutoff": Refused(_SAMPLER, (0,)),
    "smoothing_factor": Refused(_SAMPLER, (0,)),
    "dynamic_temperature": Refused("use dynatemp_range", (False,)),
    "temperature_last": Refused("use samplers", (False,)),
    "sampler_priority": Refused("use samplers"),
    "guidance_scale": Refused("classifier-free guidance is not supported", (1,)),
    "negative_prompt": Refused("classifier-free guidance is not supported"),
    "do_sample": Refused("use temperature 0 for greedy generation", (True,)),
    "use_beam_search": Refused(_BEAMS, (False,)),
    "num_beams": Refused(_BEAMS, (1,)),
    "logits_processors": Refused("code of clients is not run"),
    "custom_logit_processor": Refused("code of clients is not run"),
}
"""Those that change how tokens are drawn; llama-server's come first."""

EVERYWHERE = {
    **SAMPLERS,
    "no_stop_trim": Refused(_DETOKENIZED, (False,)),
    "skip_special_tokens": Refused(_DETOKENIZED, (True,)),
    "stop_regex": Refused("use stop"),
    "ban_eos_token": Refused("use ignore_eos", (False,)),
    "t_max_predict_ms": Refused("use a limit on tokens, or /completion", (-1, 0)),
    "n_indent": Refused("use grammar", (0,)),
    "max_new_tokens": Refused(_LENGTH),
    "max_length": Refused(_LENGTH),
    "min_length": Refused("use min_tokens", (0,)),
    "min_new_tokens": Refused("use min_tokens", (0,)),
    "whitespace_pattern": Refused(_CONSTRAINT),
    "guided_whitespace_pattern": Refused(_CONSTRAINT),
    "guided_decoding": Refused("use structured_outputs"),
    "grammar_lazy": Refused(f"{_CONSTRAINT}, a grammar holds from the first token on", (False,)),
    "grammar_triggers": Refused(f"{_CONSTRAINT}, a grammar holds from the first token on"),
    "mm_processor_kwargs": Refused("llmserve reads text only"),
    "image_data": Refused("llmserve reads text only"),
    "prompt_embeds": Refused("llmserve reads text only"),
    "audio": Refused("llmserve generates text only"),
    "web_search_options": Refused("llmserve does not search"),
    "lora": Refused(_ADAPTERS),
    "lora_path": Refused(_ADAPTERS),
    "n_probs": Refused(_SCORES, (0,)),
    "n_cmpl": Refused("only one text is generated", (1,)),
}
"""Fields that no route honours that generates texts."""

CHAT = {
    "include_stop_str_in_output": Refused("only /v1/completions can show stop strings", (False,)),
    "function_call": Refused("use tool_choice"),
    "enable_thinking": Refused("use chat_template_kwargs"),
    "thinking": Refused("use chat_template_kwargs"),
    "thinking_budget_tokens": Refused("a budget for reasoning is not supported", (-1,)),
    "thinking_token_budget": Refused("a budget for reasoning is not supported", (-1,)),
    "reasoning_budget": Refused("a budget for reasoning is not supported", (-1,)),
    "reasoning_in_content": Refused(_REASONING, (False,)),
    "include_reasoning": Refused("reasoning is always returned", (True,)),
    "separate_reasoning": Refused(_REASONING, (True,)),
    "parse_tool_calls": Refused("tool calls are always read", (True,)),
    "truncate_prompt_tokens": Refused("prompts are never truncated"),
    "echo": Refused("the text is without the prompt", (False,)),
    "suffix": Refused("put a model's own infill tokens into the prompt"),
    "best_of": Refused("use n", (1,)),
}
"""Further ones of conversations."""

ONLY_OPENAI = {
    "allowed_token_ids": Refused(_OPENAI),
    "stop_token_ids": Refused(_OPENAI),
    "logit_bias": Refused(_OPENAI),
    "grammar": Refused(_OPENAI),
    "regex": Refused(_OPENAI),
    "json_schema": Refused(_OPENAI),
    "structural_tag": Refused(_OPENAI),
    "structured_outputs": Refused(_OPENAI),
    "response_format": Refused("use text.format of /v1/responses, or another route of the OpenAI API"),
    "bad_words": Refused(_OPENAI),
    "repeat_last_n": Refused(_PENALTIES, (-1,)),
    "typical_p": Refused(_OPENAI, (1,)),
    "top_n_sigma": Refused(_OPENAI, (-1, 0)),
    "xtc_probability": Refused(_OPENAI, (0,)),
    "dynatemp_range": Refused(_OPENAI, (0,)),
    "mirostat": Refused(_OPENAI, (0,)),
    "dry_multiplier": Refused(_OPENAI, (0,)),
    "samplers": Refused(_OPENAI),
    "n": Refused("only one text is generated", (1,)),
}
"""Fields of the OpenAI API that the dialects of llamacpp-server and Llamatik lack."""

RAW_PROMPT = (
    "messages",
    "tools",
    "documents",
    "chat_template",
    "chat_template_kwargs",
    "max_completion_tokens",
    "max_output_tokens",
)
"""Fields of chat that a route for raw prompts lacks."""

_OF_OTHER_ROUTES = {
    "max_output_tokens": Refused("use max_tokens"),
    "disable_any_whitespace": Refused(_CONSTRAINT, (False,)),
    "reasoning": Refused("use reasoning_effort"),
    "reasoning_format": Refused(_REASONING, ("auto", "deepseek")),
    "documents": Refused("use /v1/chat/completions"),
    "system_prompt": Refused(_CONTEXT),
    "context_block": Refused(_CONTEXT),
    "user_prompt": Refused(_CONTEXT),
    "prompt": Refused("use userPrompt"),
    "logprobs": Refused(_SCORES, (False, 0)),
    "top_logprobs": Refused(_SCORES, (0,)),
    "prompt_logprobs": Refused(_SCORES),
    "messages": Refused("belongs to chat"),
    "tools": Refused("belongs to chat"),
    "chat_template": Refused("belongs to chat"),
    "chat_template_kwargs": Refused("belongs to chat"),
    "max_tokens": Refused("use max_output_tokens"),
    "max_completion_tokens": Refused(_LENGTH),
    "n_predict": Refused("use max_output_tokens"),
    "reasoning_effort": Refused("use reasoning.effort"),
    "stop": Refused(_OPENAI),
    "frequency_penalty": Refused(_OPENAI, (0,)),
    "presence_penalty": Refused(_OPENAI, (0,)),
    "min_p": Refused(_OPTIONS),
    "repetition_penalty": Refused(_OPTIONS, (1,)),
    "repeat_penalty": Refused("use repetition_penalty in options", (1,)),
    "seed": Refused("use random_seed in options", (-1,)),
}
"""Fields that only some of the routes honour."""

REFUSED = {**EVERYWHERE, **CHAT, **ONLY_OPENAI, **_OF_OTHER_ROUTES}

WITHOUT_EFFECT = {
    "length_penalty": "belongs to beam search",
    "early_stopping": "belongs to beam search",
    "guided_decoding_backend": "there is one backend",
    "n_keep": "a full context ends the text, and is never shifted",
    "n_discard": "a full context ends the text, and is never shifted",
    "id_slot": "the scheduler chooses",
    "priority": "requests are served in turn",
    "cache_salt": "about the cache only",
    "prediction": "about speed only",
    "service_tier": "about speed only",
    "user": "about the client only",
    "safety_identifier": "about the client only",
    "metadata": "about the client only",
    "store": "nothing is stored",
    "timings_per_token": "the last chunk has `timings`",
    "return_progress": "about the answer's shape only",
}
"""Fields that are ignored because they change nothing here, and why."""


def refused(*names: str, wire: Callable[[str], str] = str) -> Group:
    """The named fields for a dialect."""
    return Group(tuple(_entries(names, wire)))


def _entries(names: tuple[str, ...], wire: Callable[[str], str]) -> Iterator[Entry]:
    for name in names:
        known = REFUSED[name]
        schema = {"enum": [None, *known.neutral]}
        field = Field(
            _doc(known),
            kind=RefusedKind(read=_reader(known), schema=schema, is_shown=False, refused=known),
            wire=wire(name),
        )
        yield Entry(f"refused:{name}", object, field)


def _doc(known: Refused) -> str:
    if not known.neutral:
        return f"Refused: {known.reason}."
    return f"Refused unless it is {_values(known)}: {known.reason}."


def _values(known: Refused) -> str:
    return " or ".join(json.dumps(value) for value in known.neutral)


def _reader(known: Refused) -> Callable[[Any, str], None]:
    def read(value: Any, name: str) -> None:
        if value in ("", [], {}) or any(_is_same(value, neutral) for neutral in known.neutral):
            return
        if known.neutral:
            raise FieldError(name, f"must be {_values(known)}, got {shown(value)}: {known.reason}")
        raise FieldError(name, f"is not supported: {known.reason}")

    return read


def _is_same(value: Any, neutral: Any) -> bool:
    return isinstance(value, bool) == isinstance(neutral, bool) and value == neutral
