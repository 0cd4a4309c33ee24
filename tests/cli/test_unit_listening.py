"""The address that is taken before a model is loaded."""

from __future__ import annotations

import contextlib
import socket
from pathlib import Path

import pytest

from llmserve.cli.certificate import check_certificate
from llmserve.cli.errors import CommandError, UsageError
from llmserve.cli.listening import take_address
from llmserve.server.settings import Settings, parse_settings


def settings(**values: object) -> Settings:
    return parse_settings({}, {"port": "0", **{name: str(value) for name, value in values.items()}})


def refusal(**values: object) -> str:
    with pytest.raises(CommandError) as caught:
        take_address(settings(**values))
    return str(caught.value)


def test_a_port_is_taken_and_others_are_told_so() -> None:
    (sock,) = take_address(settings())
    with sock:
        port = sock.getsockname()[1]
        with socket.socket() as client:
            # Nobody is kept waiting while the model is loaded.
            assert client.connect_ex(("127.0.0.1", port)) != 0
        sock.listen()
        assert refusal(port=port) == (
            f"127.0.0.1:{port} is in use by another program\n"
            "hint: choose another port with --port; 0 picks a free one"
        )


def test_all_addresses_of_a_name_have_one_port() -> None:
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(sock) for sock in take_address(settings(host="localhost"))]
        assert len({sock.getsockname()[1] for sock in sockets}) == 1


def test_several_hosts_have_one_port() -> None:
    with contextlib.ExitStack() as stack:
        taken = take_address(settings(host="127.0.0.1, 127.0.0.2"))
        sockets = [stack.enter_context(sock) for sock in taken]
        hosts, ports = zip(*(sock.getsockname()[:2] for sock in sockets), strict=True)
        assert (hosts, len(set(ports))) == (("127.0.0.1", "127.0.0.2"), 1)
    assert refusal(host="127.0.0.1,192.0.2.1").startswith("192.0.2.1 is not an address of this machine")


def test_addresses_of_others() -> None:
    assert refusal(host="192.0.2.1").startswith("192.0.2.1 is not an address of this machine\nhint: ")
    assert refusal(host="none.invalid").startswith("the host 'none.invalid' is unknown\nhint: ")


def test_unix_sockets_are_checked(tmp_path: Path) -> None:
    path = tmp_path / "s"
    assert take_address(settings(uds=path)) == []
    assert refusal(uds=tmp_path / "none" / "s").endswith(f"there is no folder {tmp_path / 'none'}")
    with socket.socket(socket.AF_UNIX) as sock:
        sock.bind(str(path))
        sock.listen()
        assert refusal(uds=path).startswith(f"{path} is in use by another program")
    # Its server has ended and left it behind.
    assert take_address(settings(uds=path)) == []
    path.unlink()
    path.touch()
    assert refusal(uds=path).startswith(f"cannot listen on {path}: a file has this name")


def test_a_certificate_that_cannot_be_used(tmp_path: Path) -> None:
    check_certificate(settings())
    missing = tmp_path / "none.pem"
    with pytest.raises(UsageError, match=r"none\.pem cannot be used: No such file"):
        check_certificate(settings(ssl_certfile=missing))
    (tmp_path / "bad.pem").write_text("no certificate")
    with pytest.raises(UsageError, match=r"bad\.pem and .*none\.pem cannot be used"):
        check_certificate(settings(ssl_certfile=tmp_path / "bad.pem", ssl_keyfile=missing))
