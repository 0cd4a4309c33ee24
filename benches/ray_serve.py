"""Conversations with replicas in Ray Serve: `python -m benches.ray_serve`.

The figure is the share of turns that hit their prefix, with llmserve's routing and with Ray's two random
choices. The program goes on in the environment that the tests have for Ray.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import sys
import time
from pathlib import Path

from .ray_fleet import TURNS, Conversation, Talk, fleet

ROOT = Path(__file__).resolve().parent.parent
SETTINGS = {"threads": "1", "context_length": "4096", "max_sequences": "8"}
MODEL = ROOT / "target" / "test-models" / "llama.gguf"


def main() -> int:
    """Prints a line for each number of replicas and each kind of routing."""
    parser = argparse.ArgumentParser(description="Routes conversations in Ray Serve.")
    parser.add_argument("--model", type=Path, default=MODEL, help="GGUF file (default: a tiny one)")
    parser.add_argument("--replicas", type=int, nargs="*", default=[2, 3])
    parser.add_argument("--conversations", type=int, default=200)
    parser.add_argument("--clients", type=int, default=8)
    options = parser.parse_args()
    if importlib.util.find_spec("ray") is None:
        _go_on_with_ray()
    settings = {"model": str(options.model.resolve()), **SETTINGS}
    for replicas in options.replicas:
        for at_random in (False, True):
            with fleet(cpus=max(options.replicas)) as running:
                running.deploy({**settings, "replicas": str(replicas)}, at_random=at_random)
                talk = Talk(
                    [Conversation(number) for number in range(options.conversations)], options.clients
                )
                begin = time.monotonic()
                share = talk.run(running)
                seconds = time.monotonic() - begin
            how = "two random choices" if at_random else "llmserve's routing"
            print(
                f"{replicas} replicas, {options.conversations} conversations of {TURNS} turns, {how}: "
                f"{share:.1%} of the turns hit, {len(talk.failures)} failed, {seconds:.0f} s",
                flush=True,
            )
    return 0


def _go_on_with_ray() -> None:
    sys.path.insert(0, str(ROOT / "build_support"))
    from environments import environment_python

    python = environment_python(sys.executable, "ray")
    paths = os.pathsep.join([str(ROOT), str(ROOT / "python")])
    command = [python, "-m", "benches.ray_serve", *sys.argv[1:]]
    os.execve(python, command, {**os.environ, "PYTHONPATH": paths})  # noqa: S606 - our own program


if __name__ == "__main__":
    sys.exit(main())
