"""Endpoints describe themselves: the router, the gate and the OpenAPI document are built from one list."""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from starlette.routing import compile_path
from starlette.types import Scope

from llmserve.server.trust.keys import Access
from llmserve.server.web.errors import Dialect
from llmserve.server.web.exchange import Exchange
from llmserve.server.web.headers import header
from llmserve.server.web.parameters import Parameter

Serve = Callable[[Exchange], Awaitable[None]]
Handler = TypeVar("Handler", bound=Callable[..., Awaitable[None]])

ANY_METHOD = "*"
"""The method of an endpoint that serves all methods without an endpoint of their own at its path."""


@dataclass(frozen=True, slots=True)
class Content:
    """A response of one status: media type -> OpenAPI media type object. Classes stand for their schemas."""

    description: str
    media: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


def json_of(schema: object) -> Mapping[str, Mapping[str, Any]]:
    """The media of a JSON response: a class, or a schema that refers to classes."""
    return {"application/json": {"schema": schema}}


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """A method of a path: whose it is, who may call it, and its OpenAPI description.

    It decorates the method that serves it.
    """

    path: str
    """Starlette's notation: ``/v1/models/{model_id:path}``."""
    method: str
    dialect: Dialect
    access: Access = "key"
    dialect_by_header: tuple[str, Dialect] | None = None
    """The header of requests that are answered in another dialect, and that dialect."""
    is_probe: bool = False
    """Whether the endpoint answers under any host name, and also while the server drains."""
    operation_id: str = ""
    """Without one, the OpenAPI document does not describe the endpoint."""
    summary: str = ""
    description: str = ""
    responses: Mapping[int, Content] = field(default_factory=dict)
    errors: Mapping[int, str] = field(default_factory=dict)
    """Status -> what it means, of errors in the dialect's shape; see `declared_errors` for those of all."""
    body: type | None = None
    """The dataclass that the request's JSON object is read as."""
    needs_body: bool = True
    """Whether the body may not be empty."""
    parameters: Sequence[Parameter[Any, Any]] = ()
    """What else the handler reads of a request."""

    @property
    def shown_path(self) -> str:
        """The path as OpenAPI and the metrics show it: ``/v1/models/{model_id}``."""
        return _shown(self.path)

    @property
    def is_safe(self) -> bool:
        """Whether it changes nothing (RFC 9110, section 9.2.1): links of other sites may lead there.

        Refusing an unsupported route changes nothing either.
        """
        return self.method in ("GET", ANY_METHOD)

    def dialect_of(self, scope: Scope) -> Dialect:
        """The dialect in which a request is answered."""
        if self.dialect_by_header is None:
            return self.dialect
        name, other = self.dialect_by_header
        return self.dialect if header(scope, name.encode()) is None else other

    def __call__(self, handler: Handler) -> Handler:
        """Declares that a method serves this endpoint."""
        handler.__dict__.setdefault("endpoints", []).append(self)
        return handler


@dataclass(frozen=True, slots=True)
class Route:
    """An endpoint and what serves it."""

    endpoint: Endpoint
    serve: Serve


def routes_of(*apis: object) -> list[Route]:
    """What the methods of objects are declared to serve."""
    return [
        Route(endpoint, getattr(api, name))
        for api in apis
        for name, member in vars(type(api)).items()
        for endpoint in _declared(member)
    ]


@functools.cache
def _shown(path: str) -> str:
    return compile_path(path)[1]


def _declared(member: object) -> Iterable[Endpoint]:
    found: Iterable[Endpoint] = getattr(member, "endpoints", ())
    return found
