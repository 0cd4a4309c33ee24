"""``llmserve devices``: what this machine computes with."""

from __future__ import annotations

import argparse
import os
import platform
import sys
from pathlib import Path
from typing import Any

from llmserve import __version__, _core
from llmserve.cli.output import print_facts, print_json, print_table
from llmserve.server.machine import memory_bytes
from llmserve.server.units import shown_bytes

HELP = "show the processor and the memory that models run on"
DESCRIPTION = (
    "Shows the processor with the features that matter for models, the cores that this process may use, the "
    "memory, and llama.cpp's backends with their devices, also backends without any. The device that "
    "computes a loaded model is in the output of serve and of ps."
)

_FEATURES = (  # noqa: SIM905
    "sse4_2 avx f16c fma avx2 avx_vnni avx512f avx512bw avx512vl avx512_vnni avx512_bf16 amx_int8 amx_bf16 "
    "asimd asimddp i8mm bf16 sve sve2"
).split()
"""Flags of processors, as Linux names them, for which llama.cpp has code of its own."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the format."""
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def run(arguments: argparse.Namespace) -> int:
    """Prints what there is."""
    found = _machine() | {"backends": _core.backends()}
    if arguments.json:
        print_json(found)
        return 0
    print_facts(
        [
            ("llmserve", f"{found['version']} for {found['platform']}"),
            ("processor", found["processor"]),
            ("features", " ".join(found["features"]) or "unknown"),
            ("cores", f"{found['usable_cores']} of {found['cores']} may be used"),
            ("memory", _memory_text(found)),
        ]
    )
    sys.stdout.write("\n")
    print_table(
        ("BACKEND", "DEVICE", "KIND", "MEMORY", "FREE", "MODULE"),
        [row for backend in found["backends"] for row in _rows(backend)],
        right=(3, 4),
    )
    return 0


def _rows(backend: dict[str, Any]) -> list[tuple[str, ...]]:
    """A line for each device, or one that says why there is none."""
    module = backend["module"] or "built in"
    if not backend["devices"]:
        return [(backend["name"], backend["failure"] or "no device", "", "", "", module)]
    return [
        (
            backend["name"],
            f"{device['name']}: {device['description']}",
            device["kind"].replace("_", " "),
            shown_bytes(device["total_bytes"]),
            shown_bytes(device["free_bytes"]),
            module,
        )
        for device in backend["devices"]
    ]


def _memory_text(found: dict[str, Any]) -> str:
    total, available = found["memory_bytes"], found["available_bytes"]
    if total is None:
        return "unknown"
    return shown_bytes(total) + ("" if available is None else f", {shown_bytes(available)} available")


def _machine() -> dict[str, Any]:
    name, flags = _processor(_text("/proc/cpuinfo"))
    return {
        "version": __version__,
        "platform": f"{platform.system()} {platform.machine()}",
        "processor": name or platform.processor() or platform.machine(),
        "features": [feature for feature in _FEATURES if feature in flags],
        "cores": os.cpu_count(),
        "usable_cores": _usable_cores(),
        "memory_bytes": memory_bytes(),
        "available_bytes": _available(_text("/proc/meminfo")),
    }


def _processor(text: str) -> tuple[str, frozenset[str]]:
    """The processor's name and flags by `/proc/cpuinfo`."""
    lines = [
        (key.strip(), value.strip()) for key, _, value in (line.partition(":") for line in text.splitlines())
    ]
    facts = dict(reversed(lines))
    return facts.get("model name", ""), frozenset(facts.get("flags", facts.get("Features", "")).split())


def _usable_cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _available(text: str) -> int | None:
    """`MemAvailable` of `/proc/meminfo`, in bytes."""
    for line in text.splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    return None


def _text(path: str) -> str:
    try:
        return Path(path).read_text()
    except OSError:
        return ""
