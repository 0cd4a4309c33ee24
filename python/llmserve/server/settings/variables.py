"""The one table of settings: environment variable, command-line option, kind, default and meaning."""

from __future__ import annotations

import math
from dataclasses import dataclass

from llmserve.server.settings import kinds
from llmserve.server.settings.kinds import Kind, choice, integer, number

UINT32_MAX = 2**32 - 1
INT31_MAX = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Variable:
    """One setting. ``default`` is the default as text; where it is empty, ``doc`` describes the default."""

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
    Variable(
        "port", integer(0, 65535), "8082", "Port to listen on; 0 picks a free one (`llmserve serve` only)."
    ),
    Variable(
        "grpc_port",
        integer(0, 65535),
        "",
        "Port of the gRPC service, by convention 50052; 0 picks a free one. If unset, gRPC is off.",
    ),
    Variable(
        "grpc_host",
        kinds.TEXT,
        "",
        "Address that the gRPC service listens on. If unset, the same as `LLMSERVE_HOST`.",
    ),
    Variable("model", kinds.PATH, "", "GGUF file to load at startup."),
    Variable(
        "models_dir",
        kinds.PATH,
        "",
        "Folder from which clients may load models. If unset, only local requests may load models by path, "
        "from any readable file.",
        prefix="",
    ),
    Variable(
        "catalogue",
        kinds.PATH,
        "",
        "TOML file that lists models and their options (docs/deployment.md). If unset, the files in "
        "`MODELS_DIR` are the models.",
    ),
    Variable(
        "load_wait_s",
        number(0, 3600),
        "5",
        "How long a request waits for its model to load before it gets a 503, in seconds; "
        "the load continues.",
    ),
    Variable(
        "model_memory_bytes",
        integer(1, 2**50),
        "",
        "Limit on the memory of all models and their KV caches, in bytes. To stay within it, idle models that"
        " clients loaded (by path or by id) are unloaded, least recently used first. If unset, there is no "
        "limit.",
    ),
    Variable(
        "api_key",
        kinds.KEYS,
        "",
        "API keys; a client must send one of them as `Authorization: Bearer` or `X-API-Key`. If unset, no key"
        " is required.",
    ),
    Variable(
        "metrics_open",
        kinds.SWITCH,
        "false",
        "Serve `/metrics` to everyone without an API key. Local requests never need a key there.",
    ),
    Variable(
        "sessions_dir",
        kinds.PATH,
        "",
        "Folder in which clients may save and load session files. If unset, only local requests may, in any "
        "folder.",
        prefix="",
    ),
    Variable(
        "cache_dir",
        kinds.PATH,
        "",
        "Folder for downloaded models. If unset, `$XDG_CACHE_HOME/llmserve`, or else `~/.cache/llmserve`.",
    ),
    Variable(
        "max_body_bytes",
        integer(1024, 2**40),
        str(16 << 20),
        "Largest request body that is accepted, in bytes.",
    ),
    Variable(
        "max_bodies_bytes",
        integer(1024, 2**44),
        "",
        "Limit on all request bodies that are being read at the same time, in bytes; further requests get a "
        "503. If unset, 16 times `LLMSERVE_MAX_BODY_BYTES`.",
    ),
    Variable(
        "body_timeout_s",
        number(1, 86400),
        "60",
        "How long a request body may take to arrive, in seconds; a slower request gets a 408.",
    ),
    Variable(
        "sse_ping_s",
        number(0.1, 3600),
        "10",
        "After this many seconds without output, a stream gets a comment that keeps its connection alive.",
    ),
    Variable(
        "stall_s",
        number(1, 86400),
        "60",
        "A client that reads nothing of its response for this many seconds is cut off: its request is aborted"
        " and its connection is reset.",
    ),
    Variable(
        "grace_s", number(0, 86400), "10", "How long running requests may continue after SIGTERM, in seconds."
    ),
    Variable(
        "allowed_hosts",
        kinds.HOSTS,
        "",
        "Names by which requests may address the server (their `Host` header), besides loopback names. If "
        "unset, any name is allowed, except that requests on a loopback address must use a loopback name.",
    ),
    Variable(
        "cors_origins",
        kinds.NAMES,
        "",
        "Origins of other sites whose pages may call the server, or `*` for all. If unset, none may.",
    ),
    Variable(
        "session_ttl_s",
        number(0.1, 10**9),
        "3600",
        "A session expires after this many seconds without use.",
    ),
    Variable(
        "max_sessions",
        integer(1, 10**6),
        "1024",
        "Maximum number of sessions; one more replaces the session that has been idle longest.",
    ),
    Variable(
        "log_level",
        choice("critical", "error", "warning", "info", "debug"),
        "info",
        "Lowest level of log messages that are written.",
    ),
)

