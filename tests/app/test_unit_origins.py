"""Which web pages may call the server."""

from __future__ import annotations

from typing import Any

import pytest

from llmserve.server.refusals import ForeignOriginError
from llmserve.server.trust.hosts import HostRule
from llmserve.server.trust.origins import OriginRule

SERVERS = [("127.0.0.1", 8082), ("192.0.2.1", 8082), ("/run/llmserve.sock", None), None]


@pytest.fixture(params=SERVERS)
def server(request: pytest.FixtureRequest) -> Any:
    return request.param


def passes(
    server: Any,
    origin: bytes | None,
    host: bytes = b"localhost:8082",
    *allowed: str,
    site: bytes | None = None,
    names: tuple[str, ...] = (),
) -> bool:
    given = {b"host": host, b"origin": origin, b"sec-fetch-site": site}
    headers = [(name, value) for name, value in given.items() if value is not None]
    try:
        OriginRule(allowed, HostRule(names))({"type": "http", "server": server, "headers": headers})
    except ForeignOriginError:
        return False
    return True


@pytest.mark.parametrize(
    ("origin", "host"),
    [
        (b"http://localhost:8082", b"localhost:8082"),
        (b"https://localhost:8082", b"localhost:8082"),
        (b"HTTP://LocalHost:8082", b"LOCALHOST:8082"),
        (b"http://[::1]:8082", b"[::1]:8082"),
        (b"http://localhost", b"localhost"),
        (b"https://llm.example", b"llm.example"),
        # Some proxies write the port of their listener.
        (b"https://llm.example", b"llm.example:443"),
        (b"http://llm.example", b"llm.example:80"),
    ],
)
def test_the_servers_own_pages_pass(server: Any, origin: bytes, host: bytes) -> None:
    assert passes(server, origin, host)


@pytest.mark.parametrize(
    "origin",
    [
        b"https://evil.example",
        b"http://localhost:1",
        b"http://[x",
        b"http://[::1",
        b"http://localhost:8082/path",
        b"http://localhost:8082@evil.example",
        b"ftp://localhost:8082",
        b"//localhost:8082",
        b"localhost:8082",
        b"null",
        b"",
        b"\xff\xfe",
    ],
)
def test_pages_of_every_other_origin_are_refused_however_broken(server: Any, origin: bytes) -> None:
    assert not passes(server, origin)
    assert not passes(server, origin, b"localhost:8082", names=("*",))


def test_pages_under_a_listed_name_are_the_servers_own(server: Any) -> None:
    # A proxy with TLS that does not keep the Host.
    names = ("llm.example", "*.corp.example")
    for origin in (b"https://llm.example", b"https://llm.example:8443", b"http://a.corp.example"):
        assert passes(server, origin, b"127.0.0.1:8082", names=names)
    for origin in (b"https://corp.example", b"https://evil.example", b"ftp://llm.example"):
        assert not passes(server, origin, b"127.0.0.1:8082", names=names)


def test_other_ports_of_this_machine_are_foreign_even_where_it_is_listed(server: Any) -> None:
    names = ("localhost", "127.0.0.1")
    assert not passes(server, b"http://localhost:3000", names=names)
    assert passes(server, b"http://localhost:8082", names=names)


def test_origins_of_the_cors_setting_pass(server: Any) -> None:
    assert passes(server, b"https://a.example", b"localhost", "https://a.example", site=b"cross-site")
    assert passes(server, b"http://[x", b"localhost", "*")
    assert passes(server, None, b"localhost", "*", site=b"cross-site")
    assert not passes(server, b"https://b.example", b"localhost", "https://a.example")


def test_requests_for_other_sites_that_carry_no_origin_are_refused(server: Any) -> None:
    assert not passes(server, None, site=b"cross-site")
    assert not passes(server, None, b"localhost", "https://a.example", site=b"cross-site")
    for site in (None, b"none", b"same-origin", b"same-site"):
        assert passes(server, None, site=site)


@pytest.mark.parametrize(
    ("origin", "named"), [(None, "Sec-Fetch-Site"), ("https://b.example", "the Origin is")]
)
def test_a_refusal_names_the_header(origin: str | None, named: str) -> None:
    headers = [(b"sec-fetch-site", b"cross-site"), *([(b"origin", origin.encode())] if origin else [])]
    with pytest.raises(ForeignOriginError, match=f"^{named}"):
        OriginRule((), HostRule(()))({"type": "http", "method": "GET", "headers": headers})


LINK = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate", "sec-fetch-dest": "document"}


def links(method: str = "GET", *, may_be_linked: bool = True, **changed: str) -> bool:
    given = {**LINK, **{name.replace("_", "-"): value for name, value in changed.items()}}
    headers = [(name.encode(), value.encode()) for name, value in given.items()]
    scope = {"type": "http", "method": method, "server": SERVERS[0], "headers": headers}
    try:
        OriginRule((), HostRule(()))(scope, may_be_linked=may_be_linked)
    except ForeignOriginError:
        return False
    return True


def test_a_link_that_a_user_follows_passes_to_what_changes_nothing() -> None:
    assert links()
    assert not links(may_be_linked=False)
    assert not links("POST")
    # What a page embeds or fetches.
    for dest in ("iframe", "image", "script", "empty"):
        assert not links(sec_fetch_dest=dest)
    for mode in ("no-cors", "cors"):
        assert not links(sec_fetch_mode=mode)
    assert not links(origin="https://a.example")
