"""The one table of settings: environment variable, command-line option, kind, default and meaning."""

from __future__ import annotations

from llmserve.server.settings import kinds
from llmserve.server.settings.default_sampling import DEFAULT_SAMPLING
from llmserve.server.settings.kinds import choice, integer, number
from llmserve.server.settings.load_options import INT31_MAX, MODEL_VARIABLES, TEMPLATE_FILE
from llmserve.server.settings.sizes import byte_count
from llmserve.server.settings.variable import Variable

SERVER_VARIABLES: tuple[Variable, ...] = (
    Variable(
        "host",
        kinds.TEXT,
        "127.0.0.1",
        "Address to listen on, or several with commas between them; the option may be repeated (`llmserve "
        "serve` only).",
        "server",
    ),
    Variable(
        "port",
        integer(0, 65535),
        "8082",
        "Port to listen on; 0 picks a free one (`llmserve serve` only).",
        "server",
    ),
    Variable("grpc", kinds.SWITCH, "true", "Whether the gRPC service is there.", "grpc"),
    Variable(
        "grpc_port",
        integer(0, 65535),
        "",
        "Port of the gRPC service; 0 picks a free one. If unset, `llmserve serve` uses 50052 if that is "
        "free, and other servers have no gRPC.",
        "grpc",
    ),
    Variable(
        "grpc_host",
        kinds.TEXT,
        "",
        "Address that the gRPC service listens on. If unset, the first of `LLMSERVE_HOST`.",
        "grpc",
    ),
    Variable(
        "uds",
        kinds.PATH,
        "",
        "UNIX socket to listen on instead of an address (`llmserve serve` only).",
        "server",
    ),
    Variable(
        "root_path",
        kinds.TEXT,
        "",
        "Path under which a proxy serves this server, whether it removes it from requests or not (`llmserve "
        "serve` only).",
        "server",
    ),
    Variable(
        "model",
        kinds.MODEL,
        "",
        "GGUF file to load at startup. `llmserve serve` also takes a part of its name, if the file is in "
        "`MODELS_DIR` or was downloaded.",
        "model",
        aliases=("-m",),
    ),
    Variable(
        "served_model_name",
        kinds.MODEL_ID,
        "",
        "Id of the model that is loaded at startup. If unset, the name of its file.",
        "model",
        aliases=("-a", "--alias"),
    ),
    Variable(
        "models_dir",
        kinds.FOLDER,
        "",
        "Folder from which clients may load models. If unset, only local requests may load models by path, "
        "from any readable file.",
        "server",
        prefix="",
    ),
    Variable(
        "catalogue",
        kinds.PATH,
        "",
        "TOML file that lists models and their options. If unset, the files in `MODELS_DIR` are the models.",
        "server",
    ),
    Variable(
        "load_wait_s",
        number(0, 3600),
        "5",
        "How long a request waits for its model to load before it gets a 503, in seconds; "
        "the load continues.",
        "server",
    ),
    Variable(
        "model_memory_bytes",
        byte_count(1, 2**50),
        "",
        "Limit on the memory of all models and their KV caches. To stay within it, idle models that"
        " clients loaded (by path or by id) are unloaded, least recently used first. If unset, there is no "
        "limit.",
        "limits",
    ),
    Variable(
        "api_key",
        kinds.KEYS,
        "",
        "API keys; a client must send one of them as `Authorization: Bearer` or `X-API-Key`. If unset, no key"
        " is required.",
        "security",
    ),
    Variable(
        "priority_key_file",
        kinds.KEYS_FILE,
        "",
        "File with further API keys, one a line, whose requests are served `LLMSERVE_PRIORITY_WEIGHT` times "
        "the tokens of others while both wait.",
        "security",
    ),
    Variable(
        "priority_weight",
        integer(1, 1000),
        "4",
        "How many times the share of others a key of `LLMSERVE_PRIORITY_KEY_FILE` has.",
        "limits",
    ),
    Variable(
        "trust_fairness_id",
        kinds.SWITCH,
        "false",
        "Whether the header `x-gateway-inference-fairness-id`, instead of the API key, says whose a request "
        "is. Only for servers that clients reach through a gateway that sets it.",
        "security",
    ),
    Variable(
        "ssl_certfile",
        kinds.PATH,
        "",
        "TLS certificate, with its chain, in PEM: the server then speaks HTTPS (`llmserve serve` only).",
        "security",
    ),
    Variable(
        "ssl_keyfile",
        kinds.PATH,
        "",
        "Private key of the TLS certificate in PEM. If unset, the certificate's file contains it.",
        "security",
    ),
    Variable(
        "metrics_open",
        kinds.SWITCH,
        "false",
        "Serve `/metrics` to everyone without an API key. Local requests never need a key there.",
        "security",
    ),
    Variable(
        "vllm_metrics",
        kinds.SWITCH,
        "false",
        "Show the usual metrics in `/metrics` under vLLM's names, too, for dashboards and routers that know "
        "these.",
        "server",
    ),
    Variable(
        "llamacpp_metrics",
        kinds.SWITCH,
        "false",
        "Show the usual metrics in `/metrics` under llama-server's names, too, summed over all models.",
        "server",
    ),
    Variable(
        "kv_events",
        kinds.ENDPOINT,
        "",
        "ZMQ address at which events tell routers of blocks of tokens with KV cells, such as `tcp://*:5557`; "
        "needs the extra `kv-events`. If unset, there are none.",
        "server",
    ),
    Variable(
        "kv_events_pod",
        kinds.TEXT,
        "",
        "Name of this server in the topics of its events, `kv@POD@MODEL`: the address by which the router "
        "knows it. If unset, `LLMSERVE_HOST` and `LLMSERVE_PORT` with a colon between them.",
        "server",
    ),
    Variable(
        "sessions_dir",
        kinds.PATH,
        "",
        "Folder in which clients may save and load session files. If unset, only local requests may, in any "
        "folder.",
        "server",
        prefix="",
    ),
    Variable(
        "cache_dir",
        kinds.PATH,
        "",
        "Folder for downloaded models. If unset, `$XDG_CACHE_HOME/llmserve`, or else `~/.cache/llmserve`.",
        "server",
    ),
    Variable(
        "max_body_bytes", byte_count(1024, 2**40), "16M", "Largest request body that is accepted.", "limits"
    ),
    Variable(
        "max_bodies_bytes",
        byte_count(1024, 2**44),
        "",
        "Limit on all request bodies that are being read at the same time, in bytes; further requests get a "
        "503. If unset, 16 times `LLMSERVE_MAX_BODY_BYTES`.",
        "limits",
    ),
    Variable(
        "body_timeout_s",
        number(1, 86400),
        "60",
        "How long a request body may take to arrive, in seconds; a slower request gets a 408.",
        "limits",
    ),
    Variable(
        "sse_ping_s",
        number(0.1, 3600),
        "10",
        "After this many seconds without output, a stream gets a comment that keeps its connection alive.",
        "server",
    ),
    Variable(
        "stall_s",
        number(1, 86400),
        "60",
        "A client that stops reading is cut off: once its connection has taken no more bytes for this many"
        " seconds, its request is aborted and its connection is reset. Until then, what is sent fills the"
        " network buffers on both sides.",
        "limits",
    ),
    Variable(
        "prestop_s",
        number(0, 86400),
        "0",
        "How long new requests are still served after SIGTERM, in seconds, while `/ready` answers 503: "
        "whatever distributes the requests has this long to notice (`llmserve serve` only).",
        "server",
    ),
    Variable(
        "grace_s",
        number(0, 86400),
        "10",
        "How long running requests may continue after SIGTERM, in seconds.",
        "server",
    ),
    Variable(
        "allowed_hosts",
        kinds.HOSTS,
        "",
        "Names by which requests may address the server (their `Host` header), besides loopback names. If "
        "unset, any name is allowed, except that requests on a loopback address must use a loopback name.",
        "security",
    ),
    Variable(
        "cors_origins",
        kinds.ORIGINS,
        "",
        "Origins of other sites whose pages may call the server, `localhost` for all of this machine, or `*` "
        "for all. If unset, none may.",
        "security",
    ),
    Variable(
        "default_sampling",
        DEFAULT_SAMPLING,
        "",
        "How tokens are drawn where a request of the OpenAI API or Ollama's does not say; names are the "
        "Python API's. If unset, each route has its own defaults.",
        "sampling",
    ),
    Variable(
        "request_chat_template",
        kinds.SWITCH,
        "false",
        "Whether requests of the OpenAI API may bring a chat template of their own (`chat_template`). The "
        "text of such a template may write control tokens.",
        "security",
    ),
    Variable(
        "reasoning_budget",
        integer(-1, INT31_MAX),
        "-1",
        "After how many tokens the reasoning of a turn is closed, so that the answer still comes, where a "
        "request does not say; 0: at once, -1: no limit.",
        "sampling",
    ),
    Variable(
        "reasoning_budget_message",
        kinds.TEXT,
        "",
        "Text that is inserted at the end of reasoning that is closed at that limit, where a request does "
        "not say.",
        "sampling",
    ),
    Variable(
        "session_ttl_s",
        number(0.1, 10**9),
        "3600",
        "A session expires after this many seconds without use.",
        "server",
    ),
    Variable(
        "max_sessions",
        integer(1, 10**6),
        "1024",
        "Maximum number of sessions; one more replaces the session that has been idle longest.",
        "limits",
    ),
    # Both limits meet at 64 KiB a response, which is a long turn of a coding agent.
    Variable(
        "max_responses",
        integer(0, 10**6),
        "1000",
        "Maximum number of responses and conversations that `/v1/responses` stores in memory, so that "
        "requests can continue, read, cancel and delete them; one more replaces the oldest one. 0: none is "
        "stored.",
        "limits",
    ),
    Variable(
        "max_responses_bytes",
        byte_count(0, 2**50),
        "64M",
        "Limit on the memory of stored responses and conversations: their input and output as JSON, and the "
        "events of those in the background. Beyond it, the oldest ones are dropped.",
        "limits",
    ),
    Variable(
        "log_level",
        choice("critical", "error", "warning", "info", "debug"),
        "info",
        "Lowest level of log messages that are written. `info` has a line for each request.",
        "logging",
    ),
    Variable(
        "log_format",
        choice("text", "json"),
        "text",
        "Log lines as text or as JSON objects.",
        "logging",
    ),
    Variable(
        "traces",
        kinds.SWITCH,
        "false",
        "Send a trace of each request to a collector of OpenTelemetry's, which `OTEL_EXPORTER_OTLP_ENDPOINT` "
        "names; needs the extra `otel`.",
        "logging",
    ),
)

