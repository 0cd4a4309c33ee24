"""The gRPC service as a server: loads, keys, health, reflection, start and end."""

from __future__ import annotations

import re
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from llmserve.server.apis.grpc import llmserver_pb2
from llmserve.server.apis.grpc.starting import CONVENTIONAL_PORT
from serving import ServerProcess, free_port, get, post, serve, serve_with_uvicorn, wait_until
from serving.grpc_client import GrpcClient, connect, failure
from serving.process import environment
from toolchain import ROOT

pytestmark = pytest.mark.model

SERVING = health_pb2.HealthCheckResponse.SERVING
NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING
ENDLESS: dict[str, Any] = {"prompt": "1 2 3 4 5", "max_tokens": 1900, "stream": True}


@dataclass(frozen=True)
class Empty:
    """A server without a model."""

    server: ServerProcess
    client: GrpcClient

    def load(self, path: object) -> list[float]:
        return [message.progress for message in self.client.load(path)]

    def states(self) -> dict[str, str]:
        return {model["id"]: model["state"] for model in get(self.server.port, "/health").json["models"]}


@pytest.fixture(scope="module", params=["uvloop", "asyncio"])
def empty(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Empty]:
    """By plain uvicorn, on both of its event loops."""
    port = free_port()
    env = {"LLMSERVE_GRPC_PORT": str(port)}
    with serve_with_uvicorn(tmp_path_factory.mktemp("empty"), "--loop", request.param, env=env) as server:
        server.wait_until_listening()
        with connect(port) as client:
            yield Empty(server, client)
        assert "Traceback" not in server.log


@pytest.fixture
def tiny(tiny_model: Path, tmp_path: Path) -> Path:
    """A model of this test's own."""
    return Path(shutil.copy(tiny_model, tmp_path / "tiny.gguf"))


def health(client: GrpcClient, service: str = "") -> Any:
    stub = health_pb2_grpc.HealthStub(client.channel)
    return stub.Check(health_pb2.HealthCheckRequest(service=service), timeout=60).status


def watch(client: GrpcClient, service: str = "") -> Any:
    stub = health_pb2_grpc.HealthStub(client.channel)
    return stub.Watch(health_pb2.HealthCheckRequest(service=service), timeout=120)


def reflect(client: GrpcClient, metadata: Any = (), **fields: str) -> Any:
    stub = reflection_pb2_grpc.ServerReflectionStub(client.channel)
    request = reflection_pb2.ServerReflectionRequest(**fields)
    (answer,) = stub.ServerReflectionInfo(iter([request]), timeout=60, metadata=metadata)
    return answer


def test_a_load_tells_its_progress_and_the_model_is_there_for_http(
    empty: Empty, model_path: Path, tmp_path: Path
) -> None:
    copy = shutil.copy(model_path, tmp_path / "copy.gguf")
    shown = empty.load(copy)
    assert 0 < shown[0] < 1
    assert shown[-1] == 1
    assert shown == sorted(set(shown))
    assert empty.load(copy) == [1]
    body = {"model": str(copy), "prompt": "Once upon a time", "max_tokens": 12}
    over_http = post(empty.server.port, "/completions", body).json["message"]
    assert empty.client.text(model=str(copy), max_tokens=12) == over_http
    parts = [message.message for message in empty.client.stream(model=str(copy), max_tokens=12)]
    assert b"".join(parts).decode() == over_http


def test_callers_of_one_path_share_a_load(empty: Empty, model_path: Path, tmp_path: Path) -> None:
    copy = shutil.copy(model_path, tmp_path / "shared.gguf")
    with ThreadPoolExecutor(4) as pool:
        for shown in pool.map(lambda _: empty.load(copy), range(4)):
            assert shown[-1] == 1
    assert [name for name in empty.states() if name.startswith("shared")] == ["shared"]


def test_the_last_one_to_leave_cancels_a_load(empty: Empty, model_path: Path, tmp_path: Path) -> None:
    copy = shutil.copy(model_path, tmp_path / "left.gguf")
    first, second = empty.client.load(copy), empty.client.load(copy)
    next(first)
    next(second)
    second.cancel()
    # One has left, one waits: the load goes on.
    assert 0 < next(first).progress <= 1
    first.cancel()
    # Which is faster, the cancellation or the load, is open.
    wait_until(lambda: empty.states().get("left") in (None, "ready"))
    assert empty.load(copy)[-1] == 1


