"""Wire types of `/v1/completions`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

from llmserve.server.apis.openai.schema import MAX_CHOICES, PROMPT_LOGPROBS, SamplingFields, token_limit
from llmserve.server.fields.foreign import Refused
from llmserve.server.fields.refused import Refusals
from llmserve.server.fields.sampling import MAX_COUNT
from llmserve.server.web.fields import Field
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
    suffix: Annotated[
        str | None,
        Field("What follows the text to be written, for models with tokens for that. One prompt, a text."),
    ] = None
    best_of: Annotated[
        int | None,
        Field(
            "Generate this number of texts, at least `n`, and give those whose tokens have the highest mean "
            "log-probability. Default: `n`. More than that are not for streams.",
            minimum=1,
            maximum=MAX_CHOICES,
        ),
    ] = None
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
    foreign: ClassVar = Refusals({"top_logprobs": Refused("use logprobs", (0,))})

    @property
    def num_drawn(self) -> int:
        """The number of texts that are generated for each prompt."""
        return self.n if self.best_of is None else self.best_of

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
