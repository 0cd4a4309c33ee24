"""A client of a running server, for the commands that talk to one."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping
from http.client import HTTPException, HTTPResponse
from typing import Any

from llmserve import __version__
from llmserve.cli.errors import CommandError, UsageError
from llmserve.server.addresses import is_loopback_name
from llmserve.server.settings import Settings, parse_settings

_TIMEOUT_S = 600.0
"""Without a byte for this long, a server counts as dead; llmserve's streams have signs of life in between."""
_DATA, _DONE = b"data:", b"[DONE]"


def add_server_arguments(parser: argparse._ActionsContainer, *, default: str = "") -> None:
    """Declares the server's address and key; ``default`` says what is asked without them."""
    parser.add_argument(
        "--url", metavar="URL", help=f"address of a server, such as http://127.0.0.1:8082{default}"
    )
    parser.add_argument(
        "--api-key", metavar="KEY", help="the server's API key; better in LLMSERVE_API_KEY, which nobody sees"
    )


def client_of(arguments: argparse.Namespace) -> Client:
    """The client of the server that is named, or else of the one on this machine's configured port."""
    settings = parse_settings(os.environ)
    key = arguments.api_key or next(iter(os.environ.get("LLMSERVE_API_KEY", "").split(",")), "").strip()
    return Client(arguments.url or local_url(settings), key)


def local_url(settings: Settings) -> str:
    """The address of a server with these settings, as this machine reaches it."""
    first = settings.hosts[0]
    host = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}.get(first, first)  # noqa: S104
    scheme = "https" if settings.ssl_certfile is not None else "http"
    return f"{scheme}://{f'[{host}]' if ':' in host else host}:{settings.port}{settings.root_path}"


class Client:
    """Requests to one server. Every method raises `CommandError` where the server does not do as asked."""

    def __init__(self, url: str, api_key: str) -> None:
        """``api_key`` may be empty.

        Raises:
            UsageError: The URL is not one of HTTP.
        """
        parsed = urllib.parse.urlsplit(url)
        if parsed.scheme not in ("http", "https") or not parsed.hostname:
            raise UsageError(f"--url must be the address of a server, got {url!r}", "http://127.0.0.1:8082")
        # `/v1` is what clients of OpenAI's API are given.
        self.url = url.rstrip("/").removesuffix("/v1")
        self._headers = {"User-Agent": f"llmserve/{__version__}", "Content-Type": "application/json"}
        if api_key:
            self._headers["Authorization"] = f"Bearer {api_key}"
        # No proxy leads to this machine.
        proxies = [urllib.request.ProxyHandler({})] if is_loopback_name(parsed.hostname) else []
        self._opener = urllib.request.build_opener(*proxies)

    def get_json(self, path: str) -> dict[str, Any]:
        """The object that a path has."""
        with self._open(path, None) as answer:
            return _object(answer.read())

    def get_text(self, path: str) -> str:
        """The text that a path has."""
        with self._open(path, None) as answer:
            text: str = answer.read().decode()
            return text

    def post_json(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """The answer to an object."""
        with self._open(path, body) as answer:
            return _object(answer.read())

    def stream(self, path: str, body: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        """The events of a stream; leaving the iteration leaves the request, which the server then ends."""
        with self._open(path, body) as answer:
            while line := answer.readline():
                if not line.startswith(_DATA):
                    continue
                data = line.removeprefix(_DATA).strip()
                if data == _DONE:
                    return
                event = _object(data)
                if error := event.get("error"):
                    raise CommandError(f"the server failed: {_message(error)}")
                yield event
        raise CommandError(f"the connection to {self.url} ended before the answer did")

    @contextlib.contextmanager
    def _open(self, path: str, body: Mapping[str, Any] | None) -> Iterator[HTTPResponse]:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"{self.url}{path}", data, self._headers)  # noqa: S310 - checked
        try:
            with self._opener.open(request, timeout=_TIMEOUT_S) as answer:
                yield answer
        except urllib.error.HTTPError as error:
            with error:
                raise _refusal(error) from None
        except (OSError, HTTPException) as error:
            reason = error.reason if isinstance(error, urllib.error.URLError) else error
            text = getattr(reason, "strerror", None) or str(reason) or type(reason).__name__
            raise CommandError(
                f"no answer from {self.url}: {text.lower()}",
                "llmserve serve starts a server; --url names another",
            ) from None


def _refusal(error: urllib.error.HTTPError) -> CommandError:
    try:
        message = _message(json.load(error)["error"])
    except (ValueError, KeyError, TypeError, OSError):
        message = f"{error.code} {error.reason}"
    hint = "give the server's key with --api-key or LLMSERVE_API_KEY" if error.code == 401 else ""
    return CommandError(f"the server refuses: {message}", hint)


def _message(error: Any) -> str:
    return str(error.get("message", error)) if isinstance(error, Mapping) else str(error)


def _object(data: bytes) -> dict[str, Any]:
    try:
        read = json.loads(data)
    except ValueError:
        read = None
    if not isinstance(read, dict):
        raise CommandError(
            f"the answer is not that of a server of OpenAI's API: {data[:80].decode(errors='replace')}"
        )
    return read
