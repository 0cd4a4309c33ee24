"""The OpenAPI 3.1 document, built from the same endpoints and schema classes that serve."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from llmserve.server.trust.keys import Access
from llmserve.server.web.declared_errors import declared_errors
from llmserve.server.web.endpoint import Content, Endpoint, json_of
from llmserve.server.web.json_schema import json_schema, nested
from llmserve.server.web.parameters import Parameter

_DESCRIPTION = (
    "Serves GGUF language models over llama.cpp. Models are loaded with progress events; text is generated "
    "as one answer or token by token over server-sent events. A stream that is quiet for a while gets SSE "
    "comments. Every response carries `X-Request-ID`; fields without effect are named in "
    "`X-LLMServe-Ignored`."
)


_SCHEMES = {
    "bearer": {"type": "http", "scheme": "bearer"},
    "header": {"type": "apiKey", "in": "header", "name": "X-API-Key"},
}
_WITH_KEY: list[dict[str, list[str]]] = [{name: []} for name in _SCHEMES]
_SECURITY: Mapping[Access, list[dict[str, list[str]]]] = {
    "key": _WITH_KEY,
    "local": [*_WITH_KEY, {}],
    "open": [],
}
"""What requests may carry, one of each list. `{}` is nothing: local requests need no key."""


def build_document(endpoints: Iterable[Endpoint], version: str, *, needs_key: bool) -> dict[str, Any]:
    """The document of a server, which may ask for an API key."""
    paths: dict[str, dict[str, Any]] = {}
    types: set[type] = set()
    for endpoint in endpoints:
        if endpoint.operation_id:
            operation = _operation(endpoint, types, needs_key=needs_key)
            paths.setdefault(endpoint.shown_path, {})[endpoint.method.lower()] = operation
    every = {cls.__name__: cls for named in types for cls in (named, *nested(named))}
    components: dict[str, Any] = {"schemas": {name: json_schema(cls) for name, cls in sorted(every.items())}}
    document: dict[str, Any] = {
        "openapi": "3.1.0",
        "info": {"title": "llmserve", "version": version, "description": _DESCRIPTION},
        "servers": [{"url": "/", "description": "This server"}],
        "paths": paths,
        "components": components,
    }
    if needs_key:
        components["securitySchemes"] = _SCHEMES
        document["security"] = _SECURITY["key"]
    return document


def _operation(endpoint: Endpoint, types: set[type], *, needs_key: bool) -> dict[str, Any]:
    """The description of an endpoint; ``types`` gets the classes that it refers to."""
    error = json_of(endpoint.dialect.error)
    errors = declared_errors(endpoint, needs_key=needs_key)
    responses = {status: Content(text, error) for status, text in errors.items()} | dict(endpoint.responses)
    operation: dict[str, Any] = {
        "operationId": endpoint.operation_id,
        "summary": endpoint.summary,
        "description": endpoint.description,
        "responses": {str(status): _response(responses[status], types) for status in sorted(responses)},
    }
    if needs_key and endpoint.access != "key":
        operation["security"] = _SECURITY[endpoint.access]
    if endpoint.parameters:
        operation["parameters"] = [_parameter(parameter) for parameter in endpoint.parameters]
    if endpoint.body is not None:
        operation["requestBody"] = {
            "required": endpoint.needs_body,
            "content": {"application/json": {"schema": _resolved(endpoint.body, types)}},
        }
    return operation


def _parameter(parameter: Parameter[Any, Any]) -> dict[str, Any]:
    return {
        "name": parameter.name,
        "in": parameter.place,
        "required": parameter.place == "path",
        "description": parameter.doc,
        "schema": dict(parameter.schema),
    }


def _response(content: Content, types: set[type]) -> dict[str, Any]:
    response: dict[str, Any] = {"description": content.description}
    if content.media:
        response["content"] = _resolved(content.media, types)
    return response


def _resolved(value: Any, types: set[type]) -> Any:
    """The value, with references to schemas in place of classes."""
    if isinstance(value, type):
        types.add(value)
        return {"$ref": f"#/components/schemas/{value.__name__}"}
    if isinstance(value, Mapping):
        return {name: _resolved(item, types) for name, item in value.items()}
    return [_resolved(item, types) for item in value] if isinstance(value, list) else value