@pytest.mark.parametrize(
    ("name", "content", "code", "details"),
    [
        ("missing.gguf", None, "NOT_FOUND", "there is no such file"),
        ("text.gguf", b"no model at all", "INVALID_ARGUMENT", "GGUF"),
        ("", None, "INVALID_ARGUMENT", "path is required"),
        ("a\0b", None, "PERMISSION_DENIED", "path is not allowed"),
    ],
)
def test_a_load_that_fails_ends_with_a_status(
    empty: Empty, tmp_path: Path, name: str, content: bytes | None, code: str, details: str
) -> None:
    path = "" if not name else str(tmp_path / name)
    if content is not None:
        Path(path).write_bytes(content)
    for _ in range(2):  # it can be tried again
        refused = failure(empty.client.load(path))
        assert refused.code.name == code
        assert details in refused.details
        assert str(tmp_path) not in refused.details


def test_other_backends_are_ignored_by_name(empty: Empty, tiny: Path) -> None:
    call = empty.client.load(tiny, backend=empty.client.pb.BACKEND_MLX, trust_remote_code=True)
    assert dict(call.initial_metadata())["x-llmserve-ignored"] == "trust_remote_code, backend"
    assert [message.progress for message in call][-1] == 1


def test_health_of_the_server_and_of_the_service(empty: Empty) -> None:
    assert health(empty.client) == SERVING
    assert health(empty.client, "proto.LLMServer") == SERVING
    unknown = failure(partial(health, empty.client, "other"))
    assert unknown.code is grpc.StatusCode.NOT_FOUND
    call = watch(empty.client, "other")
    assert next(call).status == health_pb2.HealthCheckResponse.SERVICE_UNKNOWN
    call.cancel()


def test_reflection_tells_what_the_proto_says(empty: Empty) -> None:
    services = reflect(empty.client, list_services="").list_services_response.service
    assert {service.name for service in services} == {
        "proto.LLMServer",
        "grpc.health.v1.Health",
        "grpc.reflection.v1alpha.ServerReflection",
    }
    for symbol in ("proto.LLMServer", "proto.PredictRequest.Options"):
        (raw,) = reflect(
            empty.client, file_containing_symbol=symbol
        ).file_descriptor_response.file_descriptor_proto
        assert FileDescriptorProto.FromString(raw) == FileDescriptorProto.FromString(
            llmserver_pb2.DESCRIPTOR.serialized_pb
        )
    unknown = reflect(empty.client, file_containing_symbol="proto.Other")
    assert unknown.error_response.error_code == grpc.StatusCode.NOT_FOUND.value[0]
    newer = empty.client.channel.stream_stream(
        "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
        reflection_pb2.ServerReflectionRequest.SerializeToString,
        reflection_pb2.ServerReflectionResponse.FromString,
    )
    (answer,) = newer(iter([reflection_pb2.ServerReflectionRequest(list_services="")]), timeout=60)
    assert len(answer.list_services_response.service) == 3


def test_with_models_dir_paths_must_resolve_inside(tiny_model: Path, tmp_path: Path) -> None:
    folder = tmp_path / "models"
    folder.mkdir()
    shutil.copy(tiny_model, folder / "inside.gguf")
    (folder / "link.gguf").symlink_to(tiny_model)
    port = free_port()
    env = {"MODELS_DIR": str(folder), "LLMSERVE_GRPC_PORT": str(port)}
    with serve_with_uvicorn(tmp_path, env=env) as server, connect(port) as client:
        server.wait_until_listening()
        assert [message.progress for message in client.load("inside.gguf")][-1] == 1
        for path in ("link.gguf", "../x.gguf", str(tiny_model), "/etc/passwd"):
            refused = failure(client.load(path))
            assert (refused.code.name, refused.details) == ("PERMISSION_DENIED", "path is not allowed")
        assert len(client.stream(model="inside.gguf", max_tokens=2)) == 2


