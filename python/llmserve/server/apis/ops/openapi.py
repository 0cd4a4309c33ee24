"""The OpenAPI 3.1 document, built from the same endpoints and schema classes that serve."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

from starlette.routing import compile_path

from llmserve.server.web.endpoint import Content, Endpoint
from llmserve.server.web.json_schema import json_schema, nested

_DESCRIPTION = (
    "Serves GGUF language models over llama.cpp. Models are loaded with progress events; text is generated "
    "as one answer or token by token over server-sent events. A stream that is quiet for a while gets SSE "
    "comments. Every response carries `X-Request-ID`; fields without effect are named in "
    "`X-LLMServe-Ignored`."
)


def build_document(
    endpoints: Iterable[Endpoint], response_types: Iterable[type], version: str
) -> dict[str, Any]:
    """The document. ``response_types`` are the classes that responses refer to."""
    paths: dict[str, dict[str, Any]] = {}
    types: dict[str, type] = {cls.__name__: cls for cls in response_types}
    for endpoint in endpoints:
        _, path, _ = compile_path(endpoint.path)
        paths.setdefault(path, {})[endpoint.method.lower()] = _operation(endpoint)
        if endpoint.body is not None:
            types |= {cls.__name__: cls for cls in (endpoint.body, *nested(endpoint.body))}
    return {
        "openapi": "3.1.0",
        "info": {"title": "llmserve", "version": version, "description": _DESCRIPTION},
        "servers": [{"url": "/", "description": "This server"}],
        "paths": paths,
        "components": {"schemas": {name: json_schema(cls) for name, cls in sorted(types.items())}},
    }


def with_key(document: dict[str, Any], open_paths: Collection[str]) -> dict[str, Any]:
    """The document of a server that asks for an API key, except at some paths."""
    schemes = {
        "bearer": {"type": "http", "scheme": "bearer"},
        "header": {"type": "apiKey", "in": "header", "name": "X-API-Key"},
    }
    for path in open_paths:
        for operation in document["paths"].get(path, {}).values():
            operation["security"] = []
    components = {**document["components"], "securitySchemes": schemes}
    return {**document, "security": [{name: []} for name in schemes], "components": components}


def _operation(endpoint: Endpoint) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "operationId": endpoint.operation_id,
        "summary": endpoint.summary,
        "description": endpoint.description,
        "responses": {str(status): _response(content) for status, content in endpoint.responses.items()},
    }
    if endpoint.parameters:
        operation["parameters"] = [
            {"name": name, "in": "path", "required": True, "description": doc, "schema": {"type": "string"}}
            for name, doc in endpoint.parameters.items()
        ]
    if endpoint.body is not None:
        reference = {"$ref": f"#/components/schemas/{endpoint.body.__name__}"}
        operation["requestBody"] = {
            "required": endpoint.needs_body,
            "content": {"application/json": {"schema": reference}},
        }
    return operation


def _response(content: Content) -> dict[str, Any]:
    response: dict[str, Any] = {"description": content.description}
    if content.media:
        response["content"] = {media: dict(item) for media, item in content.media.items()}
    return response
