"""The one table of settings: environment variable, command-line option, kind, default, meaning."""

from __future__ import annotations

from llmserve.server.settings import kinds
from llmserve.server.settings.kinds import choice, integer, number
from llmserve.server.settings.load_options import MODEL_VARIABLES
from llmserve.server.settings.variable import Variable

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
