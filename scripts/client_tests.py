"""Runs the tests with real clients, unless nothing that they touch has changed since they passed here.

In CI (variable `CI`) they always run.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "build_support"))

from native import cache_dir  # noqa: E402

TESTS = (
    "tests/app/test_app_lm_eval.py",
    "tests/app/test_app_openai_clients.py",
    "tests/app/test_app_sie_sdk.py",
    "tests/test_build_helm.py",
)
TOUCHED = (
    *TESTS,
    "python/llmserve/server/**/*.py",
    "docs/anthropic.md",
    "deploy/helm/**/*.*",
    "deploy/kubernetes/**/*.yaml",
    "docs/sie.md",
    "requirements/*.lock",
    "tests/clients/*.py",
    "tests/clients/lm_eval_task/*",
    "tests/serving/*.py",
)


def main() -> int:
    """Runs them where they are due, and notes that they passed."""
    passed = cache_dir() / "test-clients" / "passed"
    state = _state()
    if not os.environ.get("CI") and passed.is_file() and passed.read_text() == state:
        print("nothing that the clients touch has changed since their tests passed")
        return 0
    status = subprocess.run([sys.executable, "-m", "pytest", *TESTS], cwd=ROOT).returncode
    if status == 0:
        passed.write_text(state)
    return status


def _state() -> str:
    digest = hashlib.sha256()
    for path in sorted(path for pattern in TOUCHED for path in ROOT.glob(pattern)):
        digest.update(f"{path.relative_to(ROOT)}\0".encode() + hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()


if __name__ == "__main__":
    sys.exit(main())
