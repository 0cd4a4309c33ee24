"""Command line of the benches: `python -m benches NAME...`, `python -m benches all`."""

from __future__ import annotations

import argparse
import dataclasses
import importlib
import json
import os
import platform
import signal
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from . import peer
from .harness import BenchError, Figure, Setting, cache_dir, show

BENCHES = {
    "engine": "engine_speed",
    "http": "http_speed",
    "bursts": "bursts",
    "long_prompt": "long_prompt",
    "trace": "arrivals",
    "contended": "contended",
    "shared_prefix": "shared_prefix",
    "constrained": "constrained",
    "gil": "gil",
    "footprint": "footprint",
    "memory": "memory",
    "mtp": "mtp",
}
DEFAULT_MODEL = "SmolLM2-135M-Instruct.Q4_1.gguf"
# Variables that change how OpenMP's threads wait, on both sides.
OPENMP_VARIABLES = ("OMP_", "GOMP_", "KMP_")


def main(arguments: list[str]) -> int:
    """Runs the benches that `arguments` name; 0 when every goal is met, 1 when not, 2 when one cannot run."""
    options = _parse(arguments)
    setting = Setting(
        model=options.model,
        threads=options.threads,
        kv_layout=options.kv_layout,
        runs=options.runs,
        sequences=options.sequences or (1, 4, 8, 16),
        bursts=options.sequences or (1, 4, 8, 16, 32),
        rates=options.rates,
        seconds=options.seconds,
        busy=options.busy,
        limit_s=options.limit_s,
    )
    names = list(BENCHES) if options.names == ["all"] else options.names
    result: dict[str, Any] = {"versions": _versions(setting), "setting": _plain(setting), "benches": {}}
    for name, value in result["versions"].items():
        print(f"{name}: {value}")
    print(", ".join(f"{name} {value}" for name, value in result["setting"].items()))
    failed = missed = False
    for name in names:
        print(f"\n{name}", flush=True)
        try:
            figures: list[Figure] = importlib.import_module(f".{BENCHES[name]}", __package__).run(setting)
        except BenchError as error:
            print(f"  not measured: {error}")
            failed = True
            continue
        show(figures)
        missed = missed or any(figure.verdict == "MISSED" for figure in figures)
        result["benches"][name] = [{**_plain(figure), "verdict": figure.verdict} for figure in figures]
    if options.json is not None:
        options.json.write_text(json.dumps(result, indent=1) + "\n")
    return 2 if failed else int(missed)


def _parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benches", description=__doc__)
    parser.add_argument(
        "names", nargs="+", choices=[*BENCHES, "all"], metavar="NAME", help=", ".join(BENCHES)
    )
    parser.add_argument(
        "--model", type=Path, default=cache_dir() / "models" / DEFAULT_MODEL, help="GGUF file for both sides"
    )
    parser.add_argument("--threads", type=int, default=_num_cores(), help="compute threads of both sides")
    parser.add_argument("--kv-layout", choices=["per_sequence", "unified"], default="per_sequence")
    parser.add_argument("--runs", type=int, default=5, help="rounds; medians are taken over them (default 5)")
    parser.add_argument(
        "--sequences", type=_counts, help="numbers of streams (default 1,4,8,16; bursts also 32)"
    )
    parser.add_argument(
        "--rates", type=_numbers, default=(0.4, 0.8), help="trace: requests a second (default 0.4,0.8)"
    )
    parser.add_argument(
        "--seconds", type=float, default=60.0, help="trace: for how many seconds requests arrive (default 60)"
    )
    parser.add_argument(
        "--busy",
        type=_counts,
        default=(2 * _num_cores(), 4 * _num_cores()),
        help="contended: numbers of busy processes (default two and four for each core)",
    )
    parser.add_argument(
        "--limit-s",
        type=float,
        default=120.0,
        help="contended: seconds after which a request is dropped (default 120)",
    )
    parser.add_argument("--quick", action="store_true", help="smoke test: one round, and less of everything")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the result to FILE")
    options = parser.parse_args(arguments)
    if options.quick:
        less = {"runs": 1, "sequences": (1, 4), "rates": (0.8,), "seconds": 10.0, "limit_s": 10.0}
        vars(options).update(less, busy=options.busy[:1])
    if not options.model.is_file():
        parser.error(f"no model at {options.model}; `llmserve pull` gets the default one")
    return options


def _counts(argument: str) -> tuple[int, ...]:
    return tuple(int(count) for count in argument.split(","))


def _numbers(argument: str) -> tuple[float, ...]:
    return tuple(float(number) for number in argument.split(","))


def _num_cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _versions(setting: Setting) -> dict[str, str]:
    try:
        ours = version("llmserve")
    except PackageNotFoundError:
        ours = "not installed"
    openmp = [f"{name}={value}" for name, value in os.environ.items() if name.startswith(OPENMP_VARIABLES)]
    return {
        "llmserve": ours,
        "llama.cpp": f"{peer.PACKAGE} {peer.VERSION} ({peer.version()})",
        "Python": f"{platform.python_version()} on {platform.platform()}",
        "model": setting.model.name,
        "OpenMP": ", ".join(openmp) or "no variables set",
    }


def _plain(record: Setting | Figure) -> dict[str, Any]:
    fields = dataclasses.asdict(record)
    if isinstance(record, Setting):
        fields["model"] = record.model.name
    elif record.goal is not None:
        fields["goal"] = str(record.goal)
    return fields


def _end(signum: int, _: object) -> None:
    """Lets everything that was started end, too."""
    sys.exit(128 + signum)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, _end)
    try:
        sys.exit(main(sys.argv[1:]))
    except (BenchError, ModuleNotFoundError) as error:
        print(f"benches: {error}", file=sys.stderr)
        sys.exit(2)
