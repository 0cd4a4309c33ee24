from __future__ import annotations

import dataclasses
import re

from llmserve.model_config import ModelConfig
from llmserve.server.apis.ops.metrics import STATS_METRICS, render
from llmserve.server.models import Registry
from llmserve.server.rpc_counters import RpcCounters
from llmserve.server.web.counters import HttpCounters
from llmserve.types import Stats

SAMPLE = re.compile(r'([a-z_]+)(\{[a-z]+="[^"]*"(,[a-z]+="[^"]*")*\})? (-?[0-9.e+-]+)')


def test_every_counter_of_the_engine_is_a_metric() -> None:
    assert set(STATS_METRICS) == {field.name for field in dataclasses.fields(Stats)}


def test_counters_end_in_total_and_gauges_do_not() -> None:
    for metric in STATS_METRICS.values():
        assert metric.name.endswith("_total") == (metric.kind == "counter")


def test_the_exposition_is_well_formed() -> None:
    http = HttpCounters()
    http.requests["/completions", "POST", 200] += 2
    http.seconds["/completions"] += 1.5
    http.late_errors[409] += 1
    rpc = RpcCounters()
    rpc.requests["proto.LLMServer/Predict", "OK"] += 3
    rpc.seconds["proto.LLMServer/Predict"] += 2.5
    text = render(Registry(ModelConfig()), http, rpc)
    assert text.endswith("\n")
    names: list[str] = []
    for line in text.splitlines():
        if line.startswith("# HELP "):
            names.append(line.split()[2])
        elif line.startswith("# TYPE "):
            assert line.split()[2] == names[-1]
            assert line.split()[3] in ("counter", "gauge")
        else:
            matched = SAMPLE.fullmatch(line)
            assert matched is not None, line
            assert matched[1] == names[-1]
    assert len(names) == len(set(names))
    assert 'llmserve_http_requests_total{route="/completions",method="POST",status="200"} 2' in text
    assert 'llmserve_http_request_seconds_total{route="/completions"} 1.5' in text
    assert 'llmserve_http_late_errors_total{status="409"} 1' in text
    assert 'llmserve_grpc_requests_total{method="proto.LLMServer/Predict",status="OK"} 3' in text
    assert 'llmserve_grpc_request_seconds_total{method="proto.LLMServer/Predict"} 2.5' in text
    assert "llmserve_grpc_requests_open 0" in text
