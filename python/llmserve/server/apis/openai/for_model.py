"""What of the sampling parameters depends on the model: its defaults, and tokens that are named by text."""

from __future__ import annotations

import math

from llmserve.engine import Engine
from llmserve.sampling_params import SamplingParams
from llmserve.server.apis.openai.schema import GenerationFields
from llmserve.server.fields.sampling import with_defaults
from llmserve.server.models.on_demand import UsedModel
from llmserve.server.refusals import FieldError

MAX_TEXTS = 4096
"""The engine takes as many biases."""


async def for_model(used: UsedModel, params: SamplingParams, fields: GenerationFields) -> SamplingParams:
    """The parameters with the model's own defaults, with biases of texts, and with banned words.

    A text's bias goes to each of its tokens.

    Raises:
        FieldError: A banned word has several tokens.
    """
    engine = used.engine
    made = dict(params.logit_bias)
    _check_number(len(fields.bad_words), "bad_words")
    _check_number(len(fields.sampling.get("logit_bias", {})), "logit_bias")
    for text, bias in fields.sampling.get("logit_bias", {}).items():
        if isinstance(text, str):
            made.update(dict.fromkeys(await _tokens(engine, text), bias))
    for index, word in enumerate(fields.bad_words):
        for token in await _banned(engine, word, f"bad_words[{index}]"):
            made[token] = -math.inf
    return with_defaults(params, used.entry.default_sampling, fields.sampling).replace(logit_bias=made)


def _check_number(number: int, field: str) -> None:
    """Each text is tokenized by itself."""
    if number > MAX_TEXTS:
        raise FieldError(field, f"must have at most {MAX_TEXTS} entries, got {number}", limit=MAX_TEXTS)


async def _banned(engine: Engine, word: str, field: str) -> list[int]:
    """The tokens of a word, at the beginning of a text and after a space."""
    if not (stem := word.lstrip()):
        raise FieldError(field, "must have a word, got none")
    forms = [await _tokens(engine, form) for form in (stem, " " + stem)]
    tokens = [form[0] for form in forms if len(form) == 1]
    if not tokens:
        num_tokens = min(map(len, forms))
        raise FieldError(field, f"must be a single token of this model, got {num_tokens} tokens", limit=1)
    return tokens


async def _tokens(engine: Engine, text: str) -> list[int]:
    return await engine.tokenize(text, add_special=False, parse_special=False)