MODEL_VARIABLES: tuple[Variable, ...] = (
    Variable(
        "context_length",
        integer(1, INT31_MAX),
        "",
        "Maximum number of tokens in one sequence, prompt and output together. If unset, the trained length, "
        "or less if half of the free memory cannot hold one such sequence.",
    ),
    Variable(
        "max_sequences",
        integer(1, 256),
        "",
        "Maximum number of sequences that are computed together. If unset, four per thread (from 4 to 16), or"
        " 16 with a GPU, or fewer if memory is short; 64 for embedding models.",
    ),
    Variable(
        "kv_cells",
        integer(1, INT31_MAX),
        "",
        "Total number of KV cells of all sequences, for the unified layout. If unset, as many as fit into "
        "half of the free memory.",
    ),
    Variable(
        "kv_layout",
        choice("auto", "per_sequence", "unified"),
        "auto",
        "A pool of KV cells for each sequence (`per_sequence`), or one pool for all (`unified`); `auto` uses "
        "separate pools if the memory allows it.",
    ),
    Variable("batch_size", integer(1, INT31_MAX), "512", "Maximum number of rows (tokens) in one step."),
    Variable(
        "ubatch_size", integer(1, INT31_MAX), "512", "Maximum number of rows that are computed together."
    ),
    Variable(
        "threads",
        integer(1, 1024),
        "",
        "Number of compute threads. If unset, the number of cores that the process may use.",
    ),
    Variable("kv_type_k", _KV_TYPE, "f16", "Data type of the K cache."),
    Variable("kv_type_v", _KV_TYPE, "f16", "Data type of the V cache."),
    Variable(
        "flash_attention",
        kinds.AUTO_SWITCH,
        "auto",
        "Flash attention; `auto` leaves the choice to llama.cpp.",
    ),
    Variable("offload_kv", kinds.SWITCH, "true", "Keep the KV cache on the GPU, if there is one."),
    Variable("swa_full", kinds.SWITCH, "false", "Keep all KV cells of sliding-window layers."),
    Variable(
        "deterministic",
        kinds.SWITCH,
        "false",
        "Compute each sequence separately, so that other requests cannot change its log-probabilities. Slow.",
    ),
    Variable("use_mmap", kinds.SWITCH, "true", "Map the model file into memory instead of reading it."),
    Variable(
        "use_mlock", kinds.SWITCH, "false", "Lock the weights in memory, so that they are not swapped out."
    ),
    Variable(
        "gpu_layers",
        integer(0, INT31_MAX),
        "",
        "Number of layers on the GPU. If unset, all of them, if there is a GPU.",
    ),
    Variable("main_gpu", integer(0, 255), "0", "Index of the GPU that holds everything that is not split."),
    Variable("tensor_split", kinds.NUMBERS, "", "Proportion of the model on each GPU."),
    Variable(
        "rope_scaling",
        choice("none", "linear", "yarn", "longrope"),
        "",
        "RoPE scaling method. If unset, the model's own.",
    ),
    Variable("rope_freq_base", number(0), "", "RoPE base frequency. If unset, the model's own."),
    Variable("rope_freq_scale", number(0), "", "RoPE frequency scaling factor. If unset, the model's own."),
    Variable("yarn_ext_factor", _ANY_NUMBER, "", "YaRN extrapolation mix factor. If unset, the model's own."),
    Variable(
        "yarn_attn_factor", _ANY_NUMBER, "", "YaRN magnitude scaling factor. If unset, the model's own."
    ),
    Variable("yarn_beta_fast", _ANY_NUMBER, "", "YaRN low correction dimension. If unset, the model's own."),
    Variable("yarn_beta_slow", _ANY_NUMBER, "", "YaRN high correction dimension. If unset, the model's own."),
    Variable(
        "yarn_orig_ctx",
        integer(1, INT31_MAX),
        "",
        "Original context length for YaRN. If unset, the model's own.",
    ),
    Variable(
        "metadata_overrides", kinds.METADATA, "", "GGUF metadata values that override those in the file."
    ),
    Variable("lora", kinds.ADAPTERS, "", "LoRA adapters that are applied to every request."),
    Variable(
        "max_queued_requests",
        integer(1, INT31_MAX),
        "128",
        "Maximum number of waiting requests; further ones are refused.",
    ),
    Variable(
        "max_queued_tokens",
        integer(1, 2**40),
        str(1 << 20),
        "Maximum number of prompt tokens of waiting requests.",
    ),
    Variable(
        "max_stall_ms",
        integer(1, 60_000),
        "150",
        "How long prompt processing may hold up running streams, in milliseconds.",
    ),
    Variable(
        "idle_step_ms",
        integer(1, 60_000),
        "500",
        "How long a step may take that computes a single prompt while no stream is running, in milliseconds.",
    ),
    Variable(
        "prefix_cache",
        kinds.SWITCH,
        "true",
        "Keep the KV cells of finished sequences for requests that begin with the same tokens.",
    ),
    Variable(
        "parking_bytes",
        integer(0, 2**50),
        str(512 << 20),
        "Host memory for sequences that were moved out of the KV cache, in bytes.",
    ),
)

DRAFT_VARIABLES: tuple[Variable, ...] = (
    Variable(
        "draft",
        choice("off", "auto", "mtp", "prompt_lookup"),
        "off",
        "Speculative decoding (docs/speculative-decoding.md): `mtp` drafts with the model's own head, `auto` "
        "does so if the model has one, and `prompt_lookup` drafts from repetitions in prompt and output.",
    ),
    Variable("draft_len", integer(1, 8), "3", "Maximum number of tokens in one draft."),
    Variable("draft_adaptive", kinds.SWITCH, "true", "Shorten or skip drafts when they do not pay off."),
)

VARIABLES: tuple[Variable, ...] = SERVER_VARIABLES + DRAFT_VARIABLES + MODEL_VARIABLES
"""Every setting. ``docs/configuration.md`` has the same table, and a test compares them."""
