"""The one table of settings: environment variable, command-line option, kind, default and meaning."""

from __future__ import annotations

from llmserve.server.settings import kinds
from llmserve.server.settings.default_sampling import DEFAULT_SAMPLING
from llmserve.server.settings.kinds import choice, integer, number
from llmserve.server.settings.load_options import MODEL_VARIABLES, TEMPLATE_FILE
from llmserve.server.settings.variable import Variable

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
        "A client that stops reading is cut off: once its connection has taken no more bytes for this many"
        " seconds, its request is aborted and its connection is reset. Until then, what is sent fills the"
        " network buffers on both sides.",
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
        "default_sampling",
        DEFAULT_SAMPLING,
        "",
        "How tokens are drawn where a request of the OpenAI API does not say; names are the Python API's. "
        "If unset, each route has its own defaults (docs/sampling.md).",
    ),
    Variable(
        "request_chat_template",
        kinds.SWITCH,
        "false",
        "Whether requests of the OpenAI API may bring a chat template of their own (`chat_template`). The "
        "text of such a template may write control tokens.",
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

VARIABLES: tuple[Variable, ...] = (
    *SERVER_VARIABLES,
    *DRAFT_VARIABLES,
    *MODEL_VARIABLES,
    TEMPLATE_FILE,
)
"""Every setting. ``docs/configuration.md`` has the same table, and a test compares them."""
