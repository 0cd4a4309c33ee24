"""llama-server's field `grammar`: the output conforms to a grammar."""

from __future__ import annotations

from llmserve.sampling_params import SamplingParams
from llmserve.server.apis.openai.schema import SamplingFields
from llmserve.server.grammars.requested import read_grammar
from llmserve.server.refusals import FieldError


async def with_grammar(fields: SamplingFields, params: SamplingParams) -> SamplingParams:
    """The parameters with the request's grammar.

    Raises:
        FieldError: The grammar has a mistake, is too large, or is not the only constraint.
    """
    # llama-server's clients send an empty grammar for none.
    if not fields.grammar:
        return params
    if params.json_schema is not None:
        raise FieldError("grammar", "cannot be used with response_format or json_schema: choose one")
    return params.replace(grammar=await read_grammar(fields.grammar, "grammar"))
