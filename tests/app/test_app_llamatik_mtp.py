"""`mtp/init` and `mtp/shutdown` of a model with a draft head, and what drafts in between."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from serving import Llamatik, Server, read_metrics, serve_folder, wait_until
from serving.llamatik import joined, parsed
from synthetic import DRAFT_HEAD_FILE, MISSING_HEAD_FILE, WRONG_HEAD_FILE, main_file

NO_HEAD = "the model has no head for multi-token prediction (MTP) that can draft"
PROMPT = "one two three four five six seven"
GREEDY: dict[str, Any] = {"temperature": 0, "repeatPenalty": 1, "maxTokens": 48}
SCHEMA = {
    "type": "object",
    "properties": {"name": {"type": "string", "maxLength": 20}, "size": {"type": "integer"}},
    "required": ["name", "size"],
}


@pytest.fixture(scope="module")
def model(tiny_models: Path) -> Path:
    return tiny_models / DRAFT_HEAD_FILE


@pytest.fixture(scope="module")
def running(tiny_models: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serve_folder(tmp_path_factory.mktemp("server"), tiny_models) as running:
        yield running


@pytest.fixture
def api(running: Server, model: Path) -> Iterator[Llamatik]:
    """With the model just loaded: cells that were computed without a draft context cannot draft."""
    api = Llamatik(running)
    api.init(model)
    yield api
    api.ok("mtp/shutdown")
    wait_until(lambda: num_users(running, model) == 0)
    api.ok("shutdown")


def num_users(running: Server, model: Path) -> float:
    """How many hold the model's draft context; none where it is not loaded."""
    return read_metrics(running.port).get(f'llmserve_draft_users{{model="{model.stem}"}}', 0)


def drafted(answer: dict[str, Any]) -> tuple[int, int]:
    usage = answer["usage"]
    return usage["draftTokens"], usage["acceptedTokens"]


def init_mtp(api: Llamatik, model: Path, **options: Any) -> None:
    api.ok("mtp/init", {"modelPath": str(model), "adaptive": False, **options})


def test_the_second_answer_is_drafted(api: Llamatik, running: Server, model: Path) -> None:
    init_mtp(api, model, draftLen=3)
    assert num_users(running, model) == 1
    first = api.whole("generate", prompt=PROMPT, **GREEDY)
    second = api.whole("continue", prompt=" eight nine", **GREEDY)
    for answer in (first, second):
        num_drafted, num_accepted = drafted(answer)
        assert num_drafted > num_accepted > 0
    api.ok("mtp/shutdown")
    for route, prompt, answer in (("generate", PROMPT, first), ("continue", " eight nine", second)):
        baseline = api.whole(route, prompt=prompt, **GREEDY)
        assert (baseline["text"], drafted(baseline)) == (answer["text"], (0, 0))


def test_a_conversation_that_began_without_goes_on_without(api: Llamatik, model: Path) -> None:
    api.whole("generate", prompt=PROMPT, **GREEDY)
    init_mtp(api, model)
    assert drafted(api.whole("continue", prompt=" eight nine", **GREEDY)) == (0, 0)


@pytest.mark.parametrize("draft_len", [1, 3, 8])
def test_every_route_drafts_and_gives_the_same_text(api: Llamatik, model: Path, draft_len: int) -> None:
    sampled = {"temperature": 0.8, "seed": 5, "maxTokens": 48, "repeatPenalty": 1.1}
    context = {"systemPrompt": "Be short.", "contextBlock": "", "userPrompt": PROMPT}
    calls: list[tuple[str, str, dict[str, Any]]] = [
        ("generate", "stream", {"prompt": PROMPT, **GREEDY}),
        ("generate", "stream", {"prompt": PROMPT, **sampled}),
        ("continue", "continueStream", {"prompt": " and", **GREEDY}),
        ("generateWithContext", "streamWithContext", {**context, **GREEDY}),
        ("generateJson", "jsonStream", {"prompt": PROMPT, "jsonSchema": SCHEMA, **sampled, "maxTokens": 96}),
        (
            "generateJsonWithContext",
            "jsonStreamWithContext",
            {**context, "jsonSchema": SCHEMA, **GREEDY, "maxTokens": 96},
        ),
    ]
    init_mtp(api, model, draftLen=draft_len)
    answers = [api.whole(route, **body) for route, _, body in calls]
    streams = [api.stream(route, **body) for _, route, body in calls]
    assert [joined(events) for events in streams] == [answer["text"] for answer in answers]
    for (route, _, _), answer, events in zip(calls, answers, streams, strict=True):
        assert drafted(answer)[0] > 0, route
        assert drafted(events[-1])[0] > 0, route
    api.ok("mtp/shutdown")
    for (route, _, body), answer in zip(calls, answers, strict=True):
        baseline = api.whole(route, **body)
        assert (baseline["text"], drafted(baseline)) == (answer["text"], (0, 0))


