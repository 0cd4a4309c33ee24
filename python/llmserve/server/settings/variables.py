"""The one table of settings: environment variable, command-line option, kind, default, meaning."""

from __future__ import annotations

import math
from dataclasses import dataclass

from llmserve.server.settings import kinds
from llmserve.server.settings.kinds import Kind, choice, integer, number

UINT32_MAX = 2**32 - 1
INT31_MAX = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Variable:
    """One setting. ``default`` is its text; empty: as ``doc`` says."""

    name: str
    kind: Kind
    default: str
    doc: str
    prefix: str = "LLMSERVE_"

    @property
    def env(self) -> str:
        """The environment variable."""
        return f"{self.prefix}{self.name.upper()}"

    @property
    def option(self) -> str:
        """The option of ``llmserve serve``."""
        return "--" + self.name.replace("_", "-")


_KV_TYPE = choice("f32", "f16", "bf16", "q8_0", "q5_1", "q5_0", "q4_1", "q4_0", "iq4_nl")
_ANY_NUMBER = number(-math.inf)

SERVER_VARIABLES: tuple[Variable, ...] = (
    Variable("host", kinds.TEXT, "127.0.0.1", "Address to listen on (`llmserve serve` only)."),
    Variable("port", integer(0, 65535), "8082", "Port; 0 takes a free one (`llmserve serve` only)."),
    Variable(
        "grpc_port",
        integer(0, 65535),
        "",
        "Port of the gRPC service, by convention 50052; 0 takes a free one. Unset: there is none.",
    ),
    Variable(
        "grpc_host",
        kinds.TEXT,
        "",
        "Address of the gRPC service. Unset: that of `LLMSERVE_HOST`.",
    ),
    Variable("model", kinds.PATH, "", "GGUF file to load at start."),
    Variable(
        "models_dir",
        kinds.PATH,
        "",
        "Folder from which clients may load models. Unset: only local requests may load, and any readable "
        "file.",
        prefix="",
    ),
    Variable(
        "catalogue",
        kinds.PATH,
        "",
        "TOML file that names models and their options (docs/deployment.md). Unset: the files in "
        "`MODELS_DIR` are the models.",
    ),
    Variable(
        "load_wait_s",
        number(0, 3600),
        "5",
        "How long a request waits for a model that is loaded for it, before it gets 503; the load goes on.",
    ),
    Variable(
        "model_memory_bytes",
        integer(1, 2**50),
        "",
        "Memory for models and their KV caches. Beyond it, idle models that clients loaded, by path or by "
        "id, are unloaded, the longest unused first. Unset: no limit.",
    ),
    Variable(
        "api_key",
        kinds.KEYS,
        "",
        "Keys of which clients must send one, as `Authorization: Bearer` or `X-API-Key`. Unset: none is "
        "needed.",
    ),
    Variable(
        "metrics_open",
        kinds.SWITCH,
        "false",
        "Whether `/metrics` needs no key from anybody. Local requests never need one.",
    ),
    Variable(
        "sessions_dir",
        kinds.PATH,
        "",
        "Folder in which clients may save and load sessions. Unset: only local requests may, anywhere.",
        prefix="",
    ),
    Variable(
        "cache_dir",
        kinds.PATH,
        "",
        "Where downloaded models live. Unset: `$XDG_CACHE_HOME/llmserve`, else `~/.cache/llmserve`.",
    ),
    Variable("max_body_bytes", integer(1024, 2**40), str(16 << 20), "The largest request body, in bytes."),
    Variable(
        "max_bodies_bytes",
        integer(1024, 2**44),
        "",
        "The most bytes of all request bodies that are being read together; beyond, requests get 503. Unset: "
        "16 of the largest.",
    ),
    Variable(
        "body_timeout_s",
        number(1, 86400),
        "60",
        "How long a request body may take to arrive, in seconds; a request that takes longer gets 408.",
    ),
    Variable(
        "sse_ping_s",
        number(0.1, 3600),
        "10",
        "A stream that sent nothing for so many seconds gets a comment.",
    ),
    Variable(
        "stall_s",
        number(1, 86400),
        "60",
        "A client that takes nothing of its answer for so many seconds is cut off: its request ends, and its "
        "connection is reset.",
    ),
    Variable(
        "grace_s", number(0, 86400), "10", "How long running requests may go on after SIGTERM, in seconds."
    ),
    Variable(
        "allowed_hosts",
        kinds.HOSTS,
        "",
        "Names under which requests may address the server (their `Host`), besides loopback names. Unset: "
        "any name, but on a loopback address loopback names only.",
    ),
    Variable(
        "cors_origins",
        kinds.NAMES,
        "",
        "Origins of other sites whose pages may call the server, or `*`. Empty: none.",
    ),
    Variable(
        "session_ttl_s",
        number(0.1, 10**9),
        "3600",
        "A session that was not used for so many seconds expires.",
    ),
    Variable(
        "max_sessions",
        integer(1, 10**6),
        "1024",
        "The most sessions; for one more, the longest idle one goes.",
    ),
    Variable("log_level", choice("critical", "error", "warning", "info", "debug"), "info", "What is logged."),
)

