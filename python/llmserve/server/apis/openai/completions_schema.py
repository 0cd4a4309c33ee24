"""Wire types of `/v1/completions`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Any

from llmserve.server.apis.openai.schema import PROMPT_LOGPROBS, SamplingFields, token_limit
from llmserve.server.fields.refused import EVERYWHERE, RAW_PROMPT, refused
from llmserve.server.fields.sampling import MAX_COUNT
from llmserve.server.web.field_kinds import unchecked
from llmserve.server.web.fields import Field, Values
from llmserve.server.web.token_kinds import PROMPTS, Prompts

DEFAULT_MAX_TOKENS = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenAiCompletionRequest(SamplingFields):
    """A completion of one prompt or several. Null counts as absent."""

    prompt: Annotated[
        Prompts,
        Field(
            "Texts or token ids, unchanged: the text of control tokens is read as control tokens.",
            kind=PROMPTS,
            example="Once upon a time",
        ),
    ]
    max_tokens: Annotated[
        int | None,
        Field(
            "Maximum number of tokens; -1 for up to the context length. 0 generates nothing, for `echo` and "
            "`prompt_logprobs`. "
            f"Default: {DEFAULT_MAX_TOKENS}.",
            minimum=-1,
            maximum=MAX_COUNT,
        ),
    ] = None
    best_of: Annotated[int | None, Field("Must equal `n` if given.")] = None
    echo: Annotated[bool, Field("Begin the text with the prompt.")] = False
    logprobs: Annotated[
        int | None,
        Field(
            "Give log-probabilities, with this number of alternatives for each token; with `echo`, also for "
            "the prompt.",
            engine=("logprobs", "prompt_logprobs"),
            minimum=0,
            maximum=100,
        ),
    ] = None
    prompt_logprobs: Annotated[int | None, PROMPT_LOGPROBS] = None
    suffix: Annotated[
        Any,
        Field(
            "Refused: put the model's own infill tokens into the prompt.", kind=unchecked({"type": "string"})
        ),
    ] = None
    include_stop_str_in_output: Annotated[
        bool, Field("vLLM's: end the text with the stop string that ended the generation.")
    ] = False
    truncate_prompt_tokens: Annotated[
        int | None, Field("Keep only this number of tokens, the last ones, of each prompt.", minimum=1)
    ] = None
    refused: Annotated[
        Values,
        refused(
            *EVERYWHERE,
            *RAW_PROMPT,
            "top_logprobs",
        ),
    ] = field(default_factory=dict)

    @property
    def num_tokens_wanted(self) -> int:
        """The limit on tokens; -1 is the context length."""
        given = token_limit(self)
        return DEFAULT_MAX_TOKENS if given is None else given

    @property
    def num_prompt_alternatives(self) -> int | None:
        """The number of alternatives for each token of the prompt; `None` if it is not to be scored."""
        echoed = self.logprobs if self.echo else None
        return echoed if self.prompt_logprobs is None else max(self.prompt_logprobs, echoed or 0)
