"""What of the sampling parameters depends on the model: its defaults, and tokens that are named by text."""

from __future__ import annotations

from llmserve.engine import Engine
from llmserve.sampling_params import SamplingParams
from llmserve.server.apis.openai.schema import GenerationFields
from llmserve.server.fields.sampling import with_defaults
from llmserve.server.models.on_demand import UsedModel
from llmserve.server.refusals import FieldError

MAX_TEXTS = 4096
"""The engine takes as many biases, and twice as many banned sequences."""


async def for_model(used: UsedModel, params: SamplingParams, fields: GenerationFields) -> SamplingParams:
    """The parameters with the model's own defaults, with biases of texts, and with banned words.

    A text's bias goes to each of its tokens.
    """
    engine = used.engine
    made = dict(params.logit_bias)
    _check_number(len(fields.bad_words), "bad_words")
    _check_number(len(fields.sampling.get("logit_bias", {})), "logit_bias")
    for text, bias in fields.sampling.get("logit_bias", {}).items():
        if isinstance(text, str):
            made.update(dict.fromkeys(await _tokens(engine, text), bias))
    banned = [
        form
        for index, word in enumerate(fields.bad_words)
        for form in await _forms(engine, word, f"bad_words[{index}]")
    ]
    params = with_defaults(params, used.entry.default_sampling, fields.sampling)
    return params.replace(logit_bias=made, banned_sequences=banned)


def _check_number(number: int, field: str) -> None:
    """Each text is tokenized by itself."""
    if number > MAX_TEXTS:
        raise FieldError(field, f"must have at most {MAX_TEXTS} entries, got {number}", limit=MAX_TEXTS)


async def _forms(engine: Engine, word: str, field: str) -> list[list[int]]:
    """The tokens of a word, at the beginning of a text and after a space."""
    if not (stem := word.lstrip()):
        raise FieldError(field, "must have a word, got none")
    return [await _tokens(engine, form) for form in (stem, " " + stem)]


async def _tokens(engine: Engine, text: str) -> list[int]:
    return await engine.tokenize(text, add_special=False, parse_special=False)