def test_the_key_is_wanted_by_everything_but_health(tiny_model: Path, tmp_path: Path) -> None:
    port = free_port()
    env = {"LLMSERVE_API_KEY": "sesame,second", "LLMSERVE_GRPC_PORT": str(port)}
    with serve(tmp_path, tiny_model, env=env) as server, connect(port, tiny_model) as client:
        server.wait_until_ready()
        for wrong in (
            (),
            (("authorization", "Bearer wrong"),),
            (("x-api-key", ""),),
            (("authorization", "sesame"),),
        ):
            refused = [
                failure(client.call(max_tokens=1, metadata=wrong)),
                failure(partial(client.ping, wrong)),
                failure(partial(reflect, client, wrong, list_services="")),
            ]
            assert {one.code for one in refused} == {grpc.StatusCode.UNAUTHENTICATED}
            assert all("API key" in one.details for one in refused)
        assert failure(client.load(tiny_model)).code is grpc.StatusCode.UNAUTHENTICATED
        assert health(client) == SERVING
        for metadata in ((("authorization", "Bearer sesame"),), (("x-api-key", "second"),)):
            assert len(list(client.call(max_tokens=2, stream=True, metadata=metadata))) == 2
            client.ping(metadata)
            assert reflect(client, metadata, list_services="").list_services_response.service


def test_a_full_queue_refuses_with_a_time_to_try_again(model_path: Path, tmp_path: Path) -> None:
    port = free_port()
    arguments = ["--grpc-port", str(port), "--max-sequences", "1", "--max-queued-requests", "1"]
    with serve(tmp_path, model_path, *arguments) as server, connect(port, model_path) as client:
        server.wait_until_ready()
        running = client.call(**ENDLESS)
        next(running)
        waiting = client.call(max_tokens=2, stream=True)
        # Its head comes once it has its place in the queue.
        waiting.initial_metadata()
        refused = failure(client.call(max_tokens=2))
        assert refused.code is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert int(refused.trailer["retry-after"]) >= 1
        running.cancel()
        assert len(list(waiting)) == 2


def test_draining_refuses_new_calls_and_lets_running_ones_finish(model_path: Path, tmp_path: Path) -> None:
    port = free_port()
    arguments = ["--grpc-port", str(port), "--grace-s", "100"]
    with serve(tmp_path, model_path, *arguments) as server, connect(port, model_path) as client:
        server.wait_until_ready()
        watching = watch(client, "proto.LLMServer")
        assert next(watching).status == SERVING
        call = client.call(max_tokens=150, stream=True)
        messages = [next(call)]
        server.signal(signal.SIGTERM)
        assert next(watching).status == NOT_SERVING
        assert health(client) == NOT_SERVING
        for refused in (
            failure(client.call(max_tokens=1)),
            failure(client.load(model_path)),
            failure(client.ping),
        ):
            assert refused.code is grpc.StatusCode.UNAVAILABLE
            assert "draining" in refused.details
            assert refused.trailer["retry-after"] == "5"
        messages += call
        assert [message.tokens for message in messages] == list(range(1, 151))
        assert call.code() is grpc.StatusCode.OK
        assert server.wait() == 0
        assert "Traceback" not in server.log


def test_after_the_grace_time_running_calls_end_as_unavailable(model_path: Path, tmp_path: Path) -> None:
    port = free_port()
    arguments = ["--grpc-port", str(port), "--grace-s", "0.1"]
    with serve(tmp_path, model_path, *arguments) as server, connect(port, model_path) as client:
        server.wait_until_ready()
        call = client.call(**ENDLESS)
        next(call)
        server.signal(signal.SIGTERM)
        ended = failure(call)
        assert ended.code is grpc.StatusCode.UNAVAILABLE
        assert "stopping" in ended.details
        assert server.wait() == 0


def test_the_end_of_plain_uvicorn_ends_calls_too(model_path: Path, tmp_path: Path) -> None:
    port = free_port()
    env = {"LLMSERVE_GRPC_PORT": str(port), "LLMSERVE_MODEL": str(model_path)}
    with serve_with_uvicorn(tmp_path, env=env) as server, connect(port, model_path) as client:
        server.wait_until_ready()
        watching = watch(client)
        assert next(watching).status == SERVING
        call = client.call(**ENDLESS)
        next(call)
        server.signal(signal.SIGTERM)
        ended = failure(call)
        assert ended.code is grpc.StatusCode.UNAVAILABLE
        assert "stopping" in ended.details
        assert [message.status for message in watching] == [NOT_SERVING]
        server.wait()
        assert "Traceback" not in server.log


