"""The messages of the wire, read as typed requests. Fields are named in the ``.proto`` and here only."""

from __future__ import annotations

import math
import struct
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, TypeVar

from google.protobuf.message import DecodeError, Message
from google.protobuf.unknown_fields import UnknownFieldSet

from llmserve.server.apis.completions.schema import CompletionRequest
from llmserve.server.apis.grpc import llmserver_pb2 as pb
from llmserve.server.refusals import FieldError, MalformedBodyError
from llmserve.server.web.schema import Parsed, read

M = TypeVar("M", bound=Message)

MAX_REST_BYTES = 16_384
"""Maximum bytes of a message apart from its texts. Each unknown field is looked at, on the event loop."""

_USED_BACKENDS = frozenset({pb.BACKEND_UNSPECIFIED, pb.BACKEND_LLAMA_CPP})


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadRequest:
    """Which model to load."""

    path: str


def read_load(data: bytes) -> Parsed[LoadRequest]:
    """A ``LoadModelRequest``.

    Raises:
        MalformedBodyError: The bytes are not a valid message.
        FieldError: The message has no path, or too many bytes beside it.
    """
    message = _parse(pb.LoadModelRequest, data)
    _check_rest(data, message.path)
    if not message.path:
        raise FieldError("path", "is required")
    ignored = list(_unknown(message, ""))
    if message.trust_remote_code:
        ignored.append("trust_remote_code")
    if message.backend not in _USED_BACKENDS:
        ignored.append("backend")
    return Parsed(LoadRequest(path=message.path), tuple(ignored))


def read_predict(data: bytes) -> Parsed[CompletionRequest]:
    """A ``PredictRequest``, with the limits and defaults that the same fields have over HTTP.

    Raises:
        MalformedBodyError: The bytes are not a valid message.
        FieldError: The first field that is missing or out of range, or the message itself.
    """
    message = _parse(pb.PredictRequest, data)
    _check_rest(data, message.model, message.prompt)
    # An empty text is absent on this wire.
    parsed = read(CompletionRequest, {"prompt": "", **_fields(message)})
    return Parsed(parsed.value, (*_unknown(message, ""), *_unknown(message.options, "options.")))


def _parse(cls: type[M], data: bytes) -> M:
    try:
        return cls.FromString(data)
    except DecodeError:
        raise MalformedBodyError(f"the message is not a valid {cls.DESCRIPTOR.name}") from None


def _check_rest(data: bytes, *texts: str) -> None:
    if len(data) <= MAX_REST_BYTES:
        return
    num_bytes = len(data) - sum(len(text.encode()) for text in texts)
    if num_bytes > MAX_REST_BYTES:
        reason = f"must have at most {MAX_REST_BYTES} bytes apart from its texts, got {num_bytes}"
        raise FieldError("the message", reason, limit=MAX_REST_BYTES)


def _fields(message: Message) -> dict[str, Any]:
    """The fields that are there, as an object of JSON has them."""
    return {field.name: _value(value) for field, value in message.ListFields()}


def _value(value: Any) -> Any:
    if isinstance(value, Message):
        return _fields(value)
    return _shortest(value) if isinstance(value, float) else value


def _shortest(value: float) -> float:
    """The shortest number that has this 32-bit number, so that 0.1 is 0.1 as over HTTP."""
    for num_digits in range(6, 9):
        candidate = float(f"{value:.{num_digits}g}")
        if math.isfinite(value) and struct.pack("f", candidate) == struct.pack("f", value):
            return candidate
    return value


def _unknown(message: Message, where: str) -> tuple[str, ...]:
    """Fields of a later ``.proto``, by number: their names are not on the wire."""
    fields: Iterable[Any] = UnknownFieldSet(message)  # type: ignore[assignment]
    return tuple(f"{where}field_{field.field_number}" for field in fields)
