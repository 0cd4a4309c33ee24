from __future__ import annotations

import dataclasses
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from llmserve.server.apis.ops.engine_metrics import STATS_METRICS, kv_usage
from llmserve.server.apis.ops.metrics import render
from llmserve.server.metrics import Histogram, Metric, metric_lines
from llmserve.server.services import Services
from llmserve.types import Stats
from serving.exposition import Exposition
from serving.services import load, run


def test_every_counter_of_the_engine_is_a_metric() -> None:
    assert set(STATS_METRICS) == {field.name for field in dataclasses.fields(Stats)}


def test_counters_end_in_total_and_gauges_do_not() -> None:
    for metric in STATS_METRICS.values():
        assert metric.name.endswith("_total") == (metric.kind == "counter")


def test_counts_of_http_and_grpc() -> None:
    async def scenario(services: Services) -> None:
        http, rpc = services.http_counters, services.rpc_counters
        http.requests["/completions", "POST", 200] += 2
        http.seconds["/completions"] += 1.5
        http.late_errors[409] += 1
        http.errors["internal"] += 1
        rpc.requests["proto.LLMServer/Predict", "OK"] += 3
        rpc.seconds["proto.LLMServer/Predict"] += 2.5
        shown = Exposition(render(services))
        requests = {"route": "/completions", "method": "POST", "status": "200"}
        assert shown.value("llmserve_http_requests_total", **requests) == 2
        assert shown.value("llmserve_http_request_seconds_total", route="/completions") == 1.5
        assert shown.value("llmserve_http_late_errors_total", status="409") == 1
        assert shown.value("llmserve_http_errors_total", reason="internal") == 1
        call = {"method": "proto.LLMServer/Predict"}
        assert shown.value("llmserve_grpc_requests_total", **call, status="OK") == 3
        assert shown.value("llmserve_grpc_request_seconds_total", **call) == 2.5
        assert shown.value("llmserve_grpc_requests_open") == 0

    run(scenario)


def test_what_routers_read_is_there_before_any_model() -> None:
    async def scenario(services: Services) -> None:
        shown = Exposition(render(services))
        for name in ("requests_waiting", "requests_running", "kv_usage_ratio"):
            assert shown.first(f"llmserve_{name}") == ({}, 0)
        for name in ("num_requests_waiting", "num_requests_running", "kv_cache_usage_perc"):
            assert shown.first(f"vllm:{name}") == ({"model_name": ""}, 0)
        assert services.registry.models == ()

    run(scenario, LLMSERVE_VLLM_METRICS="true")


def test_the_server_comes_before_its_models(tiny_model: Path) -> None:
    async def scenario(services: Services) -> None:
        await load(services, tiny_model, "a")
        shown = Exposition(render(services))
        for name in ("requests_waiting", "requests_running", "kv_usage_ratio"):
            samples = shown.families[f"llmserve_{name}"].samples
            assert [sample.labels for sample in samples] == [{}, {"model": "llama"}]
        config = {"model": "llama", "block_size": "16", "num_gpu_blocks": "16"}
        assert shown.value("llmserve_cache_config_info", **config) == 1
        assert shown.value("llmserve_model_load_seconds", model="llama") > 0

    run(scenario)


def test_sequences_that_share_cells_do_not_use_more_than_there_are() -> None:
    assert kv_usage(30, 120) == 0.25
    assert kv_usage(130, 120) == 1
    assert kv_usage(0, 0) == 0


def test_a_value_counts_in_every_bucket_whose_bound_it_does_not_exceed() -> None:
    histogram = Histogram((0.5, 1.0, 250.0))
    for value in (0.25, 1.0, 1.5, 1000.0):
        histogram.observe(value)
    metric = Metric("h", "histogram", "Help.")
    lines = [*metric.head(), *histogram.lines("h", {"model": "a"})]
    (family,) = text_string_to_metric_families("\n".join(lines))
    buckets = {sample.labels["le"]: sample.value for sample in family.samples if "le" in sample.labels}
    assert buckets == {"0.5": 1, "1": 2, "250": 3, "+Inf": 4}
    rest = {sample.name: sample.value for sample in family.samples if "le" not in sample.labels}
    assert rest == {"h_sum": 1002.75, "h_count": 4}
    assert all(sample.labels["model"] == "a" for sample in family.samples)


def test_labels_may_contain_anything() -> None:
    text = 'a"b\\c\nd'
    lines = metric_lines(Metric("m", "gauge", "Help."), [({"model": text}, 1)])
    (family,) = text_string_to_metric_families("\n".join(lines))
    assert family.samples[0].labels == {"model": text}
