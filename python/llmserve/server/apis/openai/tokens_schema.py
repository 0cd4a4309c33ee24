"""Wire types of llama-server's token routes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated

from llmserve.server.apis.openai.schema import MODEL
from llmserve.server.web.fields import Field
from llmserve.server.web.token_kinds import PROMPT, TOKEN_IDS, WirePrompt


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenizeRequest:
    """A text to tokenize."""

    content: Annotated[
        WirePrompt | None,
        Field("The text; or texts and token ids in one array.", kind=PROMPT, example="Once upon a time"),
    ] = None
    prompt: Annotated[str | None, Field("vLLM's name of `content`.")] = None
    model: Annotated[str | None, MODEL] = None
    add_special: Annotated[bool, Field("Add what the vocabulary puts around a text (BOS).")] = False
    parse_special: Annotated[bool, Field("Read the text of control tokens as control tokens.")] = True
    with_pieces: Annotated[bool, Field("Give each token's text, or its bytes if they are not a text.")] = (
        False
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class DetokenizeRequest:
    """Tokens to detokenize."""

    tokens: Annotated[list[int], Field("Token ids.", kind=TOKEN_IDS, example=[1, 2, 3])] = field(
        default_factory=list
    )
    model: Annotated[str | None, MODEL] = None
