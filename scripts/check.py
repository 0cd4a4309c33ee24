"""Run the project's checks and say how long each took.

``python scripts/check.py`` runs all, ``python scripts/check.py ruff mypy`` these two. Three lanes of stages
run side by side, so that no core is idle. Every stage is run, also after one has failed; the exit status is
1 if any did.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "build_support"))

from native import cache_dir, requested_features  # noqa: E402
from run import build_environment  # noqa: E402
from toolchain import BuildSetupError  # noqa: E402

# Those of cargo lock one target directory; the others run beside them, and beside the longest.
CARGO_STAGES = ("fmt", "clippy", "rustdoc", "test-models", "cargo-test")
LONGEST_STAGES = ("pytest",)
LINT_STAGES = ("fmt", "ruff", "ruff-format", "mypy", "stubtest", "clippy", "rustdoc")
# The documentation is read by developers, so that it may link to what is private.
RUSTDOC_FLAGS = "-D warnings -A rustdoc::private-intra-doc-links"
# A file's tests share what is dear to start, and stay together; `conftest.py` puts the longest files first.
NUM_WORKERS = min(4, os.cpu_count() or 1)
PYTEST = f"-n {NUM_WORKERS} --dist loadfile --no-loadscope-reorder -m".split()
STAGE_LIMIT_S = 40 * 60
# To optimize these crates in full for their tests takes far longer than the tests then save. What the crates
# depend on stays as it is built for the extension module.
TEST_OPT_LEVELS = {"llmserve-engine": 0, "llmserve-json-tail": 1}
DEFAULT_MODEL = "SmolLM2-135M-Instruct.Q4_1.gguf"
GENERATED_MODELS = ROOT / "target" / "test-models"


def stages(features: tuple[str, ...]) -> dict[str, list[str]]:
    """Name and command of each check, cheap ones first.

    All cargo calls are of one profile, set of features and target directory: llama.cpp is not built
    again for any of them.
    """
    cargo = ["--release", "--workspace", "--locked"]
    if features:
        cargo += ["--features", ",".join(features)]
    opt_levels = [
        part
        for name, level in TEST_OPT_LEVELS.items()
        for part in ("--config", f"profile.release.package.{name}.opt-level={level}")
    ]
    python = [sys.executable, "-m"]
    return {
        "fmt": ["cargo", "fmt", "--all", "--check"],
        "clippy": ["cargo", "clippy", *cargo, "--all-targets", "--", "-D", "warnings"],
        "rustdoc": ["cargo", "doc", *cargo, "--no-deps", "--document-private-items"],
        "test-models": [*python, "tests.synthetic", "--all", str(GENERATED_MODELS)],
        # The binding crate is an extension module: it has no Rust tests, Python tests it.
        "cargo-test": ["cargo", "test", *cargo, "--exclude", "llmserve-python", *opt_levels],
        "ruff": [*python, "ruff", "check", "."],
        "ruff-format": [*python, "ruff", "format", "--check", "."],
        "mypy": [*python, "mypy"],
        "stubtest": [*python, "mypy.stubtest", "--mypy-config-file", "pyproject.toml", "llmserve._core"],
        "pytest-others": [sys.executable, str(ROOT / "scripts" / "other_pythons.py")],
        "site": [sys.executable, str(ROOT / "scripts" / "site.py")],
        "clients": [sys.executable, str(ROOT / "scripts" / "client_tests.py")],
        "pytest": [*python, "pytest", *PYTEST, "not clients and not wheel and not image"],
    }


def variables(stage: str) -> dict[str, str]:
    """What a stage finds in its environment beyond the native build's."""
    if stage == "rustdoc":
        return {"RUSTDOCFLAGS": RUSTDOC_FLAGS}
    if stage == "cargo-test":
        model = os.environ.get("LLMSERVE_TEST_MODEL") or str(cache_dir() / "models" / DEFAULT_MODEL)
        return {"LLMSERVE_TEST_MODEL": model, "LLMSERVE_SYNTHETIC_DIR": str(GENERATED_MODELS)}
    return {}


def main() -> int:
    """Run the stages named on the command line."""
    try:
        commands = stages(requested_features())
        env = build_environment()
    except BuildSetupError as error:
        sys.exit(f"llmserve: {error}")
    parser = argparse.ArgumentParser(description="Run llmserve's checks.")
    parser.add_argument("stage", nargs="*", help=f"some of: lint {' '.join(commands)} (default: all)")
    wanted = parser.parse_args().stage or list(commands)
    if "lint" in wanted:
        wanted = [*LINT_STAGES, *(name for name in wanted if name != "lint")]
    if "cargo-test" in wanted and "test-models" not in wanted:
        wanted.insert(wanted.index("cargo-test"), "test-models")
    if unknown := [name for name in wanted if name not in commands]:
        parser.error(f"unknown stage: {' '.join(unknown)}")
    results = _run_all({name: commands[name] for name in wanted}, env)
    _summarize(results)
    return 1 if any(status != 0 for status, _ in results.values()) else 0


def _run_all(commands: dict[str, list[str]], env: dict[str, str]) -> dict[str, tuple[int, float]]:
    """Runs the stages of each lane one after another; the output of each comes as it ends."""
    lanes = [[name for name in commands if name in lane] for lane in (CARGO_STAGES, LONGEST_STAGES)]
    lanes.append([name for name in commands if name not in (*CARGO_STAGES, *LONGEST_STAGES)])
    results = {}

    def run(names: list[str]) -> None:
        for name in names:
            results[name] = _run(name, commands[name], env | variables(name))

    with ThreadPoolExecutor(len(lanes)) as pool:
        for lane in [pool.submit(run, names) for names in lanes]:
            lane.result()
    return {name: results[name] for name in commands}


_printing = threading.Lock()


def _run(name: str, command: list[str], env: dict[str, str]) -> tuple[int, float]:
    plain = ("python" if part == sys.executable else part.removeprefix(f"{ROOT}/") for part in command)
    print(f"... {name}", flush=True)
    start_s = time.monotonic()
    with tempfile.TemporaryFile() as output:
        try:
            done = subprocess.run(
                command, cwd=ROOT, env=env, check=False, timeout=STAGE_LIMIT_S, stdout=output, stderr=output
            )
            status = done.returncode
        except subprocess.TimeoutExpired:
            status = 124  # as `timeout` has it
        duration_s = time.monotonic() - start_s
        output.seek(0)
        text = output.read().decode(errors="replace")
    with _printing:
        print(f"\n=== {name}: {' '.join(plain)}\n{text}", end="")
        print(f"=== {name}: {_outcome(status)} after {duration_s:.1f} s", flush=True)
    return status, duration_s


def _summarize(results: dict[str, tuple[int, float]]) -> None:
    print("\n=== summary")
    for name, (status, duration_s) in results.items():
        print(f"{name:13} {duration_s:8.1f} s  {_outcome(status)}")
    sys.stdout.flush()


def _outcome(status: int) -> str:
    return "ok" if status == 0 else f"FAILED (exit status {status})"


if __name__ == "__main__":
    os.chdir(ROOT)
    sys.exit(main())
