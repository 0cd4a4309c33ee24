"""`lm-eval`, as it comes from PyPI, against a real server. What it does is in `clients/lm_eval_checks.py`."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from clients.environment import client_python
from clients.running import HERE, names_of, run_program
from serving import serve
from serving.openai_requests import MODEL

pytestmark = [pytest.mark.model, pytest.mark.clients]

PROGRAM = "lm_eval_checks"
OFFLINE = {"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1", "HF_EVALUATE_OFFLINE": "1"}


@pytest.fixture(scope="module")
def found(model_path: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str | None]:
    """What the checks found."""
    python = client_python("lm-eval")
    folder = tmp_path_factory.mktemp("lm-eval")
    shutil.copytree(HERE / "lm_eval_task", folder, dirs_exist_ok=True)
    with serve(folder, model_path) as server:
        server.wait_until_ready()
        env = {
            **OFFLINE,
            "BASE": f"http://127.0.0.1:{server.port}/v1",
            "MODEL": MODEL,
            "HF_HOME": str(folder / "hf"),
        }
        return run_program(python, PROGRAM, env, folder)


@pytest.mark.parametrize("check", names_of(PROGRAM))
def test_lm_eval(found: dict[str, str | None], check: str) -> None:
    failure = found[check]
    if failure is not None:
        pytest.fail(failure, pytrace=False)
