"""Under which names requests may address the server."""

from __future__ import annotations

from typing import Any

import pytest

from llmserve.server.addresses import Authority
from llmserve.server.refusals import ForeignHostError, RepeatedHostError
from llmserve.server.settings import SettingsError, parse_settings
from llmserve.server.trust.hosts import HostRule, check_single

LOOPBACK = ("127.0.0.1", 8082)
LAN = ("192.0.2.1", 8082)
UNIX = ("/run/llmserve.sock", None)


def passes(host: str | None, *names: str, server: Any = LOOPBACK) -> bool:
    headers = [] if host is None else [(b"host", host.encode("latin-1"))]
    scope = {"type": "http", "server": server, "headers": headers}
    try:
        HostRule(names)(scope)
    except ForeignHostError:
        return False
    return True


def test_two_hosts_are_refused() -> None:
    headers = [(b"host", b"localhost"), (b"host", b"localhost")]
    with pytest.raises(RepeatedHostError):
        check_single({"type": "http", "server": LOOPBACK, "headers": headers})


@pytest.mark.parametrize(
    "host",
    [
        "localhost",
        "LocalHost:8082",
        "a.localhost:1",
        "127.0.0.1:8082",
        "127.8.9.1",
        "[::1]:8082",
        "localhost.",
        None,
    ],
)
@pytest.mark.parametrize("names", [(), ("llm.example",)])
@pytest.mark.parametrize("server", [LOOPBACK, LAN, UNIX])
def test_loopback_names_always_pass(host: str | None, names: tuple[str, ...], server: Any) -> None:
    assert passes(host, *names, server=server)


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "localhost.evil.example:8082",
        "127.0.0.1.evil.example",
        "192.0.2.1",
        "0.0.0.0:8082",
        "",
        "[x",
        "localhost@evil.example",
        "evil.example#localhost",
        "local\xa0host",
    ],
)
def test_by_default_any_other_name_passes_except_on_loopback(host: str) -> None:
    assert not passes(host)
    assert passes(host, server=LAN)
    assert passes(host, server=UNIX)
    assert passes(host, server=None)


@pytest.mark.parametrize("server", [LOOPBACK, LAN, UNIX, None])
def test_listed_names_pass_and_no_others(server: Any) -> None:
    names = ("llm.example", "*.corp.example", "2001:db8::1", "192.0.2.7")
    for host in (
        "llm.example",
        "LLM.Example:443",
        "llm.example.",
        "a.b.corp.example",
        "[2001:db8::1]:1",
        "192.0.2.7:8",
    ):
        assert passes(host, *names, server=server), host
    for host in ("a.llm.example", "xllm.example", "corp.example", "xcorp.example", "evil.example", "", "[x"):
        assert not passes(host, *names, server=server), host


def test_an_asterisk_allows_every_name() -> None:
    assert passes("evil.example", "*")
    assert passes("", "*")


def test_the_setting() -> None:
    def parsed(text: str) -> tuple[str, ...]:
        return parse_settings({"LLMSERVE_ALLOWED_HOSTS": text}).allowed_hosts

    assert parsed("") == ()
    assert parsed("LLM.example, *.corp.example,[::1],host_1,*") == (
        "llm.example",
        "*.corp.example",
        "::1",
        "host_1",
        "*",
    )
    for text in (
        "https://llm.example",
        "llm.example:8082",
        "llm.example/",
        "*.",
        "a.*.example",
        "**",
        "two words",
    ):
        with pytest.raises(SettingsError, match="LLMSERVE_ALLOWED_HOSTS must be names"):
            parsed(text)


@pytest.mark.parametrize(
    ("text", "authority"),
    [
        ("a.example", Authority("a.example", None)),
        ("A.example.:80", Authority("a.example", 80)),
        ("a.example:", Authority("a.example", None)),
        ("[::1]:1", Authority("::1", 1)),
        ("::1", None),
        ("[::1", None),
        ("a:b", None),
        ("user@a", None),
        ("a/b", None),
        ("", None),
        (":80", None),
    ],
)
def test_authorities(text: str, authority: Authority | None) -> None:
    assert Authority.parse(text) == authority
