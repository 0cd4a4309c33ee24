"""llama-server's field `grammar`: the output as a text of a grammar."""

from __future__ import annotations

import anyio.to_thread

from llmserve.sampling_params import SamplingParams
from llmserve.server.apis.openai.schema import SamplingFields
from llmserve.server.grammars import GrammarSyntaxError, ebnf_to_lark
from llmserve.server.refusals import FieldError

MAX_GRAMMAR_BYTES = 64 << 10


async def with_grammar(fields: SamplingFields, params: SamplingParams) -> SamplingParams:
    """The parameters with the request's grammar. Translating a large one takes a while: a thread does it.

    Raises:
        FieldError: The grammar has a mistake, is too large, or is not the only constraint.
    """
    text = fields.grammar
    # llama-server's clients send an empty one for none.
    if not text:
        return params
    if params.json_schema is not None:
        raise FieldError("grammar", "cannot be used with response_format or json_schema: choose one")
    num_bytes = len(text.encode(errors="replace"))
    if num_bytes > MAX_GRAMMAR_BYTES:
        raise FieldError("grammar", f"must have at most {MAX_GRAMMAR_BYTES} bytes, got {num_bytes}")
    try:
        lark = await anyio.to_thread.run_sync(ebnf_to_lark, text)
    except GrammarSyntaxError as error:
        raise FieldError("grammar", f"is no GBNF: {error}") from None
    return params.replace(grammar=lark)
