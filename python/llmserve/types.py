"""The data types of the API: messages, results, statistics."""

from __future__ import annotations

import builtins
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from llmserve.chat import ChatPrompt, NextTurn
from llmserve.model_config import KvLayout, KvType, LoraAdapter, ModelConfig, RopeScaling
from llmserve.sampling_params import SamplingParams

__all__ = [
    "CachedTokens",
    "ChatMessage",
    "ChatPrompt",
    "Completion",
    "Delta",
    "FinishReason",
    "KvLayout",
    "KvType",
    "LoraAdapter",
    "ModelConfig",
    "ModelInfo",
    "NextTurn",
    "PromptProgress",
    "PromptToken",
    "RopeScaling",
    "SamplingParams",
    "SessionInfo",
    "Stats",
    "Timings",
    "Token",
    "TokenLogprobs",
    "Usage",
]

ChatMessage: TypeAlias = Mapping[str, Any]
FinishReason: TypeAlias = Literal["stop", "length", "cancelled"]

_SHOWN_TEXT = 80
"""How many characters of a text its `repr` has."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenLogprobs:
    """Log-probabilities at one position: the log-softmax of the raw logits (natural logarithm).

    Minus infinity is possible.
    """

    logprob: float
    """Log-probability of the token."""
    top: tuple[tuple[int, float], ...]
    """The likeliest tokens (id, log-probability), best first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    """A drawn token."""

    id: int
    """The token's number in the vocabulary."""
    bytes: builtins.bytes
    """The token's bytes, which may be part of a UTF-8 character; empty for a control token."""
    text: str
    """The text that this token released; empty while a character or a stop string may be incomplete."""
    logprobs: TokenLogprobs | None = None
    """The log-probabilities, if they were requested."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptToken:
    """A token of the prompt."""

    id: int
    """The token's number in the vocabulary."""
    bytes: builtins.bytes
    """The token's bytes, which may be part of a UTF-8 character; empty for a control token."""
    logprobs: TokenLogprobs | None = None
    """The log-probabilities; `None` for the first token, which nothing precedes."""
    rank: int | None = None
    """1 for the likeliest token: one more than the number of likelier tokens."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptProgress:
    """How much of a prompt is computed."""

    total_tokens: int
    """Number of prompt tokens."""
    cached_tokens: int
    """Prompt tokens that were taken from the prefix cache."""
    computed_tokens: int
    """Prompt tokens whose KV cells are there, including cached ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Delta:
    """New output of a stream, from one step or, if the reader was slow, from several."""

    text: str
    """The new text; the texts of all deltas together are the text of the completion."""
    tokens: tuple[Token, ...]
    """The new tokens, including the end-of-generation token."""
    prompt: tuple[PromptToken, ...] = ()
    """The next tokens of the prompt, if `prompt_logprobs` is set. Such deltas come first, without output."""
    progress: PromptProgress | None = None
    """How much of the prompt is computed, if `prompt_progress` is set. Such deltas come first, without
    output."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Token counts of a request."""

    prompt_tokens: int = 0
    """Number of prompt tokens, including cached ones."""
    cached_tokens: int = 0
    """Prompt tokens that were taken from the prefix cache."""
    completion_tokens: int = 0
    """Number of generated tokens, including the end-of-generation token."""
    draft_tokens: int = 0
    """Tokens that a drafter proposed."""
    accepted_tokens: int = 0
    """Proposed tokens that were accepted."""

    @property
    def total_tokens(self) -> int:
        """Number of tokens in prompt and completion together."""
        return self.prompt_tokens + self.completion_tokens


