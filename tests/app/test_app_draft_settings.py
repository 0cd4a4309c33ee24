"""Drafting by settings: which models draft, for which dialects, and what the log and the metrics say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from serving import Llamatik, Server, get, post, read_metrics, serve, serve_in_process
from synthetic import DRAFT_HEAD_FILE, main_file

PROMPT = "one two three four five six seven one two three four five six seven"
MTP = ("--draft", "mtp", "--no-draft-adaptive")
LOOKUP = ("--draft", "prompt_lookup", "--no-draft-adaptive", "--draft-len", "4")
WARNING = "is served without drafting: the model has no head"


def complete(running: Server, model: str, **fields: Any) -> dict[str, Any]:
    body = {"model": model, "prompt": PROMPT, "max_tokens": 48, "temperature": 0, **fields}
    answer = post(running.port, "/v1/completions", body)
    assert answer.status == 200, answer.text
    made: dict[str, Any] = answer.json
    return made


def drafted(answer: dict[str, Any]) -> int:
    details: dict[str, int] = answer["usage"]["completion_tokens_details"]
    return details["accepted_prediction_tokens"] + details["rejected_prediction_tokens"]


def through_llamatik(running: Server, model: Path, *, mtp: bool = False, repeat_penalty: float = 1) -> int:
    """Drafted tokens of an answer."""
    api = Llamatik(running)
    api.init(model)
    if mtp:
        api.ok("mtp/init", {"modelPath": str(model), "adaptive": False})
    answer = api.whole("generate", prompt=PROMPT, temperature=0, repeatPenalty=repeat_penalty, maxTokens=48)
    if mtp:
        api.ok("mtp/shutdown")
    number: int = answer["usage"]["draftTokens"]
    return number


def test_a_head_drafts_for_every_dialect_but_llamatik(tiny_models: Path, tmp_path: Path) -> None:
    model = tiny_models / DRAFT_HEAD_FILE
    with serve_in_process(tmp_path, model) as running:
        baseline = complete(running, model.stem)
        assert drafted(baseline) == 0
    with serve(tmp_path, model, *MTP) as running:
        running.wait_until_ready()
        (shown,) = get(running.port, "/health").json["models"]
        assert shown["has_draft_head"] is True
        answer = complete(running, model.stem)
        assert answer["choices"][0]["text"] == baseline["choices"][0]["text"]
        assert drafted(answer) == answer["timings"]["draft_n"] > answer["timings"]["draft_n_accepted"] > 0
        metrics = read_metrics(running.port)
        label = f'{{model="{model.stem}"}}'
        assert metrics[f"llmserve_draft_tokens_total{label}"] == answer["timings"]["draft_n"]
        assert metrics[f"llmserve_accepted_tokens_total{label}"] == answer["timings"]["draft_n_accepted"]
        assert metrics[f"llmserve_draft_acceptance_ratio{label}"] == pytest.approx(
            answer["timings"]["draft_n_accepted"] / answer["timings"]["draft_n"]
        )
        assert metrics[f"llmserve_draft_seconds_total{label}"] > 0
        assert metrics[f"llmserve_draft_users{label}"] == 1
        assert through_llamatik(running, model) == 0
        assert through_llamatik(running, model, mtp=True) > 0
        assert through_llamatik(running, model) == 0
        assert drafted(complete(running, model.stem)) > 0
        running.wait_for_log("  drafting        mtp, up to 3 tokens, not adaptive\n")
        assert WARNING not in running.log


def test_prompt_lookup_drafts_for_llamatik_too(tiny_models: Path, tmp_path: Path) -> None:
    model = tiny_models / DRAFT_HEAD_FILE
    with serve(tmp_path, model, *LOOKUP) as running:
        running.wait_until_ready()
        label = f'{{model="{model.stem}"}}'
        # What repeats itself is found.
        assert drafted(complete(running, model.stem, logit_bias={"100": 100})) > 0
        assert through_llamatik(running, model, repeat_penalty=0.01) > 0
        assert read_metrics(running.port)[f"llmserve_draft_users{label}"] == 0
        api = Llamatik(running)
        api.ok("mtp/init", {"modelPath": str(model), "adaptive": False})
        assert read_metrics(running.port)[f"llmserve_draft_users{label}"] == 1
        api.ok("mtp/shutdown")
        assert through_llamatik(running, model, repeat_penalty=0.01) > 0


@pytest.mark.parametrize(("draft", "warns"), [("mtp", True), ("auto", False)])
def test_a_model_without_a_head_is_served_without(
    tiny_models: Path, tmp_path: Path, draft: str, warns: bool
) -> None:
    model = tiny_models / main_file("llama")
    with serve(tmp_path, model, "--draft", draft) as running:
        running.wait_until_ready()
        assert drafted(complete(running, model.stem)) == 0
        running.wait_for_log("serves ")
        assert running.log.count(WARNING) == int(warns)
        label = f'{{model="{model.stem}"}}'
        metrics = read_metrics(running.port)
        assert metrics[f"llmserve_draft_users{label}"] == 0
        assert f"llmserve_draft_acceptance_ratio{label}" not in metrics


def test_auto_drafts_where_there_is_a_head(tiny_models: Path, tmp_path: Path) -> None:
    model = tiny_models / DRAFT_HEAD_FILE
    env = {"LLMSERVE_DRAFT": "auto", "LLMSERVE_DRAFT_ADAPTIVE": "0"}
    with serve_in_process(tmp_path, model, env=env) as running:
        assert drafted(complete(running, model.stem)) > 0


def test_the_catalogue_says_how_each_model_drafts(tiny_models: Path, tmp_path: Path) -> None:
    catalogue = tmp_path / "models.toml"
    head, plain = tiny_models / DRAFT_HEAD_FILE, tiny_models / main_file("llama")
    catalogue.write_text(
        f"""
        [[models]]
        id = "head"
        path = "{head}"
        draft = "mtp"
        draft_adaptive = false

        [[models]]
        id = "quiet"
        path = "{head}"
        context_length = 512

        [[models]]
        id = "plain"
        path = "{plain}"
        draft = "auto"
        """
    )
    with serve_in_process(tmp_path, env={"LLMSERVE_CATALOGUE": str(catalogue)}) as running:
        texts = {name: complete(running, name) for name in ("head", "quiet", "plain")}
        assert {name: drafted(answer) > 0 for name, answer in texts.items()} == {
            "head": True,
            "quiet": False,
            "plain": False,
        }
        assert texts["head"]["choices"][0]["text"] == texts["quiet"]["choices"][0]["text"]


def test_options_that_are_wrong_end_the_start(tiny_model: Path, tmp_path: Path) -> None:
    with serve(tmp_path, tiny_model, "--draft", "mtp", "--draft-len", "9") as running:
        assert running.wait() == 2
        assert "--draft-len must be from 1 to 8, got 9" in running.log


def test_what_llamatik_binds_is_not_for_others(tiny_models: Path, tmp_path: Path) -> None:
    model = tiny_models / DRAFT_HEAD_FILE
    with serve_in_process(tmp_path, model) as running:
        api = Llamatik(running)
        api.init(model)
        api.ok("mtp/init", {"modelPath": str(model), "adaptive": False})
        answer = complete(running, model.stem)
        assert drafted(answer) == 0
        assert "draft_n" not in answer["timings"]
        body = {"model": str(model), "prompt": PROMPT, "max_tokens": 8, "temperature": 0}
        assert post(running.port, "/completions", body).status == 200
        label = f'{{model="{model.stem}"}}'
        assert read_metrics(running.port)[f"llmserve_draft_tokens_total{label}"] == 0
