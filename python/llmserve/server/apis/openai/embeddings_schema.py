"""Wire types of the embedding routes: OpenAI's, and llama-server's."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from llmserve.server.conversation.messages import check_parts
from llmserve.server.fields.foreign import Refused
from llmserve.server.fields.refused import Refusals
from llmserve.server.refusals import FieldError
from llmserve.server.web.field_kinds import one_of, read_objects
from llmserve.server.web.fields import Field, Kind
from llmserve.server.web.token_kinds import PROMPTS, Prompts, read_prompts

MAX_INPUTS = 2048
"""Maximum number of inputs in one request, as OpenAI has it."""


def _read_inputs(value: Any, name: str) -> Prompts:
    inputs = read_prompts(_with_texts(value, name), name)
    if len(inputs) > MAX_INPUTS:
        raise FieldError(name, f"must have at most {MAX_INPUTS} inputs, got {len(inputs)}", limit=MAX_INPUTS)
    return inputs


def _with_texts(value: Any, name: str) -> Any:
    """The inputs with llama-server's objects of text parts as texts."""
    if isinstance(value, list):
        named = ((item, f"{name}[{index}]") for index, item in enumerate(value))
        return [_with_texts(item, place) if isinstance(item, dict) else item for item, place in named]
    if not isinstance(value, dict) or "content" not in value:
        return value
    parts = read_objects(value["content"], f"{name}.content")
    check_parts(value["content"], f"{name}.content")
    return "".join(str(part.get("text", "")) for part in parts)


_INPUTS = Kind(_read_inputs, PROMPTS.schema)


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddingsRequest:
    """Inputs to embed."""

    input: Annotated[
        Prompts,
        Field(
            "A text, token ids, both in one array, `{prompt_string}`, or `{content}` with text parts; or up "
            f"to {MAX_INPUTS:,} of these. Ids are used unchanged.",
            kind=_INPUTS,
            example="The sea is deep.",
        ),
    ]
    model: Annotated[
        str | None,
        Field("The id of an embedding model, or the path of a loaded one. Absent: the first of them."),
    ] = None
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
