"""Which requests are local."""

from __future__ import annotations

from typing import Any

import pytest

from llmserve.server.trust.local import is_local

End = tuple[str, int | None] | None
LOOPBACK = ("127.0.0.1", 1)
UNIX = ("/sock", None)


@pytest.mark.parametrize("end", [LOOPBACK, ("127.8.9.1", 1), ("::1", 1), ("::ffff:127.0.0.1", 1)])
def test_both_ends_must_be_loopback_addresses(end: End) -> None:
    assert is_local({"server": end, "client": end, "headers": []})
    for other in (("10.0.0.1", 1), ("::", 1), ("example.org", 1), ("", 1), None):
        assert not is_local({"server": end, "client": other})
        assert not is_local({"server": other, "client": end})


def test_unix_sockets_are_local() -> None:
    assert is_local({"server": UNIX, "client": None})
    assert is_local({"server": UNIX, "client": ("", None)})
    # An address as a server may have read it from a header.
    assert not is_local({"server": UNIX, "client": ("192.0.2.1", 0)})
    assert not is_local({"server": LOOPBACK, "client": ("", None)})


@pytest.mark.parametrize("scope", [{}, {"server": None}, {"client": LOOPBACK}, {"server": LOOPBACK}])
def test_what_is_not_known_is_not_local(scope: dict[str, Any]) -> None:
    assert not is_local(scope)


@pytest.mark.parametrize(
    "name",
    [b"forwarded", b"x-forwarded-for", b"x-forwarded-host", b"x-forwarded-proto", b"x-real-ip", b"via"],
)
@pytest.mark.parametrize(
    "scope", [{"server": LOOPBACK, "client": LOOPBACK}, {"server": UNIX, "client": None}]
)
def test_nothing_that_a_proxy_passed_on_is_local(scope: dict[str, Any], name: bytes) -> None:
    # Also where the proxy says that it was local for it.
    assert not is_local({**scope, "headers": [(b"host", b"x"), (name, b"127.0.0.1")]})
    assert is_local({**scope, "headers": [(b"host", b"x"), (b"x-forwarder", b"1"), (b"viaduct", b"1")]})
