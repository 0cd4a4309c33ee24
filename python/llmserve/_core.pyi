"""The native part of llmserve. Private: use the classes of the package `llmserve`."""

from collections.abc import Iterable, Sequence
from os import PathLike
from typing import Any, Literal, TypeAlias, final

from llmserve.chat import NextTurn
from llmserve.errors import LlmserveError, LoadError
from llmserve.model_config import ModelConfig
from llmserve.sampling_params import SamplingParams
from llmserve.tenant import Tenant

__all__ = [
    "MAX_DRAFT_TOKENS",
    "MAX_PROMPT_LOGPROBS",
    "CachedTokensJob",
    "DetokenizeJob",
    "EmbedJob",
    "Embedder",
    "Engine",
    "Head",
    "HeadJob",
    "InputBuffer",
    "Listener",
    "Load",
    "PairBuffer",
    "Request",
    "Session",
    "SessionJob",
    "TokenBuffer",
    "TokenizeJob",
    "Wakeup",
    "__version__",
    "backends",
    "begin_exit",
    "check_params",
    "inspect_session",
    "json_vectors",
    "kv_bytes_per_token",
    "load",
    "model_kind",
    "probe",
    "set_log_level",
    "take_log_records",
]

__version__: str
MAX_DRAFT_TOKENS: int
MAX_PROMPT_LOGPROBS: int

_Special: TypeAlias = Literal["plain", "control", "marked"]
_Logprobs: TypeAlias = tuple[float, tuple[tuple[int, float], ...]]
_Token: TypeAlias = tuple[int, bytes, str, _Logprobs | None]
_PromptToken: TypeAlias = tuple[int, bytes, tuple[int, _Logprobs] | None]
_Event: TypeAlias = (
    tuple[Literal["accepted"], int]
    | tuple[Literal["started"], int]
    | tuple[Literal["progress"], int]
    | tuple[Literal["prompt"], tuple[_PromptToken, ...]]
    | tuple[Literal["delta"], str, tuple[_Token, ...]]
    | tuple[
        Literal["finished"],
        Literal["stop", "length", "cancelled"],
        tuple[int, int, int, int, int],
        tuple[float, float, float, float],
        int,
        str | None,
        bool,
    ]
    | tuple[Literal["failed"], LlmserveError]
)
_LoadEvent: TypeAlias = (
    tuple[Literal["progress"], float]
    | tuple[Literal["ready"], Engine | Embedder]
    | tuple[Literal["failed"], LoadError]
)

@final
class Wakeup:
    def __new__(cls) -> Wakeup: ...
    def listener(self, key: int) -> Listener: ...
    def fileno(self) -> int: ...
    def drain(self) -> list[int]: ...
    def wait(self, timeout_s: float | None = None) -> bool: ...
    def close(self) -> None: ...

@final
class Listener: ...

@final
class Engine:
    def submit(
        self,
        input: tuple[
            tuple[str | Sequence[int], bool, _Special],
            tuple[Session, bool | NextTurn, bool] | None,
            tuple[Head | None, int, bool] | None,
            bytes,
            Tenant | None,
        ],
        params: SamplingParams,
        at_end: bool,
        listener: Listener,
    ) -> Request: ...
    def open_head(self, listener: Listener) -> HeadJob: ...
    def cached_tokens(self, listener: Listener) -> CachedTokensJob: ...
    def session(self) -> Session: ...
    def copy_session(self, session: Session) -> Session: ...
    def tokenize(
        self, text: str, add_special: bool, special: _Special, listener: Listener
    ) -> TokenizeJob: ...
    def detokenize(self, tokens: TokenBuffer, render_special: bool, listener: Listener) -> DetokenizeJob: ...
    def stats(self) -> dict[str, Any]: ...
    def info(self) -> dict[str, Any]: ...
    def check_alive(self) -> None: ...
    def is_shut_down(self) -> bool: ...
    def shutdown(self) -> None: ...
    def join(self) -> None: ...

@final
class Embedder:
    def embed(
        self,
        inputs: tuple[InputBuffer, Tenant | None],
        dimensions: int | None,
        normalize: bool,
        listener: Listener,
    ) -> EmbedJob: ...
    def rank(
        self,
        pairs: tuple[PairBuffer, Tenant | None],
        truncate: bool,
        raw_scores: bool,
        listener: Listener,
    ) -> EmbedJob: ...
    def tokenize(
        self, text: str, add_special: bool, special: _Special, listener: Listener
    ) -> TokenizeJob: ...
    def detokenize(self, tokens: TokenBuffer, render_special: bool, listener: Listener) -> DetokenizeJob: ...
    def stats(self) -> dict[str, Any]: ...
    def info(self) -> dict[str, Any]: ...
    def check_alive(self) -> None: ...
    def is_shut_down(self) -> bool: ...
    def shutdown(self) -> None: ...
    def join(self) -> None: ...

@final
class InputBuffer:
    def __new__(cls) -> InputBuffer: ...
    def append(self, input: str | Sequence[int], add_special: bool, special: _Special) -> None: ...

@final
class PairBuffer:
    def __new__(cls) -> PairBuffer: ...
    def append(self, query: str, document: str) -> None: ...
    def append_joined(self, text: str) -> None: ...

@final
class EmbedJob:
    def take(self) -> tuple[bytes, int, list[int]] | None: ...
    def cancel(self) -> None: ...

@final
class Request:
    @property
    def id(self) -> int: ...
    def take(self, limit: int) -> list[_Event] | None: ...
    def abort(self) -> None: ...

@final
class Head: ...

@final
class HeadJob:
    def take(self) -> Head | None: ...
    def cancel(self) -> None: ...

@final
class Session:
    def num_tokens(self) -> int: ...
    def is_templated(self) -> bool: ...
    def tokens(self) -> TokenizeJob: ...
    def reset(self, listener: Listener) -> SessionJob: ...
    def save(self, path: str | PathLike[str], listener: Listener) -> SessionJob: ...
    def load(self, path: str | PathLike[str], listener: Listener) -> SessionJob: ...

@final
class SessionJob:
    def take(self) -> Literal[True] | None: ...
    def cancel(self) -> None: ...

@final
class Load:
    def take(self) -> list[_LoadEvent] | None: ...
    def cancel(self) -> None: ...

@final
class TokenBuffer:
    def __new__(cls) -> TokenBuffer: ...
    def extend(self, tokens: Iterable[int]) -> None: ...

@final
class TokenizeJob:
    def take(self, limit: int) -> list[int] | None: ...

@final
class CachedTokensJob:
    def take(self) -> tuple[list[bytes], list[bytes]] | None: ...

@final
class DetokenizeJob:
    def take(self) -> bytes | None: ...

def load(
    path: str | PathLike[str],
    config: ModelConfig,
    probe_command: Sequence[str] | None,
    listener: Listener,
    wanted: Literal["any", "generation", "embedding"],
) -> Load: ...
def kv_bytes_per_token(path: str | PathLike[str], config: ModelConfig) -> int | None: ...
def model_kind(
    path: str | PathLike[str], config: ModelConfig
) -> Literal["generation", "embedding", "reranking"]: ...
def probe(path: str | PathLike[str], options: str) -> int: ...
def json_vectors(data: bytes, dimensions: int) -> list[bytes]: ...
def inspect_session(path: str | PathLike[str]) -> dict[str, Any]: ...
def check_params(params: SamplingParams) -> None: ...
def backends() -> list[dict[str, Any]]: ...
def begin_exit() -> None: ...
def set_log_level(level: int) -> None: ...
def take_log_records(block: bool) -> list[tuple[int, str]]: ...