@dataclass(frozen=True, slots=True, kw_only=True)
class Timings:
    """Durations of a request, in seconds."""

    queue_s: float = 0.0
    """From submission until the request left the queue."""
    prefill_s: float = 0.0
    """From leaving the queue until the first token was drawn."""
    decode_s: float = 0.0
    """From the first token to the last."""
    time_to_first_token_s: float = 0.0
    """From submission until the first token was drawn."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Completion:
    """A finished generation."""

    text: str
    """The generated text."""
    tokens: tuple[Token, ...]
    """Every generated token."""
    finish_reason: FinishReason
    """`stop`: an end-of-generation token, stop token or stop string; `length`: the token limit or the context
    length; `cancelled`: the client cancelled the request."""
    usage: Usage
    """Token counts."""
    timings: Timings
    """Durations."""
    seed: int
    """The seed that keyed the draws."""
    stop: str | None
    """The stop string that ended the generation, if any."""
    is_complete: bool = True
    """Whether constrained output is complete. It always is, except for some cancelled requests, and for texts
    of a `regex` or `grammar` that the token limit cut off."""
    prompt: tuple[PromptToken, ...] = ()
    """Every token of the prompt, if `prompt_logprobs` is set."""

    def __repr__(self) -> str:
        # The tokens would fill the screen.
        text = self.text if len(self.text) <= _SHOWN_TEXT else f"{self.text[:_SHOWN_TEXT]}…"
        return (
            f"<Completion {text!r}, finish_reason={self.finish_reason!r}, "
            f"tokens={self.usage.prompt_tokens}+{self.usage.completion_tokens}>"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelInfo:
    """Facts about a loaded model."""

    description: str
    """llama.cpp's description, such as `llama 256M Q4_1`. The size in it is a guess by the number of layers:
    `num_parameters` is the true one."""
    architecture: str
    """The name of the model's architecture, as in its file."""
    num_parameters: int
    """Number of weights."""
    size_bytes: int
    """Size of the weights, in bytes."""
    trained_context_length: int
    """The context length that the model was trained with, in tokens."""
    context_length: int
    """Maximum number of tokens in one sequence on this engine."""
    num_cells: int
    """Total number of KV cells (tokens) of all sequences."""
    kv_bytes_per_token: int | None
    """Bytes that each KV cell takes at most; `None` if the cache does not grow with the text."""
    num_slots: int
    """Maximum number of sequences that are computed together."""
    num_threads: int
    """Number of compute threads."""
    backend: str
    """The device that computes the layers: `CPU`, or the GPUs that have layers."""
    num_layers: int
    """Number of layers, without the output layer."""
    num_gpu_layers: int
    """Number of layers on GPUs, including the output layer."""
    vocabulary_size: int
    """Number of tokens in the vocabulary."""
    embedding_length: int
    """Width of the hidden state, or of an embedding model's vectors; a ranking model's number of scores."""
    pooling: str
    """How an embedding model pools its vectors: `mean`, `cls` or `last`; `rank` if it ranks documents; empty
    for other models."""
    metadata: Mapping[str, str]
    """The file's metadata as text, without arrays."""
    chat_template: str | None
    """The default chat template (Jinja)."""
    chat_templates: Mapping[str, str]
    """Named variants of the chat template."""
    bos_token: int | None
    """Id of the token that begins a text."""
    eos_token: int | None
    """Id of the token that ends a text."""
    bos_text: str
    """Text of `bos_token`; empty if there is none."""
    eos_text: str
    """Text of `eos_token`; empty if there is none."""
    special_tokens: Mapping[str, str]
    """Texts of the special tokens, by Hugging Face's names (`bos_token`, `unk_token`, ...)."""
    infill_tokens: Mapping[str, int]
    """Ids of the tokens that frame code to be filled in, as far as the vocabulary has them: `prefix`,
    `suffix`, `middle`, `repository` and `file`."""
    control_tokens: Sequence[str]
    """Texts of the control tokens."""
    end_tokens: Sequence[str]
    """Texts of the tokens that end a generation."""
    kv_type_k: str
    """Type of the K cache."""
    kv_type_v: str
    """Type of the V cache."""
    kv_layout: str
    """`per_sequence` or `unified`."""
    is_recurrent: bool
    """Whether the model keeps a recurrent state, which cannot be rolled back in part."""
    has_draft_head: bool
    """Whether the model has its own draft head (multi-token prediction, MTP)."""
    sliding_window: int
    """Size of the attention window in tokens, or 0 if the model has none."""
    fingerprint: str
    """Identifies the weights, including adapters: 64 hexadecimal digits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stats:
    """A snapshot of an engine's state and counters. Counters only grow."""

    num_preparing: int
    """Requests whose prompt is being tokenized, or that are waiting for their turn in a session."""
    num_waiting: int
    """Requests that are waiting for a slot."""
    num_running: int
    """Sequences in the batch."""
    num_slots: int
    """Maximum number of sequences that are computed together."""
    num_cells: int
    """Total number of KV cells of all sequences."""
    num_used_cells: int
    """KV cells in use, including cached tokens."""
    num_running_cells: int
    """KV cells of the sequences in the batch."""
    context_length: int
    """Maximum number of tokens in one sequence."""
    num_threads: int
    """Number of compute threads."""
    parked_bytes: int
    """Host memory used by parked sequences, in bytes."""
    requests_accepted: int
    """Requests that were accepted into the queue."""
    requests_refused: int
    """Requests that were refused."""
    requests_stopped: int
    """Requests that finished with `stop`."""
    requests_length: int
    """Requests that finished with `length`."""
    requests_cancelled: int
    """Requests that were cancelled."""
    requests_failed: int
    """Requests that failed."""
    prompt_tokens: int
    """Prompt tokens of started requests, including cached ones."""
    cached_tokens: int
    """Prompt tokens that were taken from the prefix cache."""
    completion_tokens: int
    """Generated tokens."""
    draft_tokens: int
    """Tokens proposed by drafters."""
    accepted_tokens: int
    """Proposed tokens that were accepted."""
    drafts: int
    """Drafts that were verified."""
    draft_seconds: float
    """Seconds spent in the draft context."""
    num_draft_users: int
    """Number of users of the draft context: one for each `Drafting` of `mtp`, until it is closed and the last
    request that uses it has ended."""
    preemptions: int
    """Times that a sequence lost its slot to others and resumed later."""
    steps: int
    """Number of steps."""
    rows: int
    """Number of rows in all steps."""
    prefill_rows: int
    """Number of rows of prompts among them."""
    decode_seconds: float
    """Seconds spent in llama.cpp."""
    overhead_seconds: float
    """Seconds spent in steps outside llama.cpp."""
    constraints: int
    """Requests whose constraint was compiled or found compiled."""
    constraint_seconds: float
    """Seconds that their compilation took."""
    load_seconds: float
    """Seconds that the load of the model took."""

    @property
    def acceptance(self) -> float | None:
        """Share of proposed tokens that were accepted, 0 to 1; `None` if none was proposed."""
        return self.accepted_tokens / self.draft_tokens if self.draft_tokens else None


@dataclass(frozen=True, slots=True, kw_only=True)
class CachedTokens:
    """Token ids whose KV cells exist and may be used by every request, as may those of their beginnings."""

    in_slots: tuple[memoryview[int], ...]
    """Those in slots, of running and of finished requests."""
    parked: tuple[memoryview[int], ...]
    """Those in host memory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionInfo:
    """The header of a session file."""

    version: int
    """Format version."""
    writer: str
    """Program and version that wrote the file."""
    created_s: int
    """Time at which the file was written, in seconds since 1970."""
    fingerprint: str
    """`ModelInfo.fingerprint` of the session's model."""
    architecture: str
    """The model's architecture."""
    description: str
    """The model in one line."""
    num_tokens: int
    """Number of tokens."""
    is_templated: bool
    """Whether the tokens come from a chat template."""
    num_state_tokens: int
    """Number of leading tokens that the KV state covers; 0 if there is no state."""
    state_bytes: int
    """Size of the KV state, in bytes."""
    state_layout: str
    """Everything but the weights that the KV state depends on; empty if there is no state."""
    file_bytes: int
    """Size of the file, in bytes."""
