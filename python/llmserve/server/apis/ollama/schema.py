"""Wire types of the routes that generate. The field names exist here only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar

from llmserve.server.apis.ollama.field_kinds import FORMAT, KEEP_ALIVE, MESSAGES, THINK
from llmserve.server.fields.foreign import CONSTRAINTS, FOREIGN, Refused
from llmserve.server.fields.refused import Refusals
from llmserve.server.fields.sampling import MAX_COUNT, RANDOM_SEED, SAMPLING
from llmserve.server.fields.table import Differences, group
from llmserve.server.web.field_kinds import OBJECTS
from llmserve.server.web.fields import Field, Group, Values
from llmserve.server.web.token_kinds import TOKEN_IDS

_DIFFERENCES: Mapping[str, Differences] = {
    "temperature": {"default": 0.8},
    "top_k": {"minimum": -1, "default": 40, "doc": "Keep the `k` likeliest tokens; 0 and -1 are off."},
    "top_p": {"default": 0.9},
    "typical_p": {},
    "repetition_penalty": {"wire": "repeat_penalty", "default": 1.1, "minimum": 0.001},
    "repeat_last_n": {"default": 64},
    "seed": {"default": RANDOM_SEED},
    "mirostat": {},
    "mirostat_tau": {},
    "mirostat_eta": {},
}
"""How Ollama's options differ from the table."""

OPTIONS = Group(group(SAMPLING, _DIFFERENCES, without=("logit_bias",)).entries, is_filled=False)
"""The options that say how tokens are drawn. Those that are not given have the defaults of the model's
settings, or these."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OllamaOptions:
    """How tokens are drawn."""

    sampling: Annotated[Values, OPTIONS] = field(default_factory=dict)
    num_predict: Annotated[
        int | None,
        Field(
            "Maximum number of tokens; 0 and less: up to the context length.",
            engine="max_tokens",
            minimum=-2,
            maximum=MAX_COUNT,
        ),
    ] = None
    foreign: ClassVar = Refusals(
        {
            "max_tokens": Refused("use num_predict"),
            **{
                name: Refused("it belongs beside options", known.neutral, known.may_be_empty)
                for name, known in FOREIGN.items()
                if name in ("format", "think", "tools", "messages", "prompt", "system", "template", "suffix")
            },
            **{
                name: Refused("use format, beside options", known.neutral, known.may_be_empty)
                for name, known in CONSTRAINTS.items()
                if name not in ("format", "options")
            },
        }
    )


_IN_OPTIONS = "put it into options"
_BODY: Mapping[str, Refused] = {
    **{
        name: Refused("use format", known.neutral, known.may_be_empty)
        for name, known in CONSTRAINTS.items()
        if name not in ("format", "options")
    },
    **{
        name: Refused(_IN_OPTIONS, FOREIGN[name].neutral if name in FOREIGN else ())
        for name in (entry.field.wire or entry.name for entry in OPTIONS.entries)
    },
    "num_predict": Refused(_IN_OPTIONS, (-1,)),
    "images": Refused("llmserve reads text only"),
    # Whichever it is, a prompt that does not fit is refused.
    "truncate": Refused("it is a boolean, and prompts are never truncated", (True, False)),
    "reasoning_effort": Refused("use think"),
}
"""What all bodies say of fields that they do not have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OllamaRequest:
    """What both routes that generate have."""

    model: Annotated[str, Field("A model's name, as `GET /api/tags` lists them.", non_empty=True)]
    stream: Annotated[bool, Field("Answer with lines of JSON.")] = True
    format: Annotated[
        str | None,
        Field(
            '`"json"`, or a JSON Schema. The output always conforms to it.', engine="json_schema", kind=FORMAT
        ),
    ] = None
    options: Annotated[OllamaOptions, Field("How tokens are drawn.")] = field(default_factory=OllamaOptions)
    think: Annotated[
        bool | str | None,
        Field("Whether the model reasons before it answers, or how much. Default: as it likes.", kind=THINK),
    ] = None
    keep_alive: Annotated[
        float | None,
        Field(
            "How long the idle model stays loaded: seconds, or a duration such as `5m`. 0 unloads it, less "
            "is for ever. Default: until its memory is needed.",
            kind=KEEP_ALIVE,
        ),
    ] = None
    logprobs: Annotated[bool, Field("Give log-probabilities of the answer's tokens.")] = False
    top_logprobs: Annotated[
        int | None, Field("Number of alternatives for each token.", minimum=0, maximum=20)
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OllamaChatRequest(OllamaRequest):
    """The next turn of a conversation. Null counts as absent."""

    messages: Annotated[
        tuple[dict[str, Any], ...],
        Field(
            "The whole conversation. Without any, the model is loaded, or unloaded if `keep_alive` is 0.",
            engine="prompt",
            kind=MESSAGES,
            example=[{"role": "user", "content": "Say hello."}],
        ),
    ] = ()
    tools: Annotated[
        tuple[dict[str, Any], ...], Field("Functions that the model may call.", kind=OBJECTS)
    ] = ()
    foreign: ClassVar = Refusals(
        {
            **_BODY,
            "prompt": Refused("use messages"),
            "system": Refused("use a message of the role system"),
            "template": Refused("only /api/generate takes one"),
        }
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class OllamaGenerateRequest(OllamaRequest):
    """A prompt to answer, or to go on with. Null counts as absent."""

    prompt: Annotated[
        str,
        Field(
            "The user's message, or with `raw` the whole prompt. Without one, the model is loaded, or "
            "unloaded if `keep_alive` is 0.",
            example="Why is the sky blue?",
        ),
    ] = ""
    raw: Annotated[bool, Field("Use the prompt as it is, without the chat template.")] = False
    system: Annotated[str, Field("The system message.")] = ""
    template: Annotated[
        str,
        Field(
            "A chat template (Jinja, not Go), or the name of one of the model's. Refused unless the server's "
            "setting `LLMSERVE_REQUEST_CHAT_TEMPLATE` is on."
        ),
    ] = ""
    suffix: Annotated[str, Field("Text that follows the answer, for models with infill tokens.")] = ""
    context: Annotated[
        list[int] | None,
        Field("The `context` of an earlier answer, which this prompt goes on from.", kind=TOKEN_IDS),
    ] = None
    foreign: ClassVar = Refusals(
        {**_BODY, "messages": Refused("use /api/chat"), "tools": Refused("use /api/chat")}
    )
