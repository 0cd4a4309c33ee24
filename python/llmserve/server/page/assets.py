"""The files of the pages, as browsers get them."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources

from starlette.types import Scope

from llmserve.server.refusals import RouteNotFoundError
from llmserve.server.web.exchange import Exchange
from llmserve.server.web.headers import header

_MEDIA_TYPES: Mapping[str, str] = {
    "css": "text/css; charset=utf-8",
    "html": "text/html; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}

# Pages talk to this server only, and no text can become markup.
_HEADERS: Mapping[str, str] = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; form-action 'none'; base-uri 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-cache",
}


@dataclass(frozen=True, slots=True)
class Asset:
    """A file with its type and entity tag."""

    body: bytes
    media_type: str
    etag: str


@cache
def _assets() -> Mapping[str, Asset]:
    """All files by name. What clients ask for is only looked up here, never opened."""
    folder = resources.files("llmserve.server.page").joinpath("static")
    return {file.name: _asset(file.name, file.read_bytes()) for file in folder.iterdir()}


def _asset(name: str, body: bytes) -> Asset:
    media_type = _MEDIA_TYPES[name.rpartition(".")[2]]
    return Asset(body, media_type, f'"{hashlib.sha256(body).hexdigest()[:32]}"')


async def send_asset(exchange: Exchange, name: str, *, vary: str | None = None) -> None:
    """Answers with a file, or says that the browser has it already.

    Raises:
        RouteNotFoundError: There is no such file.
    """
    asset = _assets().get(name)
    if asset is None:
        raise RouteNotFoundError
    headers = {**_HEADERS, "ETag": asset.etag, **({} if vary is None else {"Vary": vary})}
    if _has(exchange.request.scope, asset.etag):
        await exchange.send_head(304, headers)
    else:
        await exchange.send_bytes(asset.body, asset.media_type, headers=headers)


def _has(scope: Scope, etag: str) -> bool:
    """Whether the browser has this version (RFC 9110, section 13.1.2); proxies that compress weaken tags."""
    given = header(scope, b"if-none-match") or ""
    return etag in [tag.strip().removeprefix("W/") for tag in given.split(",")]


def accepts_html(scope: Scope) -> bool:
    """Whether a client asks for HTML by name, as browsers do; programs send ``*/*`` or nothing."""
    return _accepts(scope, "text/html")


def accepts_json(scope: Scope) -> bool:
    """Whether a client asks for JSON by name."""
    return _accepts(scope, "application/json")


def _accepts(scope: Scope, media_type: str) -> bool:
    ranges = (header(scope, b"accept") or "").lower().split(",")
    return any(part.partition(";")[0].strip() == media_type for part in ranges)