MODEL_VARIABLES: tuple[Variable, ...] = (
    Variable(
        "context_length",
        integer(1, INT31_MAX),
        "",
        "The most tokens that one sequence may hold. Unset: the trained length, or less where half of the "
        "free memory does not hold one such sequence.",
    ),
    Variable(
        "max_sequences",
        integer(1, 256),
        "",
        "The most sequences that are computed together. Unset: four for each thread, from 4 to 16, or 16 "
        "with a GPU, as far as the memory holds them; 64 for embedding models.",
    ),
    Variable(
        "kv_cells",
        integer(1, INT31_MAX),
        "",
        "KV cells of all sequences together, for the unified layout. Unset: what half of the free memory "
        "holds.",
    ),
    Variable(
        "kv_layout",
        choice("auto", "per_sequence", "unified"),
        "auto",
        "One pool of KV cells per sequence, or one for all; `auto` takes the first where the memory allows "
        "it.",
    ),
    Variable("batch_size", integer(1, INT31_MAX), "512", "The most rows of one step."),
    Variable("ubatch_size", integer(1, INT31_MAX), "512", "The most rows that are computed together."),
    Variable("threads", integer(1, 1024), "", "Compute threads. Unset: the cores that this process may use."),
    Variable("kv_type_k", _KV_TYPE, "f16", "Type of the K cache."),
    Variable("kv_type_v", _KV_TYPE, "f16", "Type of the V cache."),
    Variable("flash_attention", kinds.AUTO_SWITCH, "auto", "Fused attention; `auto` leaves it to llama.cpp."),
    Variable("offload_kv", kinds.SWITCH, "true", "Keep the KV cache on the GPU, where there is one."),
    Variable("swa_full", kinds.SWITCH, "false", "Keep all cells of sliding-window layers."),
    Variable(
        "deterministic",
        kinds.SWITCH,
        "false",
        "Compute each sequence by itself, so that no other request changes its log-probabilities. Slow.",
    ),
    Variable("use_mmap", kinds.SWITCH, "true", "Map the file instead of reading it."),
    Variable("use_mlock", kinds.SWITCH, "false", "Keep the weights from being swapped out."),
    Variable("gpu_layers", integer(0, INT31_MAX), "", "Layers on the GPU. Unset: all, where there is one."),
    Variable("main_gpu", integer(0, 255), "0", "The GPU that holds what is not split."),
    Variable("tensor_split", kinds.NUMBERS, "", "Share of the model for each GPU."),
    Variable(
        "rope_scaling",
        choice("none", "linear", "yarn", "longrope"),
        "",
        "Kind of RoPE scaling. Unset: the model's.",
    ),
    Variable("rope_freq_base", number(0), "", "RoPE base frequency. Unset: the model's."),
    Variable("rope_freq_scale", number(0), "", "RoPE frequency scaling factor. Unset: the model's."),
    Variable("yarn_ext_factor", _ANY_NUMBER, "", "YaRN extrapolation mix factor. Unset: the model's."),
    Variable("yarn_attn_factor", _ANY_NUMBER, "", "YaRN magnitude scaling factor. Unset: the model's."),
    Variable("yarn_beta_fast", _ANY_NUMBER, "", "YaRN low correction dimension. Unset: the model's."),
    Variable("yarn_beta_slow", _ANY_NUMBER, "", "YaRN high correction dimension. Unset: the model's."),
    Variable("yarn_orig_ctx", integer(1, INT31_MAX), "", "Context length before YaRN. Unset: the model's."),
    Variable(
        "metadata_overrides", kinds.METADATA, "", "GGUF metadata values that replace those of the file."
    ),
    Variable("lora", kinds.ADAPTERS, "", "LoRA adapters, applied to every request."),
    Variable(
        "max_queued_requests",
        integer(1, INT31_MAX),
        "128",
        "The most requests that wait; one more is refused.",
    ),
    Variable("max_queued_tokens", integer(1, 2**40), str(1 << 20), "The most prompt tokens that wait."),
    Variable(
        "max_stall_ms",
        integer(1, 60_000),
        "150",
        "How long running streams may stand still while prompts are computed, in ms.",
    ),
    Variable(
        "idle_step_ms",
        integer(1, 60_000),
        "500",
        "How long a step may take that computes a single prompt while nobody streams, in ms.",
    ),
    Variable(
        "prefix_cache", kinds.SWITCH, "true", "Keep finished sequences for requests with the same prefix."
    ),
    Variable(
        "parking_bytes", integer(0, 2**50), str(512 << 20), "Host memory for parked sequences, in bytes."
    ),
)

DRAFT_VARIABLES: tuple[Variable, ...] = (
    Variable(
        "draft",
        choice("off", "auto", "mtp", "prompt_lookup"),
        "off",
        "Speculative decoding (docs/speculative-decoding.md): `mtp` drafts with the model's own head, `auto` "
        "too, where it has one, and `prompt_lookup` with what prompt and output repeat.",
    ),
    Variable("draft_len", integer(1, 8), "3", "The most tokens of one draft."),
    Variable("draft_adaptive", kinds.SWITCH, "true", "Make drafts shorter, or none, where they do not pay."),
)

VARIABLES: tuple[Variable, ...] = SERVER_VARIABLES + DRAFT_VARIABLES + MODEL_VARIABLES
"""Every setting. ``docs/configuration.md`` holds the same table, and a test compares them."""