def test_a_client_that_reads_nothing_is_cut_off(model_path: Path, tmp_path: Path) -> None:
    port = free_port()
    env = {"LLMSERVE_GRPC_PORT": str(port), "LLMSERVE_STALL_S": "1"}
    narrow = (("grpc.http2.lookahead_bytes", 1), ("grpc.http2.bdp_probe", 0))
    with serve(tmp_path, model_path, env=env) as server, connect(port, model_path, narrow) as client:
        server.wait_until_ready()
        call = client.call(**ENDLESS)
        messages = [next(call)]
        server.wait_for_log("its client stopped reading")
        wait_until(lambda: server.states() == ["ready"])
        with pytest.raises(grpc.RpcError) as caught:
            messages += call
        assert caught.value.code() is grpc.StatusCode.CANCELLED
        assert [message.tokens for message in messages] == list(range(1, len(messages) + 1))
        assert len(client.stream(max_tokens=2)) == 2
        assert "Traceback" not in server.log


def run(*arguments: str, code: str = "") -> subprocess.CompletedProcess[str]:
    command = [sys.executable, *(["-c", code] if code else ["-m", "llmserve"]), *arguments]
    return subprocess.run(
        command, env=environment({}), capture_output=True, text=True, check=False, timeout=120
    )


def test_a_port_that_is_taken_is_one_sentence(tiny_model: Path, tmp_path: Path) -> None:
    port = free_port()
    with serve(tmp_path, tiny_model, "--grpc-port", str(port)) as server:
        server.wait_until_ready()
        done = run("serve", str(tiny_model), "--port", "0", "--grpc-port", str(port))
        assert done.returncode != 0
        assert f"the gRPC service cannot listen on 127.0.0.1:{port}: Address already in use\n" in done.stderr
        assert "Traceback" not in done.stderr


def test_the_clients_code_in_the_documentation_works(tiny_model: Path, tmp_path: Path) -> None:
    text = (ROOT / "docs" / "grpc.md").read_text()
    (generate,) = [line for line in text.splitlines() if "grpc_tools.protoc" in line]
    words = [word.replace("out=.", f"out={tmp_path}") for word in generate.split()]
    subprocess.run([sys.executable, *words[1:]], cwd=ROOT, check=True)
    (code,) = re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    port = free_port()
    with serve(tmp_path, tiny_model, "--grpc-port", str(port)) as server:
        server.wait_until_ready()
        command = [sys.executable, "-c", code, f"127.0.0.1:{port}", tiny_model]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True, timeout=120)
    lines = done.stdout.splitlines()
    assert lines[0] == "loading 100%"
    assert [line.split()[0] for line in lines[1:]] == [str(number) for number in range(1, 21)]


def test_the_service_is_offered_on_its_own_port_where_that_is_free(tiny_model: Path, tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            taken.bind(("127.0.0.1", CONVENTIONAL_PORT))
        except OSError:
            pytest.skip("another program has the port")
        taken.listen()
        with serve(tmp_path, tiny_model, "--grpc") as server:
            server.wait_for_log("gRPC is off: ")
            assert get(server.port, "/health").status == 200
    with serve(tmp_path, tiny_model, "--grpc") as server:
        server.wait_for_log(f"gRPC on 127.0.0.1:{CONVENTIONAL_PORT}")
        with connect(CONVENTIONAL_PORT) as client:
            client.ping()
        server.signal(signal.SIGTERM)
        assert server.wait() == 0


def test_the_service_is_not_there_against_the_settings(tiny_model: Path, tmp_path: Path) -> None:
    with serve(tmp_path, tiny_model, "--no-grpc", "--grpc-port", str(port := free_port())) as server:
        server.wait_for_log("serves ")
        assert "gRPC" not in server.log
        with socket.socket() as sock:
            assert sock.connect_ex(("127.0.0.1", port)) != 0


WITHOUT_GRPC = """
import sys

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name == "grpc":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Missing())
from llmserve.cli import main

sys.exit(main(sys.argv[1:]))
"""


def test_without_its_packages_the_start_names_them(tiny_model: Path) -> None:
    done = run("serve", str(tiny_model), "--port", "0", "--grpc-port", "0", code=WITHOUT_GRPC)
    assert done.returncode != 0
    assert "hint: pip install grpcio grpcio-health-checking grpcio-reflection" in done.stderr
    assert "Traceback" not in done.stderr