API_KEY_FILE = Variable(
    "api_key_file",
    kinds.KEYS_FILE,
    "",
    "File with API keys, one a line, instead of `api_key`.",
    "security",
)

CONFIG_FILE = Variable(
    "config",
    kinds.PATH,
    "",
    "TOML file of settings, by the names of their options. Options and variables override it.",
    "server",
)

DRAFT_VARIABLES: tuple[Variable, ...] = (
    Variable(
        "draft",
        choice("off", "auto", "mtp", "prompt_lookup"),
        "off",
        "Speculative decoding: `mtp` drafts with the model's own head, `auto` "
        "does so if the model has one, and `prompt_lookup` drafts from repetitions in prompt and output.",
        "drafting",
    ),
    Variable("draft_len", integer(1, 8), "3", "Maximum number of tokens in one draft.", "drafting"),
    Variable(
        "draft_adaptive", kinds.SWITCH, "true", "Shorten or skip drafts when they do not pay off.", "drafting"
    ),
)

VARIABLES: tuple[Variable, ...] = (
    CONFIG_FILE,
    *SERVER_VARIABLES,
    API_KEY_FILE,
    *DRAFT_VARIABLES,
    *MODEL_VARIABLES,
    TEMPLATE_FILE,
)
"""Every setting. ``docs/configuration.md`` has the same table, and a test compares them."""
