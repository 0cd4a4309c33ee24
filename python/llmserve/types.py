"""What goes into an engine and what comes out of it."""

from __future__ import annotations

import builtins
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from llmserve.chat import ChatPrompt, NextTurn
from llmserve.model_config import KvLayout, KvType, LoraAdapter, ModelConfig, RopeScaling
from llmserve.sampling_params import SamplingParams

__all__ = [
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


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenLogprobs:
    """Log-probabilities at one position: the log-softmax of the raw logits (natural logarithm).

    Minus infinity is possible.
    """

    logprob: float
    """Of the drawn token."""
    top: tuple[tuple[int, float], ...]
    """The likeliest tokens (id, log-probability), best first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    """A drawn token."""

    id: int
    """Its number in the vocabulary."""
    bytes: builtins.bytes
    """Its bytes, which need not be whole UTF-8; empty for a control token."""
    text: str
    """The text that it released: empty while a character or a stop string may be incomplete."""
    logprobs: TokenLogprobs | None = None
    """Its log-probabilities, where asked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Delta:
    """New output of a stream: that of one step, or of several if the reader was slow."""

    text: str
    """The text that may be shown; the deltas' texts joined are the completion's."""
    tokens: tuple[Token, ...]
    """The tokens, the end-of-generation token included."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Token counts of a request."""

    prompt_tokens: int
    """Tokens of the prompt, cached ones included."""
    cached_tokens: int
    """Prompt tokens that were taken from the prefix cache."""
    completion_tokens: int
    """Drawn tokens, the end-of-generation token included."""
    draft_tokens: int
    """Tokens that a drafter proposed."""
    accepted_tokens: int
    """Proposed tokens that were accepted."""

    @property
    def total_tokens(self) -> int:
        """Tokens of prompt and completion."""
        return self.prompt_tokens + self.completion_tokens


@dataclass(frozen=True, slots=True, kw_only=True)
class Timings:
    """Durations of a request, in seconds."""

    queue_s: float
    """From submission until it left the queue."""
    prefill_s: float
    """From leaving the queue until the first token was drawn."""
    decode_s: float
    """From the first token to the last."""
    time_to_first_token_s: float
    """From submission until the first token was drawn."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Completion:
    """A finished generation."""

    text: str
    """The text."""
    tokens: tuple[Token, ...]
    """Every drawn token."""
    finish_reason: FinishReason
    """`stop`: an end-of-generation token, stop token or stop string; `length`: the token limit or the context
    length; `cancelled`: by the client."""
    usage: Usage
    """Token counts."""
    timings: Timings
    """Durations."""
    seed: int
    """The seed that keyed the draws."""
    stop: str | None
    """The stop string that ended the generation."""
    is_complete: bool = True
    """Whether constrained output is whole. It is but for some that were cancelled, and for texts of a `regex`
    or `grammar` that the token limit cut."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelInfo:
    """What is known of a loaded model."""

    description: str
    """Like `llama 135M Q4_1`."""
    architecture: str
    """The name of the model's architecture in its file."""
    num_parameters: int
    """Number of weights."""
    size_bytes: int
    """Size of the weights, in bytes."""
    trained_context_length: int
    """Tokens that the model was trained with."""
    context_length: int
    """The most tokens that one sequence may hold here."""
    num_cells: int
    """KV cells (tokens) of all sequences together."""
    num_slots: int
    """The most sequences that are computed together."""
    num_threads: int
    """Compute threads."""
    backend: str
    """What computes the layers: `CPU`, or the GPUs that layers are on."""
    num_layers: int
    """Layers of the model, the output layer aside."""
    num_gpu_layers: int
    """Layers that are on GPUs, the output layer among them."""
    vocabulary_size: int
    """Number of tokens in the vocabulary."""
    embedding_length: int
    """Width of the hidden state; of an embedding model, of its vectors."""
    pooling: str
    """How an embedding model makes one vector of many: `mean`, `cls` or `last`; empty for other models."""
    metadata: Mapping[str, str]
    """The file's metadata as text; arrays are left out."""
    chat_template: str | None
    """The default chat template (Jinja)."""
    chat_templates: Mapping[str, str]
    """Named variants of the chat template."""
    bos_token: int | None
    """Token that begins a text."""
    eos_token: int | None
    """Token that ends a text."""
    bos_text: str
    """Text of `bos_token`; empty where there is none."""
    eos_text: str
    """Text of `eos_token`; empty where there is none."""
    special_tokens: Mapping[str, str]
    """Texts of the tokens that have a role, by Hugging Face's names (`bos_token`, `unk_token`, ...)."""
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
    """Whether the model keeps a recurrent state, of which no part can be taken back."""
    has_draft_head: bool
    """Whether the model has a head of its own that drafts (multi-token prediction, MTP)."""
    sliding_window: int
    """Tokens of the attention window where the model has one, else 0."""
    fingerprint: str
    """What tells these weights, adapters included, from others: 64 hexadecimal digits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stats:
    """A snapshot of an engine's state. Counters only grow."""

    num_preparing: int
    """Requests whose prompt is being tokenized, or that wait for their turn in a session."""
    num_waiting: int
    """Requests that wait for a slot."""
    num_running: int
    """Sequences in the batch."""
    num_slots: int
    """The most sequences that are computed together."""
    num_cells: int
    """KV cells of all sequences together."""
    num_used_cells: int
    """KV cells that hold tokens, cached ones included."""
    context_length: int
    """The most tokens that one sequence may hold."""
    num_threads: int
    """Compute threads."""
    parked_bytes: int
    """Host memory that holds parked sequences, in bytes."""
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
    """Prompt tokens of started requests, cached ones included."""
    cached_tokens: int
    """Prompt tokens that were taken from the prefix cache."""
    completion_tokens: int
    """Drawn tokens."""
    draft_tokens: int
    """Tokens proposed by drafters."""
    accepted_tokens: int
    """Proposed tokens that were accepted."""
    draft_seconds: float
    """Seconds spent in the draft context."""
    num_draft_users: int
    """How many hold the draft context open: one for each `Drafting` of `mtp`, until it is closed and the last
    request that uses it is over."""
    preemptions: int
    """Sequences that lost their slot to others and came back later."""
    steps: int
    """Steps."""
    rows: int
    """Rows of all steps."""
    decode_seconds: float
    """Seconds spent in llama.cpp."""
    overhead_seconds: float
    """Seconds spent in steps outside llama.cpp."""

    @property
    def acceptance(self) -> float | None:
        """Share of proposed tokens that were accepted, 0 to 1; `None` where none was proposed."""
        return self.accepted_tokens / self.draft_tokens if self.draft_tokens else None


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionInfo:
    """What a session file says of itself."""

    version: int
    """Format version."""
    writer: str
    """Program and version that wrote it."""
    created_s: int
    """When it was written, in seconds since 1970."""
    fingerprint: str
    """`ModelInfo.fingerprint` of its model."""
    architecture: str
    """The model's architecture."""
    description: str
    """The model in one line."""
    num_tokens: int
    """Number of tokens."""
    is_templated: bool
    """Whether they are of a chat template."""
    num_state_tokens: int
    """How many of the tokens the KV state covers, from the first; 0 without one."""
    state_bytes: int
    """Size of the KV state, in bytes."""
    state_layout: str
    """What the KV state depends on beside the weights; empty without one."""
    file_bytes: int
    """Size of the file, in bytes."""
