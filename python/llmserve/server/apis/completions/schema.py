"""What a completion may be asked with: names, types, limits and defaults of the fields."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated

from llmserve.server.web.schema import Field

MAX_SEED = 2**31 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class CompletionOptions:
    """Advanced sampling and inference options. All fields are optional; negative numbers count as 0."""

    min_p: Annotated[
        float,
        Field(
            "Keep tokens with at least this share of the likeliest one's probability. 0 = disabled.",
            example=0.05,
            format="float",
            maximum=1,
        ),
    ] = 0.05
    min_tokens_to_keep: Annotated[
        int, Field("Truncation keeps at least this many tokens.", format="int32")
    ] = 1
    repetition_penalty: Annotated[
        float,
        Field(
            "Penalty for tokens of prompt and output. 1.0, or 0 and less = no penalty.",
            example=1.1,
            format="float",
        ),
    ] = 1.0
    length_penalty: Annotated[
        float | None, Field("Belongs to beam search: accepted and reported as ignored.", format="float")
    ] = None
    diversity_penalty: Annotated[
        float | None, Field("Belongs to beam search: accepted and reported as ignored.", format="float")
    ] = None
    no_repeat_ngram_size: Annotated[
        int, Field("No n-gram of this size occurs twice in prompt and output. 0 = disabled.", format="int32")
    ] = 0
    random_seed: Annotated[
        int,
        Field(
            "Random seed for reproducible sampling. -1 = random. The one used is in X-LLMServe-Seed.",
            example=42,
            format="int32",
            minimum=-1,
            maximum=MAX_SEED,
        ),
    ] = -1
    max_kv_size: Annotated[
        int,
        Field(
            "The most tokens of prompt and output together; a longer prompt is refused. 0 = the context "
            "length.",
            format="int32",
        ),
    ] = 0
    prefill_step_size: Annotated[
        int, Field("No prompt chunk of this request is longer. 0 = as the server plans.", format="int32")
    ] = 0
    kv_bits: Annotated[
        int | None,
        Field(
            "KV cache quantization bits: a setting of the server, reported as ignored unless it is the "
            "model's.",
            format="int32",
        ),
    ] = None
    kv_group_size: Annotated[
        int | None,
        Field("KV cache quantization group size: accepted and reported as ignored.", format="int32"),
    ] = None
    quantized_kv_start: Annotated[
        int | None,
        Field(
            "Layer index where quantized KV cache starts: a setting of the server, reported as ignored "
            "unless it is the model's (0 with a quantized cache).",
            format="int32",
        ),
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CompletionRequest:
    """What to generate. Negative numbers count as 0, null as absent."""

    model: Annotated[
        str,
        Field(
            "Path of a loaded model; links are followed on both sides.",
            example="/models/SmolLM2-135M-Instruct-Q4_K_M.gguf",
            non_empty=True,
        ),
    ]
    prompt: Annotated[
        str,
        Field(
            "Input text to generate from, as it is: the text of control tokens is read as control tokens.",
            example="<|im_start|>user\nWhat is the capital of France?<|im_end|>\n<|im_start|>assistant\n",
        ),
    ]
    stream: Annotated[bool, Field("If true, tokens are streamed via SSE as they are generated.")] = False
    max_tokens: Annotated[
        int,
        Field(
            "Maximum number of tokens to generate; the context length ends generation too. 0 means no "
            "generation.",
            example=100,
        ),
    ] = 0
    temperature: Annotated[
        float,
        Field(
            "Sampling temperature. 0.0 = greedy (deterministic argmax). Higher values increase randomness.",
            example=0.7,
            format="float",
        ),
    ] = 0.0
    top_p: Annotated[
        float,
        Field("Nucleus sampling threshold. 0.0 or 1.0 = disabled.", example=0.95, format="float", maximum=1),
    ] = 0.0
    top_k: Annotated[int, Field("Top-k sampling. 0 = disabled.", example=40, format="int32")] = 0
    options: Annotated[CompletionOptions, Field("Advanced sampling and inference options.")] = field(
        default_factory=CompletionOptions
    )