def test_init_again_replaces_the_options_and_shutdown_ends_them(
    api: Llamatik, running: Server, model: Path
) -> None:
    api.ok("mtp/init", {"modelPath": str(model)})
    init_mtp(api, model, draftLen=1)
    wait_until(lambda: num_users(running, model) == 1)
    one = api.whole("generate", prompt=PROMPT, **GREEDY)
    init_mtp(api, model, draftLen=8)
    eight = api.whole("generate", prompt=PROMPT, **GREEDY)
    assert 0 < drafted(one)[0] < drafted(eight)[0]
    api.ok("mtp/shutdown")
    wait_until(lambda: num_users(running, model) == 0)
    after = api.whole("generate", prompt=PROMPT, **GREEDY)
    assert (after["text"], drafted(after)) == (one["text"], (0, 0))
    assert eight["text"] == one["text"]
    api.ok("mtp/shutdown")


def test_another_path_is_refused(api: Llamatik, tiny_models: Path, model: Path) -> None:
    answer = api.post("mtp/init", {"modelPath": str(tiny_models / WRONG_HEAD_FILE)})
    assert (answer.status, answer.json) == (409, {"error": "modelPath must be the path of the loaded model"})
    assert drafted(api.whole("generate", prompt=PROMPT, **GREEDY)) == (0, 0)


@pytest.mark.parametrize("file", [MISSING_HEAD_FILE, main_file("llama")])
def test_a_model_without_a_head_says_so_and_goes_on(running: Server, tiny_models: Path, file: str) -> None:
    api = Llamatik(running)
    api.init(tiny_models / file)
    before = api.whole("generate", prompt=PROMPT, **GREEDY)
    answer = api.post("mtp/init", {"modelPath": str(tiny_models / file), "draftLen": 3})
    assert (answer.status, answer.json) == (400, {"error": NO_HEAD})
    after = api.whole("generate", prompt=PROMPT, **GREEDY)
    assert (after["text"], drafted(after)) == (before["text"], (0, 0))
    api.ok("shutdown")


def test_init_of_another_model_releases_the_head(
    api: Llamatik, running: Server, tiny_models: Path, model: Path
) -> None:
    init_mtp(api, model)
    api.init(tiny_models / WRONG_HEAD_FILE)
    wait_until(lambda: num_users(running, model) == 0)
    assert drafted(api.whole("generate", prompt=PROMPT, **GREEDY)) == (0, 0)
    # Back again it is not bound either.
    api.init(model)
    assert drafted(api.whole("generate", prompt=PROMPT, **GREEDY)) == (0, 0)


def test_without_a_model_there_is_nothing_to_bind(running: Server, model: Path) -> None:
    api = Llamatik(running)
    api.ok("mtp/shutdown")
    answer = api.post("mtp/init", {"modelPath": str(model)})
    assert answer.status == 409
    api.init(model)
    init_mtp(api, model)
    api.ok("shutdown")
    wait_until(lambda: num_users(running, model) == 0)
    api.init(model)
    assert drafted(api.whole("generate", prompt=PROMPT, **GREEDY)) == (0, 0)
    api.ok("shutdown")


def test_a_reload_keeps_drafting(api: Llamatik, running: Server, model: Path) -> None:
    init_mtp(api, model, draftLen=2)
    first = api.whole("generate", prompt=PROMPT, **GREEDY)
    api.ok("params", {"contextLength": 1024})
    wait_until(lambda: num_users(running, model) == 0)
    second = api.whole("generate", prompt=PROMPT, **GREEDY)
    assert second["text"] == first["text"]
    assert drafted(second)[0] > 0
    reloaded = model.with_name(f"{model.stem}-2.gguf")
    assert max(num_users(running, model), num_users(running, reloaded)) == 1
    api.ok("params", {"contextLength": 2048})


def test_twenty_dropped_streams_leave_the_engine_idle(api: Llamatik, running: Server, model: Path) -> None:
    init_mtp(api, model)

    def drop(number: int) -> None:
        endless = {"prompt": f"{number} {PROMPT}", **GREEDY, "maxTokens": 1900}
        with api.open("stream", **endless, sessionId=f"s{number}") as stream:
            assert stream.read_head()[0] == 200
            lines = stream.lines()
            for _ in range(number % 5):
                next(lines)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(drop, range(20)))
    names = ("requests_running", "requests_waiting", "requests_preparing")
    label = f'{{model="{model.stem}"}}'
    wait_until(lambda: not any(read_metrics(running.port)[f"llmserve_{name}{label}"] for name in names))
    answers = [api.whole("generate", prompt=PROMPT, **GREEDY) for _ in range(3)]
    assert all(drafted(answer)[0] > 0 for answer in answers)
    api.ok("mtp/shutdown")
    baseline = api.text("generate", prompt=PROMPT, **GREEDY)
    assert [answer["text"] for answer in answers] == [baseline] * 3


def test_shutdown_in_the_midst_of_a_stream_changes_nothing_of_it(
    api: Llamatik, running: Server, model: Path
) -> None:
    body = {"prompt": PROMPT, **GREEDY, "maxTokens": 400}
    init_mtp(api, model)
    with api.open("stream", **body) as stream:
        assert stream.read_head()[0] == 200
        lines = stream.lines()
        first = next(lines)
        api.ok("mtp/shutdown")
        rest = [first, *lines]
    events = [line for line in rest if not line.startswith(":")]

    text = joined([parsed(line) for line in events])
    wait_until(lambda: num_users(running, model) == 0)
    assert api.text("generate", **body) == text
