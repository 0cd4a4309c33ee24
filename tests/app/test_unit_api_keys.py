from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from llmserve.cli.hidden_key import without_api_key
from llmserve.server.api_keys import ApiKeys
from llmserve.server.refusals import UnauthorizedError
from llmserve.server.settings import Settings, SettingsError, parse_settings
from llmserve.server.trust.keys import Access, KeyRule
from llmserve.server.web.errors import fault_headers, fault_of

KEYS = ApiKeys(["first-key", "second-key"])


def test_each_key_opens() -> None:
    assert KEYS
    assert KEYS.authorize("first-key")
    assert KEYS.authorize("second-key")


@pytest.mark.parametrize(
    "candidate", [None, "", "first", "first-key ", "First-key", "first-key,second-key", "\xff"]
)
def test_nothing_else_does(candidate: str | None) -> None:
    assert not KEYS.authorize(candidate)


def test_without_keys_everybody_may_enter() -> None:
    assert not ApiKeys()
    assert ApiKeys().authorize(None)


def parsed(text: str) -> Settings:
    return parse_settings({"LLMSERVE_API_KEY": text})


def test_keys_are_a_setting_that_does_not_show_them() -> None:
    settings = parsed(" one-key , two-key ")
    assert settings.api_key.authorize("one-key")
    assert settings.api_key.authorize("two-key")
    assert "-key" not in repr(settings)
    assert "<2 API keys>" in repr(settings)
    assert not parsed("").api_key


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (" , ", "LLMSERVE_API_KEY must contain at least one key, got none"),
        (
            "fine,two words",
            "LLMSERVE_API_KEY must be keys of printable ASCII characters without spaces; key 2 is not",
        ),
        (
            "schlüssel",
            "LLMSERVE_API_KEY must be keys of printable ASCII characters without spaces; key 1 is not",
        ),
    ],
)
def test_errors_do_not_show_them_either(text: str, message: str) -> None:
    with pytest.raises(SettingsError) as caught:
        parsed(text)
    assert str(caught.value) == message


def test_the_command_line_without_the_key() -> None:
    command = ["python", "-m", "llmserve", "serve", "--api-key", "k", "a.gguf", "--api-key=k", "--port", "1"]
    assert without_api_key(command) == ["python", "-m", "llmserve", "serve", "a.gguf", "--port", "1"]


def ask(
    headers: Mapping[str, str],
    method: str = "POST",
    *,
    access: Access = "key",
    server: str = "192.0.2.1",
) -> UnauthorizedError | None:
    raw = [(name.lower().encode(), value.encode("latin-1")) for name, value in headers.items()]
    scope: dict[str, Any] = {"type": "http", "method": method, "headers": raw}
    scope |= {"server": (server, 8082), "client": (server, 50000)}
    try:
        KeyRule(KEYS)(scope, access)
    except UnauthorizedError as error:
        return error
    return None


@pytest.mark.parametrize(
    "headers",
    [
        {"Authorization": "Bearer first-key"},
        {"authorization": "bearer   second-key "},
        {"X-API-Key": "second-key"},
        {"X-API-Key": "first-key", "Authorization": "Basic abc"},
        {"X-API-Key": "wrong", "Authorization": "Bearer first-key"},
        {"X-API-Key": "first-key", "Authorization": "Bearer wrong"},
    ],
)
def test_headers_that_open(headers: dict[str, str]) -> None:
    assert ask(headers) is None


@pytest.mark.parametrize(
    ("headers", "was_given"),
    [
        ({}, False),
        ({"Authorization": "first-key"}, False),
        ({"Authorization": "Basic first-key"}, False),
        ({"Authorization": "Bearer"}, False),
        ({"Authorization": "Bearer "}, True),
        ({"Authorization": "Bearer wrong"}, True),
        ({"X-API-Key": "wrong"}, True),
        ({"X-API-Key": "Bearer first-key"}, True),
    ],
)
def test_headers_that_do_not(headers: dict[str, str], was_given: bool) -> None:
    error = ask(headers)
    assert error is not None
    assert error.was_given == was_given
    fault = fault_of(error, "")
    assert (fault.status, fault.rule.grpc_status) == (401, "UNAUTHENTICATED")
    expected = b'Bearer realm="llmserve"' + (b', error="invalid_token"' if was_given else b"")
    assert fault_headers(fault) == [(b"www-authenticate", expected)]


def test_what_is_open_and_preflights_need_none() -> None:
    assert ask({}, "GET", access="open") is None
    assert ask({}, "GET") is not None
    preflight = {"Origin": "https://a.example", "Access-Control-Request-Method": "POST"}
    assert ask(preflight, method="OPTIONS") is None
    assert ask(preflight) is not None
    assert ask({"Origin": "https://a.example"}, method="OPTIONS") is not None


def test_local_requests_need_none_where_the_endpoint_says_so() -> None:
    assert ask({}, access="local", server="127.0.0.1") is None
    assert ask({}, access="local") is not None
    assert ask({"X-Forwarded-For": "127.0.0.1"}, access="local", server="127.0.0.1") is not None
    assert ask({}, server="127.0.0.1") is not None


def test_both_headers_are_looked_at_always(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str | None] = []
    authorize = ApiKeys.authorize

    def watched(keys: ApiKeys, candidate: str | None) -> bool:
        seen.append(candidate)
        return authorize(keys, candidate)

    monkeypatch.setattr(ApiKeys, "authorize", watched)
    assert ask({"Authorization": "Bearer first-key", "X-API-Key": "wrong"}) is None
    assert seen == ["first-key", "wrong"]
