"""Traces of requests: what OpenTelemetry's SDK records, and what a collector gets."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import grpc
import pytest
from opentelemetry import trace
from opentelemetry.trace import SpanKind, StatusCode

from llmserve.server.request_notes import noting
from llmserve.server.tracing import RequestEnd, RequestHead, Tracing, TracingStartError
from llmserve.server.tracing.spans import Spans as RequestSpans
from serving import RawStream, Server, free_port, get, post, serve_in_process
from serving.collector import collecting
from serving.spans import Spans, attributes, id_of, recording

WORD = "seashell"
TRACE, CALLER = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
TRACEPARENT = {"traceparent": f"00-{TRACE}-{CALLER}-01"}
PHASES = ["queue", "prefill", "decode"]


@pytest.fixture(scope="module")
def recorded() -> Iterator[Spans]:
    with recording() as spans:
        yield spans


@pytest.fixture(scope="module")
def grpc_port() -> int:
    return free_port()


@pytest.fixture(scope="module")
def served(
    recorded: Spans, grpc_port: int, tiny_models: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Server]:
    env = {
        "LLMSERVE_TRACES": "true",
        "MODELS_DIR": str(tiny_models),
        "LLMSERVE_LOAD_WAIT_S": "120",
        "LLMSERVE_GRPC_PORT": str(grpc_port),
    }
    with serve_in_process(tmp_path_factory.mktemp("server"), env=env) as running:
        yield running


@pytest.fixture
def spans(recorded: Spans) -> Spans:
    recorded.forget()
    return recorded


def complete(port: int, **fields: object) -> str:
    body = {"model": "llama", "prompt": WORD, "max_tokens": 4, "ignore_eos": True, **fields}
    answer = post(port, "/v1/completions", body, headers=TRACEPARENT)
    assert answer.status == 200, answer.text
    return answer.headers["x-request-id"]


def test_a_completion_is_a_span_in_the_trace_of_its_caller(served: Server, spans: Spans) -> None:
    request_id = complete(served.port)
    span = spans.ended("POST /v1/completions")
    assert span.kind is SpanKind.SERVER
    assert span.parent is not None and span.parent.is_remote
    assert (f"{span.parent.trace_id:032x}", f"{span.parent.span_id:016x}") == (TRACE, CALLER)
    shown = attributes(span)
    assert shown.pop("gen_ai.usage.cache_read.input_tokens") >= 0
    assert shown == {
        "http.request.method": "POST",
        "http.route": "/v1/completions",
        "http.response.status_code": 200,
        "http.response.header.x-request-id": (request_id,),
        "network.protocol.version": "1.1",
        "url.path": "/v1/completions",
        "url.scheme": "http",
        "gen_ai.operation.name": "text_completion",
        "gen_ai.provider.name": "llmserve",
        "gen_ai.request.model": "llama",
        "gen_ai.response.model": "llama",
        "gen_ai.response.finish_reasons": ("length",),
        "gen_ai.usage.input_tokens": len(WORD) + 1,
        "gen_ai.usage.output_tokens": 4,
    }
    served.wait_for_log(f"trace={TRACE}")


def test_the_phases_follow_one_another_within_the_request(served: Server, spans: Spans) -> None:
    complete(served.port)
    span = spans.ended("POST /v1/completions")
    phases = spans.below(span)
    assert [phase.name for phase in phases] == PHASES
    times = [(phase.start_time or 0, phase.end_time or 0) for phase in phases]
    assert (span.start_time or 0) <= times[0][0]
    assert all(begin < end for begin, end in times)
    assert all(before[1] == after[0] for before, after in pairwise(times))


def test_each_choice_has_its_phases(served: Server, spans: Spans) -> None:
    complete(served.port, n=2)
    span = spans.ended("POST /v1/completions")
    assert attributes(span)["gen_ai.response.finish_reasons"] == ("length", "length")
    shown = {(phase.name, attributes(phase)["llmserve.output.index"]) for phase in spans.below(span)}
    assert shown == {(name, index) for name in PHASES for index in (0, 1)}


def test_a_chat_that_streams(served: Server, spans: Spans) -> None:
    body = {
        "model": "llama",
        "messages": [{"role": "user", "content": WORD}],
        "max_tokens": 2,
        "stream": True,
    }
    assert post(served.port, "/v1/chat/completions", body).status == 200
    span = spans.ended("POST /v1/chat/completions")
    assert span.parent is None
    assert attributes(span)["gen_ai.operation.name"] == "chat"
    assert attributes(span)["gen_ai.usage.output_tokens"] <= 2
    assert [phase.name for phase in spans.below(span)] == PHASES


def test_embeddings(served: Server, spans: Spans) -> None:
    assert post(served.port, "/v1/embeddings", {"model": "bert-mean", "input": WORD}).status == 200
    shown = attributes(spans.ended("POST /v1/embeddings"))
    assert (shown["gen_ai.operation.name"], shown["gen_ai.request.model"]) == ("embeddings", "bert-mean")
    assert shown["gen_ai.usage.input_tokens"] > 0
    assert "gen_ai.response.finish_reasons" not in shown


def test_a_refusal_is_no_fault_of_the_server(served: Server, spans: Spans) -> None:
    assert post(served.port, "/v1/completions", {"model": "none", "prompt": WORD}).status == 404
    span = spans.ended("POST /v1/completions")
    assert attributes(span)["http.response.status_code"] == 404
    assert span.status.status_code is StatusCode.UNSET
    assert not any(name.startswith("gen_ai.") for name in attributes(span))


def test_a_client_that_leaves(served: Server, spans: Spans) -> None:
    body = {"model": "llama", "prompt": WORD, "stream": True, "max_tokens": 10_000, "ignore_eos": True}
    with RawStream(served.port, "/v1/completions", body) as stream:
        stream.read_head()
        next(stream.lines())
    span = spans.ended("POST /v1/completions")
    assert attributes(span)["gen_ai.response.finish_reasons"] == ("cancelled",)
    assert span.status.status_code is StatusCode.UNSET


def test_a_response_in_the_background_belongs_to_the_trace_of_its_request(
    served: Server, spans: Spans
) -> None:
    body = {"model": "llama", "input": WORD, "background": True, "max_output_tokens": 16}
    assert post(served.port, "/v1/responses", body, headers=TRACEPARENT).status == 200
    request, background = spans.ended("POST /v1/responses"), spans.ended("background /v1/responses")
    assert background.parent is not None and background.parent.span_id == id_of(request)
    assert background.kind is SpanKind.INTERNAL
    assert [phase.name for phase in spans.below(background)] == PHASES


def test_a_grpc_call(served: Server, spans: Spans, grpc_port: int) -> None:
    with grpc.insecure_channel(f"127.0.0.1:{grpc_port}") as channel:
        ping = channel.unary_unary("/proto.LLMServer/Ping", bytes, bytes)
        ping(b"", metadata=tuple(TRACEPARENT.items()), timeout=60)
    span = spans.ended("proto.LLMServer/Ping")
    assert span.parent is not None and span.parent.span_id == int(CALLER, 16)
    assert attributes(span)["rpc.response.status_code"] == "OK"


def test_probes_have_no_spans(served: Server, spans: Spans) -> None:
    for path in ("/live", "/ready", "/health", "/metrics"):
        assert get(served.port, path).status == 200
    complete(served.port)
    spans.ended("POST /v1/completions")
    assert set(spans.names()) == {"POST /v1/completions", *PHASES}


def test_no_span_has_text(served: Server, spans: Spans) -> None:
    complete(served.port)
    spans.ended("POST /v1/completions")
    assert WORD not in "".join(span.to_json() for span in spans.all())


def test_an_error_is_named() -> None:
    spans = Spans()
    with (
        noting() as taken,
        RequestSpans(spans.provider).request(
            RequestHead(name="a", attributes={}),
            lambda: RequestEnd(attributes={"http.response.status_code": 200}),
        ),
    ):
        taken.model, taken.finish_reasons, taken.error = "m", ["error"], "engine_dead"
    span = spans.ended("a")
    assert span.status.status_code is StatusCode.ERROR
    assert attributes(span)["error.type"] == "engine_dead"


def test_a_collector_gets_the_spans(
    tiny_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As where nobody has set a provider.
    monkeypatch.setattr(trace, "get_tracer_provider", trace.ProxyTracerProvider)
    with collecting() as collector:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.address)
        monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=test")
        with serve_in_process(tmp_path, tiny_model, env={"LLMSERVE_TRACES": "true"}) as server:
            complete(server.port)
        # Whatever is left is sent at the end.
    assert {span.name for span in collector.spans} == {"POST /v1/completions", *PHASES}
    assert {span.trace_id.hex() for span in collector.spans} == {TRACE}
    assert collector.resource["service.name"] == "llmserve"
    assert collector.resource["deployment.environment.name"] == "test"


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("provider", "spans"):
        monkeypatch.delitem(sys.modules, f"llmserve.server.tracing.{name}", raising=False)
    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    with pytest.raises(TracingStartError, match=r"opentelemetry.*\n.*pip install opentelemetry-sdk"):
        Tracing(is_on=True).start()
    Tracing(is_on=False).start()
