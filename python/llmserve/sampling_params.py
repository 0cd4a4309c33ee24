"""Sampling parameters: how tokens are drawn and when a generation ends."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from llmserve import _core
from llmserve._binding.schemas import JsonSchema, schema_text
from llmserve.field_names import check_names

__all__ = ["ALL_SAMPLERS", "DEFAULT_SAMPLERS", "SamplingParams"]

DEFAULT_SAMPLERS = (
    "penalties",
    "dry",
    "temperature",
    "top_n_sigma",
    "top_k",
    "typ_p",
    "top_p",
    "min_p",
    "xtc",
)
"""The order of the samplers."""

ALL_SAMPLERS = (*DEFAULT_SAMPLERS, "infill", "adaptive_p")
"""The names of all samplers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplingParams:
    """How tokens are drawn and when the generation ends.

    The constructor validates the fields: `InvalidParameterError` names the first one that is out of range.
    `samplers` is the order in which penalties, temperature and truncation are applied.
    """

    max_tokens: int | None = None
    """Maximum number of tokens to generate; `None` allows as many as fit into the context length. 0 only with
    `prompt_logprobs`."""
    temperature: float = 0.0
    """0 always takes the likeliest token (greedy)."""
    top_k: int = 0
    """Keep the `k` likeliest tokens; 0 is off."""
    top_p: float = 1.0
    """Keep the smallest set of tokens with at least this probability; 1 is off."""
    min_p: float = 0.0
    """Keep tokens with at least this share of the likeliest token's probability; 0 is off."""
    typical_p: float = 1.0
    """Keep the tokens whose surprise is closest to the entropy, with at least this probability together
    (locally typical sampling, Meister et al. 2022); 1 is off."""
    top_n_sigma: float = 0.0
    """Keep tokens whose logit is at most this many standard deviations of all logits below the largest
    (Tang et al. 2024); 0 is off."""
    xtc_probability: float = 0.0
    """How often XTC (pew, 2024) leaves out the likeliest tokens; 0 is off."""
    xtc_threshold: float = 0.1
    """XTC leaves out the tokens with at least this probability, all but the least likely of them; above 0.5
    is off."""
    dynatemp_range: float = 0.0
    """The temperature lies at most this far below or above `temperature`, the lower the more certain the
    model is; 0 is off."""
    dynatemp_exponent: float = 1.0
    """The power to which the entropy, as a share of the largest possible, is raised for `dynatemp_range`."""
    adaptive_target: float = -1.0
    """Adaptive-p (MrJackSpade, 2025), if `samplers` names it (`adaptive_p`), draws tokens with a probability
    close to this target, which moves against what was drawn; negative is off."""
    adaptive_decay: float = 0.9
    """How much of a token's part in the mean that moves the target is left after the next one, 0 to 0.99."""
    mirostat: int = 0
    """Mirostat (Basu et al. 2021) takes the place of all truncation: 1, or 2 for Mirostat 2.0; 0 is off."""
    mirostat_tau: float = 5.0
    """The surprise of the drawn tokens, in bits, that Mirostat aims at."""
    mirostat_eta: float = 0.1
    """How fast Mirostat adapts."""
    samplers: Sequence[str] = DEFAULT_SAMPLERS
    """The samplers in their order; what is not named is off, and what is named twice is applied twice."""
    min_tokens_to_keep: int = 1
    """Truncation keeps at least this many tokens."""
    repetition_penalty: float = 1.0
    """Divides positive and multiplies negative logits of tokens in prompt and output (CTRL, Keskar et al.
    2019); 1 is off."""
    frequency_penalty: float = 0.0
    """Subtracted from a logit for each occurrence in the output, -100 to 100."""
    presence_penalty: float = 0.0
    """Subtracted once from the logit of each token in the output, -100 to 100."""
    repeat_last_n: int | None = None
    """The three penalties look at this many last tokens of prompt and output; 0 turns them off. `None`:
    repetition looks at the whole prompt and output, the other two at the whole output."""
    dry_multiplier: float = 0.0
    """DRY (pew, 2024) subtracts `dry_multiplier * dry_base ** (n - dry_allowed_length)` from the logit of a
    token that would continue a repetition of `n` tokens; 0 is off."""
    dry_base: float = 1.75
    """The base of the DRY penalty, at least 1."""
    dry_allowed_length: int = 2
    """DRY does not penalise shorter repetitions; at least 1."""
    dry_penalty_last_n: int = 64
    """DRY looks for repetitions in this many last tokens of prompt and output; 0 is off."""
    dry_sequence_breakers: Sequence[str] = ("\n", ":", '"', "*")
    """Texts that no repetition extends across, at most 64."""
    no_repeat_ngram_size: int = 0
    """No n-gram of this size may occur twice in prompt and output; 0 is off."""
    logit_bias: Mapping[int, float] = field(default_factory=dict)
    """Added to the logits of token ids; minus infinity bans a token."""
    banned_sequences: Sequence[Sequence[int]] = ()
    """Sequences of token ids that do not occur in the output: the last token of one is not drawn where the
    output ends with the others."""
    allowed_token_ids: Sequence[int] | None = None
    """The only tokens that may be drawn, at most 4,096; `None` is all. Without an end-of-generation token the
    text ends at a limit. Not beside a constraint on the output."""
    seed: int | None = None
    """Keys each draw, together with `choice_index` and the number of tokens so far: 0 to 2**64 - 1.
    `None` picks a random one, which the completion reports."""
    choice_index: int = 0
    """Which of several choices for one prompt this is."""
    min_tokens: int = 0
    """End-of-generation tokens are not drawn before this many tokens."""
    ignore_eos: bool = False
    """End-of-generation tokens are never drawn."""
    stop: Sequence[str] = ()
    """Strings that end the generation and are not part of the output; a single `str` is one such string."""
    stop_token_ids: Sequence[int] = ()
    """Tokens that end the generation, at most 4,096. JSON documents are not ended by them, nor by `stop`."""
    max_total_tokens: int | None = None
    """Maximum number of tokens in prompt and output together; `None` is the context length."""
    json_schema: JsonSchema | None = None
    """The output is a JSON document that this JSON Schema accepts: a mapping, its text, `True` (any JSON
    value) or a Pydantic model class. Stored as text. Stop strings are then ignored."""
    regex: str | None = None
    """The whole output matches this regular expression."""
    grammar: str | None = None
    """The output conforms to this context-free grammar (llguidance's variant of Lark)."""
    logprobs: int | None = None
    """Report log-probabilities with this many alternatives, 0 to 100; `None` turns them off."""
    prompt_logprobs: int | None = None
    """Report log-probabilities of the prompt's tokens with this many alternatives, 0 to 100; `None` turns
    them off. The whole prompt is then computed, since cached cells have none."""
    prompt_progress: bool = False
    """Report after each step how much of the prompt is computed: deltas with `progress` before the output."""
    cache_prompt: bool = True
    """Reuse the KV cells of an equal prefix, and keep this request's cells for later requests."""
    prefill_step_size: int | None = None
    """Maximum number of prompt tokens that are computed in one step."""

    def __post_init__(self) -> None:
        if isinstance(self.stop, str):
            object.__setattr__(self, "stop", (self.stop,))
        if self.json_schema is not None:
            object.__setattr__(self, "json_schema", schema_text(self.json_schema))
        _core.check_params(self)
        # Copies, so that the checked values cannot change.
        for name in ("stop", "samplers", "dry_sequence_breakers"):
            object.__setattr__(self, name, tuple(getattr(self, name)))
        object.__setattr__(self, "stop_token_ids", tuple(self.stop_token_ids))
        object.__setattr__(self, "banned_sequences", tuple(map(tuple, self.banned_sequences)))
        if self.allowed_token_ids is not None:
            object.__setattr__(self, "allowed_token_ids", tuple(self.allowed_token_ids))
        object.__setattr__(self, "logit_bias", dict(self.logit_bias))

    def replace(self, **changes: Any) -> SamplingParams:
        """A copy with some fields changed. Raises `TypeError` for an unknown field."""
        check_names("sampling parameter", changes, SamplingParams)
        return replace(self, **changes)
