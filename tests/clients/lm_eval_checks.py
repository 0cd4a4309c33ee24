"""What users of `lm-eval` do: a log-likelihood task over `local-completions`. Runs in an environment that has
it (see `checks`), in a folder with the files of `lm_eval_task`."""

from __future__ import annotations

import functools
import os
from typing import Any

import lm_eval
import requests
from lm_eval.models.openai_completions import LocalCompletionsAPI
from lm_eval.tasks import TaskManager

from clients.checks import run_checks

ROOT = os.environ["BASE"].removesuffix("/v1")
MODEL = os.environ["MODEL"]
# Decoding and prompts are rounded differently.
NOISE = 0.3


def post(path: str, **body: Any) -> Any:
    answer = requests.post(f"{ROOT}{path}", json=body, timeout=300)
    answer.raise_for_status()
    return answer.json()


class ServerTokenizer:
    """llmserve's `/tokenize`, in place of a tokenizer from the Hugging Face hub."""

    eos_token = "<|im_end|>"  # noqa: S105 - a token of a vocabulary
    bos_token_id = eos_token_id = 0

    def encode(self, text: str) -> list[int]:
        return list(post("/tokenize", content=text, add_special=False)["tokens"])

    def batch_decode(self, tokens: list[list[int]]) -> list[str]:
        return [str(post("/detokenize", tokens=ids)["content"]) for ids in tokens]


def model(*, tokenized: bool, batch_size: int = 1, num_concurrent: int = 1) -> LocalCompletionsAPI:
    made = LocalCompletionsAPI(
        base_url=f"{ROOT}/v1/completions",
        model=MODEL,
        tokenizer_backend=None,
        batch_size=batch_size,
        num_concurrent=num_concurrent,
        max_retries=1,
    )
    made.tokenizer, made.tokenizer_backend = ServerTokenizer(), "remote"
    made.tokenized_requests = tokenized
    return made


def evaluate(lm: LocalCompletionsAPI) -> dict[str, Any]:
    found = lm_eval.simple_evaluate(
        model=lm,
        tasks=["capitals"],
        task_manager=TaskManager(include_path=".", include_defaults=False),
        log_samples=True,
        bootstrap_iters=0,
    )
    assert found is not None
    return dict(found)


def scores(found: dict[str, Any]) -> list[list[tuple[float, bool]]]:
    """The log-likelihood of each choice of each question, and whether it is the greedy one."""
    samples = sorted(found["samples"]["capitals"], key=lambda sample: sample["doc_id"])
    return [[tuple(score) for score in sample["filtered_resps"]] for sample in samples]


@functools.cache
def direct() -> list[list[float]]:
    """The same log-likelihoods, a completion for each token."""
    tokenizer = ServerTokenizer()
    docs = [sample["doc"] for sample in sorted(baseline()["samples"]["capitals"], key=lambda s: s["doc_id"])]
    return [
        [likelihood(tokenizer, doc["question"], f" {choice}") for choice in doc["choices"]] for doc in docs
    ]


def likelihood(tokenizer: ServerTokenizer, context: str, continuation: str) -> float:
    ids = tokenizer.encode(context + continuation)
    first = len(tokenizer.encode(context))
    return sum(next_logprob(ids[:place], ids[place]) for place in range(first, len(ids)))


def next_logprob(ids: list[int], token: int) -> float:
    body = {"model": MODEL, "prompt": ids, "max_tokens": 1, "logprobs": 0, "logit_bias": {str(token): 100}}
    (logprob,) = post("/v1/completions", temperature=0, **body)["choices"][0]["logprobs"]["token_logprobs"]
    return float(logprob)


@functools.cache
def baseline() -> dict[str, Any]:
    return evaluate(model(tokenized=True))


def check_log_likelihoods() -> None:
    for given, known in zip(scores(baseline()), direct(), strict=True):
        for (logprob, is_greedy), expected in zip(given, known, strict=True):
            assert abs(logprob - expected) < NOISE, (given, known)
            assert not is_greedy or logprob == max(other for other, _ in given)


def check_the_accuracy() -> None:
    samples = sorted(baseline()["samples"]["capitals"], key=lambda sample: sample["doc_id"])
    right = [
        max(range(len(known)), key=known.__getitem__) == sample["doc"]["answer"]
        for known, sample in zip(direct(), samples, strict=True)
    ]
    given = baseline()["results"]["capitals"]["acc,none"]
    assert abs(given - sum(right) / len(right)) < 1e-9
    assert given > 0.5


def check_batches_and_concurrent_requests() -> None:
    for other in (model(tokenized=True, batch_size=4), model(tokenized=True, num_concurrent=4)):
        for given, known in zip(scores(evaluate(other)), scores(baseline()), strict=True):
            assert all(abs(a[0] - b[0]) < NOISE for a, b in zip(given, known, strict=True))


def check_texts_as_prompts() -> None:
    for given, known in zip(scores(evaluate(model(tokenized=False))), scores(baseline()), strict=True):
        assert all(abs(a[0] - b[0]) < NOISE for a, b in zip(given, known, strict=True))


if __name__ == "__main__":
    run_checks(globals())
