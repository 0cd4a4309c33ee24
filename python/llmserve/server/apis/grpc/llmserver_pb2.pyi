from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Backend(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    BACKEND_UNSPECIFIED: _ClassVar[Backend]
    BACKEND_LLAMA_CPP: _ClassVar[Backend]
    BACKEND_MLX: _ClassVar[Backend]
    BACKEND_TF: _ClassVar[Backend]
    BACKEND_PT: _ClassVar[Backend]

class ModelStatus(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    UNKNOWN: _ClassVar[ModelStatus]
    LOADING: _ClassVar[ModelStatus]
    LOADED: _ClassVar[ModelStatus]
    FAILED: _ClassVar[ModelStatus]
BACKEND_UNSPECIFIED: Backend
BACKEND_LLAMA_CPP: Backend
BACKEND_MLX: Backend
BACKEND_TF: Backend
BACKEND_PT: Backend
UNKNOWN: ModelStatus
LOADING: ModelStatus
LOADED: ModelStatus
FAILED: ModelStatus

class PingRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class PingResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class LoadModelRequest(_message.Message):
    __slots__ = ("path", "trust_remote_code", "backend")
    PATH_FIELD_NUMBER: _ClassVar[int]
    TRUST_REMOTE_CODE_FIELD_NUMBER: _ClassVar[int]
    BACKEND_FIELD_NUMBER: _ClassVar[int]
    path: str
    trust_remote_code: bool
    backend: Backend
    def __init__(self, path: _Optional[str] = ..., trust_remote_code: _Optional[bool] = ..., backend: _Optional[_Union[Backend, str]] = ...) -> None: ...

class LoadModelResponse(_message.Message):
    __slots__ = ("progress",)
    PROGRESS_FIELD_NUMBER: _ClassVar[int]
    progress: float
    def __init__(self, progress: _Optional[float] = ...) -> None: ...

class PredictRequest(_message.Message):
    __slots__ = ("model", "prompt", "stream", "max_tokens", "temperature", "top_p", "top_k", "options")
    class Options(_message.Message):
        __slots__ = ("min_p", "min_tokens_to_keep", "max_kv_size", "prefill_step_size", "kv_bits", "kv_group_size", "quantized_kv_start", "repetition_penalty", "length_penalty", "diversity_penalty", "no_repeat_ngram_size", "random_seed")
        MIN_P_FIELD_NUMBER: _ClassVar[int]
        MIN_TOKENS_TO_KEEP_FIELD_NUMBER: _ClassVar[int]
        MAX_KV_SIZE_FIELD_NUMBER: _ClassVar[int]
        PREFILL_STEP_SIZE_FIELD_NUMBER: _ClassVar[int]
        KV_BITS_FIELD_NUMBER: _ClassVar[int]
        KV_GROUP_SIZE_FIELD_NUMBER: _ClassVar[int]
        QUANTIZED_KV_START_FIELD_NUMBER: _ClassVar[int]
        REPETITION_PENALTY_FIELD_NUMBER: _ClassVar[int]
        LENGTH_PENALTY_FIELD_NUMBER: _ClassVar[int]
        DIVERSITY_PENALTY_FIELD_NUMBER: _ClassVar[int]
        NO_REPEAT_NGRAM_SIZE_FIELD_NUMBER: _ClassVar[int]
        RANDOM_SEED_FIELD_NUMBER: _ClassVar[int]
        min_p: float
        min_tokens_to_keep: int
        max_kv_size: int
        prefill_step_size: int
        kv_bits: int
        kv_group_size: int
        quantized_kv_start: int
        repetition_penalty: float
        length_penalty: float
        diversity_penalty: float
        no_repeat_ngram_size: int
        random_seed: int
        def __init__(self, min_p: _Optional[float] = ..., min_tokens_to_keep: _Optional[int] = ..., max_kv_size: _Optional[int] = ..., prefill_step_size: _Optional[int] = ..., kv_bits: _Optional[int] = ..., kv_group_size: _Optional[int] = ..., quantized_kv_start: _Optional[int] = ..., repetition_penalty: _Optional[float] = ..., length_penalty: _Optional[float] = ..., diversity_penalty: _Optional[float] = ..., no_repeat_ngram_size: _Optional[int] = ..., random_seed: _Optional[int] = ...) -> None: ...
    MODEL_FIELD_NUMBER: _ClassVar[int]
    PROMPT_FIELD_NUMBER: _ClassVar[int]
    STREAM_FIELD_NUMBER: _ClassVar[int]
    MAX_TOKENS_FIELD_NUMBER: _ClassVar[int]
    TEMPERATURE_FIELD_NUMBER: _ClassVar[int]
    TOP_P_FIELD_NUMBER: _ClassVar[int]
    TOP_K_FIELD_NUMBER: _ClassVar[int]
    OPTIONS_FIELD_NUMBER: _ClassVar[int]
    model: str
    prompt: str
    stream: bool
    max_tokens: int
    temperature: float
    top_p: float
    top_k: int
    options: PredictRequest.Options
    def __init__(self, model: _Optional[str] = ..., prompt: _Optional[str] = ..., stream: _Optional[bool] = ..., max_tokens: _Optional[int] = ..., temperature: _Optional[float] = ..., top_p: _Optional[float] = ..., top_k: _Optional[int] = ..., options: _Optional[_Union[PredictRequest.Options, _Mapping]] = ...) -> None: ...

class PredictResponse(_message.Message):
    __slots__ = ("message", "token", "tokens")
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    TOKENS_FIELD_NUMBER: _ClassVar[int]
    message: bytes
    token: int
    tokens: int
    def __init__(self, message: _Optional[bytes] = ..., token: _Optional[int] = ..., tokens: _Optional[int] = ...) -> None: ...

class UnloadModelRequest(_message.Message):
    __slots__ = ("path",)
    PATH_FIELD_NUMBER: _ClassVar[int]
    path: str
    def __init__(self, path: _Optional[str] = ...) -> None: ...

class UnloadModelResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class GetModelStatusRequest(_message.Message):
    __slots__ = ("path",)
    PATH_FIELD_NUMBER: _ClassVar[int]
    path: str
    def __init__(self, path: _Optional[str] = ...) -> None: ...

class GetModelStatusResponse(_message.Message):
    __slots__ = ("path", "status", "progress")
    PATH_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    PROGRESS_FIELD_NUMBER: _ClassVar[int]
    path: str
    status: ModelStatus
    progress: float
    def __init__(self, path: _Optional[str] = ..., status: _Optional[_Union[ModelStatus, str]] = ..., progress: _Optional[float] = ...) -> None: ...

class ListModelsRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListModelsResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...
