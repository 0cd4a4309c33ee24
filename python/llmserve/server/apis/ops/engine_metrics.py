"""The metrics of engines: of each model, and of all together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from llmserve.server.kv_events import BLOCK_SIZE
from llmserve.server.metrics import Labels, Metric, counter, gauge, metric_lines
from llmserve.server.models import Model, Registry
from llmserve.types import Stats

STATS_METRICS: Mapping[str, Metric] = {
    "num_preparing": gauge(
        "llmserve_requests_preparing",
        "Requests whose prompt is being tokenized, or that are waiting for their turn in a session.",
    ),
    "num_waiting": gauge(
        "llmserve_requests_waiting",
        "Requests that are waiting for a slot: without labels of the server, with labels of a model.",
    ),
    "num_running": gauge(
        "llmserve_requests_running",
        "Sequences in the batch: without labels of the server, with labels of a model.",
    ),
    "num_slots": gauge("llmserve_slots", "Maximum number of sequences in the batch."),
    "num_cells": gauge("llmserve_kv_cells", "Total number of KV cells of all sequences."),
    "num_used_cells": gauge("llmserve_kv_cells_used", "KV cells in use, including cached tokens."),
    "num_running_cells": gauge("llmserve_kv_cells_running", "KV cells of the sequences in the batch."),
    "context_length": gauge("llmserve_context_length_tokens", "Maximum number of tokens in one sequence."),
    "num_threads": gauge("llmserve_threads", "Compute threads."),
    "parked_bytes": gauge("llmserve_parked_bytes", "Host memory used by parked sequences."),
    "requests_accepted": counter("llmserve_requests_accepted", "Requests that were accepted into the queue."),
    "requests_refused": counter(
        "llmserve_requests_refused", "Requests that were refused: invalid, too long, or the queue was full."
    ),
    "requests_stopped": counter("llmserve_requests_stopped", "Requests that finished with the reason stop."),
    "requests_length": counter("llmserve_requests_length", "Requests that finished with the reason length."),
    "requests_cancelled": counter("llmserve_requests_cancelled", "Requests that were cancelled."),
    "requests_failed": counter("llmserve_requests_failed", "Requests that failed."),
    "prompt_tokens": counter(
        "llmserve_prompt_tokens", "Prompt tokens of started requests, including cached ones."
    ),
    "cached_tokens": counter(
        "llmserve_cached_tokens", "Prompt tokens that were taken from the prefix cache."
    ),
    "completion_tokens": counter("llmserve_completion_tokens", "Drawn tokens."),
    "draft_tokens": counter("llmserve_draft_tokens", "Tokens that drafters proposed."),
    "accepted_tokens": counter("llmserve_accepted_tokens", "Proposed tokens that were accepted."),
    "drafts": counter("llmserve_drafts", "Drafts that were verified."),
    "draft_seconds": counter("llmserve_draft_seconds", "Seconds spent in the draft context."),
    "num_draft_users": gauge("llmserve_draft_users", "Number of users that keep the draft context open."),
    "preemptions": counter(
        "llmserve_preemptions", "Times that a sequence lost its slot to others and resumed later."
    ),
    "steps": counter("llmserve_steps", "Number of steps of the engine."),
    "rows": counter("llmserve_rows", "Number of rows in all steps."),
    "prefill_rows": counter(
        "llmserve_prefill_rows", "Number of rows of prompts; the others are of generated tokens."
    ),
    "decode_seconds": counter("llmserve_decode_seconds", "Seconds spent in llama.cpp."),
    "overhead_seconds": counter("llmserve_overhead_seconds", "Seconds spent in steps outside llama.cpp."),
    "constraints": counter(
        "llmserve_constraints", "Requests whose constraint was compiled or found compiled."
    ),
    "constraint_seconds": counter("llmserve_constraint_seconds", "Seconds that compiling constraints took."),
    "load_seconds": gauge("llmserve_model_load_seconds", "Seconds that the load of a model took."),
}
"""Field of :class:`llmserve.types.Stats` -> metric."""

_SERVER_WIDE = ("num_waiting", "num_running")
"""Fields that have a sum over all models, which is the first sample."""

_MODEL_STATE = gauge("llmserve_model_state", "1 for the current state of a model.")
_MODEL_STATES = ("loading", "ready", "busy", "failed")
_ACCEPTANCE = gauge(
    "llmserve_draft_acceptance_ratio",
    "Share of proposed tokens that were accepted; absent until one is proposed.",
)
_KV_USAGE = gauge(
    "llmserve_kv_usage_ratio",
    "Share of the KV cells, 0 to 1, that sequences in the batch use, cached tokens not counted: without "
    "labels of the server, with labels of a model.",
)
_CACHE_CONFIG = gauge("llmserve_cache_config_info", "1; the size of a model's KV cache in its labels.")


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The models and the counters of those that are loaded, read once for a scrape."""

    models: Sequence[Model]
    living: Sequence[tuple[str, Stats]]

    @classmethod
    def of(cls, registry: Registry) -> Snapshot:
        """The state of a registry. Loads nothing."""
        stats = [(model.id, model.stats()) for model in registry.models]
        return cls(registry.models, [(name, own) for name, own in stats if own is not None])

    def total(self, field: str) -> float:
        """The sum of a counter or gauge over all models."""
        total: float = sum(getattr(stats, field) for _, stats in self.living)
        return total


def kv_usage(num_running_cells: float, num_cells: float) -> float:
    """The share of cells in use. Sequences that share cells each count them."""
    return min(1.0, num_running_cells / num_cells) if num_cells else 0.0


def cache_config(stats: Stats) -> Labels:
    """The size of a KV cache as routers know it."""
    return {"block_size": str(BLOCK_SIZE), "num_gpu_blocks": str(stats.num_cells // BLOCK_SIZE)}


def engine_lines(snapshot: Snapshot) -> Iterator[str]:
    """All metrics of the engines."""
    living = snapshot.living
    yield from metric_lines(
        _MODEL_STATE,
        (
            ({"model": model.id, "state": state}, int(current == state))
            for model in snapshot.models
            for current in (model.state,)
            for state in _MODEL_STATES
        ),
    )
    for field, metric in STATS_METRICS.items():
        samples: list[tuple[Labels, float]] = [
            ({"model": name}, getattr(stats, field)) for name, stats in living
        ]
        if field in _SERVER_WIDE:
            samples.insert(0, ({}, snapshot.total(field)))
        yield from metric_lines(metric, samples)
    usage = kv_usage(snapshot.total("num_running_cells"), snapshot.total("num_cells"))
    by_model = (({"model": n}, kv_usage(stats.num_running_cells, stats.num_cells)) for n, stats in living)
    yield from metric_lines(_KV_USAGE, [({}, usage), *by_model])
    ratios = [({"model": name}, stats.acceptance) for name, stats in living]
    yield from metric_lines(_ACCEPTANCE, ((labels, ratio) for labels, ratio in ratios if ratio is not None))
    configs = (({"model": name, **cache_config(stats)}, 1) for name, stats in living if stats.num_cells)
    yield from metric_lines(_CACHE_CONFIG, configs)
