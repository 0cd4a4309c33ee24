"""Wire types of the embedding routes: OpenAI's, and llama-server's."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from llmserve.server.fields.foreign import Refused
from llmserve.server.fields.refused import Refusals
from llmserve.server.refusals import FieldError
from llmserve.server.web.field_kinds import one_of
from llmserve.server.web.fields import Field, Kind
from llmserve.server.web.token_kinds import PROMPTS, Prompts, read_prompts

MAX_INPUTS = 2048
"""Maximum number of inputs in one request, as OpenAI has it."""


def _read_inputs(value: Any, name: str) -> Prompts:
    inputs = read_prompts(value, name)
    if len(inputs) > MAX_INPUTS:
        raise FieldError(name, f"must have at most {MAX_INPUTS} inputs, got {len(inputs)}", limit=MAX_INPUTS)
    return inputs


_INPUTS = Kind(_read_inputs, PROMPTS.schema)


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddingsRequest:
    """Inputs to embed."""

    model: Annotated[str, Field("The id of an embedding model.", non_empty=True)]
    input: Annotated[
        Prompts,
        Field(
            f"A text, token ids, or up to {MAX_INPUTS} of either. Ids are used unchanged.",
            kind=_INPUTS,
            example="The sea is deep.",
        ),
    ]
    encoding_format: Annotated[
        str,
        Field(
            "Numbers, or base64 of 32-bit floats, little-endian.",
            kind=one_of("float", "base64"),
        ),
    ] = "float"
    dimensions: Annotated[
        int | None,
        Field(
            "Keep only this many leading values of each vector, and scale it to length 1 again. For models "
            "trained for that.",
            minimum=1,
            maximum=2**31 - 1,
        ),
    ] = None
    foreign: ClassVar = Refusals(known={"truncate_prompt_tokens": Refused("inputs are never truncated")})


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddingRequest:
    """Inputs to embed, as llama-server has them."""

    content: Annotated[
        Prompts | None,
        Field("A text, token ids, or several.", kind=_INPUTS, example="The sea is deep."),
    ] = None
    input: Annotated[Prompts | None, Field("Another name for `content`.", kind=_INPUTS)] = None
    model: Annotated[str | None, Field("A model's id; by default the first embedding model.")] = None
    embd_normalize: Annotated[
        int, Field("2 scales vectors to length 1, -1 leaves them unchanged.", minimum=-1, maximum=2)
    ] = 2
