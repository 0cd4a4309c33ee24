"""Responses that the server stores: continued, read, followed, cancelled and deleted."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from serving import Answer, Server, events, get, post, serve_in_process, wait_until

KEYS = ("first-key", "second-key")
MINE, OTHERS = ({"Authorization": f"Bearer {key}"} for key in KEYS)
# Long enough to be cancelled, and no longer than a test may take if it is not.
LONG = {"ignore_eos": True, "max_output_tokens": 20_000}


@pytest.fixture(scope="module")
def server(tiny_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    env = {"LLMSERVE_API_KEY": ",".join(KEYS), "LLMSERVE_CONTEXT_LENGTH": "32768"}
    with serve_in_process(tmp_path_factory.mktemp("responses"), tiny_model, env=env) as running:
        yield running


class Api:
    """The routes, with one key."""

    def __init__(self, server: Server, model: Path) -> None:
        self._port, self._model = server.port, model.stem

    def create(self, said: Any = "sea", **body: Any) -> Answer:
        whole = {"model": self._model, "input": said, "max_output_tokens": 4, "temperature": 0, **body}
        return post(self._port, "/v1/responses", whole, headers=MINE)

    def ok(self, said: Any = "sea", **body: Any) -> dict[str, Any]:
        answer = self.create(said, **body)
        assert answer.status == 200, answer.text
        made: dict[str, Any] = answer.json
        return made

    def count(self, said: Any, **body: Any) -> int:
        whole = {"model": self._model, "input": said, **body}
        answer = post(self._port, "/v1/responses/input_tokens", whole, headers=MINE).json
        assert answer["object"] == "response.input_tokens"
        number: int = answer["input_tokens"]
        return number

    def read(self, path: str, *, method: str = "GET", headers: Any = MINE) -> Answer:
        if method == "POST":
            return post(self._port, f"/v1/responses/{path}", b"", headers=headers)
        return get(self._port, f"/v1/responses/{path}", method=method, headers=headers)

    def end_of(self, response_id: str) -> dict[str, Any]:
        """The response, once it has ended."""
        found: dict[str, Any] = {}

        def has_ended() -> bool:
            found.update(self.read(response_id).json)
            return found["status"] not in ("queued", "in_progress")

        wait_until(has_ended)
        return found


def data_of(answer: Answer) -> list[dict[str, Any]]:
    """The events of a stream."""
    lines = events(answer.text)
    return [json.loads(line.removeprefix("data: ")) for line in lines if line.startswith("data: ")]


@pytest.fixture
def api(server: Server, tiny_model: Path) -> Api:
    return Api(server, tiny_model)


def test_a_response_continues_another_one(api: Api) -> None:
    first = api.ok("one", instructions="Be brief.")
    assert (first["store"], first["previous_response_id"]) == (True, None)
    # Instructions hold for their own response only.
    whole = [{"role": "user", "content": "one"}, *first["output"], {"role": "user", "content": "two"}]
    assert api.count("two", previous_response_id=first["id"]) == api.count(whole)
    second = api.ok("two", previous_response_id=first["id"])
    assert second["previous_response_id"] == first["id"]
    assert second["usage"]["input_tokens"] == api.count(whole)
    whole += [*second["output"], {"role": "user", "content": "three"}]
    third = api.ok("three", previous_response_id=second["id"], stream=False)
    assert third["usage"]["input_tokens"] == api.count(whole)


def test_a_stored_response_is_what_was_answered(api: Api) -> None:
    made = api.ok(metadata={"a": "b"})
    assert made["metadata"] == {"a": "b"}
    assert api.read(made["id"]).json == made
    last = data_of(api.create(stream=True))[-1]["response"]
    assert api.read(last["id"]).json == last


@pytest.mark.parametrize(
    ("method", "path"), [("GET", ""), ("DELETE", ""), ("POST", "/cancel"), ("GET", "/input_items")]
)
def test_a_response_is_its_keys_own(api: Api, method: str, path: str) -> None:
    made = api.ok()
    answer = api.read(made["id"] + path, method=method, headers=OTHERS)
    assert answer.status == 404
    assert answer.json["error"]["message"] == f"Response with id '{made['id']}' not found."
    assert api.read(made["id"]).status == 200


def test_an_unknown_response_cannot_be_continued(api: Api) -> None:
    error = api.create(previous_response_id="").json["error"]
    assert error["message"] == "previous_response_id must not be empty"
    error = api.create(previous_response_id="resp_no").json["error"]
    assert error["message"] == "Previous response with id 'resp_no' not found."
    assert (error["param"], error["code"]) == ("previous_response_id", "previous_response_not_found")


def test_a_response_that_is_not_stored_cannot_be_read(api: Api) -> None:
    made = api.ok(store=False)
    assert made["store"] is False
    assert api.read(made["id"]).status == 404


def test_a_deleted_response_is_gone_but_not_what_continues_it(api: Api) -> None:
    first = api.ok()
    second = api.ok(previous_response_id=first["id"])
    assert api.read(first["id"], method="DELETE").json["deleted"] is True
    assert api.read(first["id"]).status == 404
    third = api.ok(previous_response_id=second["id"])
    assert third["usage"]["input_tokens"] > second["usage"]["input_tokens"]


def test_input_items_come_in_pages(api: Api) -> None:
    first = api.ok("one")
    second = api.ok([{"role": "user", "content": "two"}], previous_response_id=first["id"])
    path = f"{second['id']}/input_items"
    page = api.read(f"{path}?order=asc").json
    texts = [item["content"][0]["text"] for item in page["data"]]
    assert texts == ["one", first["output"][0]["content"][0]["text"], "two"]
    assert (page["object"], page["has_more"]) == ("list", False)
    newest = api.read(f"{path}?limit=1").json
    assert (newest["data"], newest["has_more"]) == (page["data"][2:], True)
    rest = api.read(f"{path}?after={newest['last_id']}").json
    assert rest["data"] == page["data"][1::-1]
    assert api.read(f"{path}?limit=0").json["error"]["param"] == "limit"
    assert api.read(f"{path}?after=no").json["error"]["param"] == "after"


def test_a_response_in_the_background(api: Api) -> None:
    made = api.ok(background=True)
    assert made["background"] is True
    ended = api.end_of(made["id"])
    assert (ended["status"], ended["usage"]["output_tokens"]) == ("incomplete", 4)
    assert api.ok(previous_response_id=made["id"])["usage"]["input_tokens"] > 4
    refused = api.read(f"{made['id']}/cancel", method="POST")
    assert (refused.status, refused.json["error"]["message"]) == (400, "Cannot cancel a completed response.")


def test_a_response_in_the_background_is_cancelled(api: Api) -> None:
    made = api.ok(background=True, **LONG)
    wait_until(lambda: api.read(made["id"]).json["output"])
    error = api.create(previous_response_id=made["id"]).json["error"]
    assert error["param"] == "previous_response_id"
    cancelled = api.read(f"{made['id']}/cancel", method="POST").json
    assert (cancelled["status"], cancelled["output"][0]["status"]) == ("cancelled", "incomplete")
    assert api.read(f"{made['id']}/cancel", method="POST").json == cancelled


def test_only_the_background_can_be_cancelled(api: Api) -> None:
    refused = api.read(f"{api.ok()['id']}/cancel", method="POST")
    message = "Cannot cancel a synchronous response."
    assert (refused.status, refused.json["error"]["message"]) == (400, message)


def test_a_deleted_response_ends(api: Api, server: Server) -> None:
    made = api.ok(background=True, **LONG)
    api.read(made["id"], method="DELETE")
    server.wait_for_log("BACKGROUND /v1/responses cancelled")


def test_a_stream_in_the_background_can_be_followed_again(api: Api) -> None:
    answer = api.create(background=True, stream=True)
    shown = data_of(answer)
    response_id = shown[0]["response"]["id"]
    assert data_of(api.read(f"{response_id}?stream=true&starting_after=2")) == shown[3:]
    kinds = [event["type"].removeprefix("response.") for event in shown]
    assert (kinds[:3], kinds[-1]) == (["created", "queued", "in_progress"], "incomplete")
    assert [event["sequence_number"] for event in shown] == list(range(len(shown)))
    error = api.read(f"{api.ok()['id']}?stream=true").json["error"]
    assert error["param"] == "stream"


def test_a_conversation_under_an_id_of_its_own(server: Server, api: Api) -> None:
    def ask(method: str, path: str, body: Any = None, headers: Any = MINE) -> Answer:
        if method == "POST":
            return post(server.port, f"/v1/conversations{path}", body, headers=headers)
        return get(server.port, f"/v1/conversations{path}", method=method, headers=headers)

    first = {"role": "user", "content": "one"}
    made = ask("POST", "", {"items": [first], "metadata": {"a": "b"}}).json
    assert (made["object"], made["metadata"]) == ("conversation", {"a": "b"})
    path = f"/{made['id']}"
    assert ask("GET", path).json == made
    answer = api.ok("two", conversation=made["id"])
    assert answer["conversation"] == {"id": made["id"]}
    whole = [first, {"role": "user", "content": "two"}]
    assert answer["usage"]["input_tokens"] == api.count(whole)
    # What is not stored, or runs in the background, becomes part of it, too.
    api.ok("three", conversation={"id": made["id"]}, store=False)
    api.end_of(api.ok("four", conversation=made["id"], background=True)["id"])
    (added,) = ask("POST", f"{path}/items", {"items": [{"role": "user", "content": "five"}]}).json["data"]
    items = ask("GET", f"{path}/items?order=asc").json["data"]
    roles = ["user", "user", "assistant", "user", "assistant", "user", "assistant", "user"]
    assert [item["role"] for item in items] == roles
    assert ask("GET", f"{path}/items/{added['id']}").json == items[-1] == added
    assert ask("DELETE", f"{path}/items/{items[0]['id']}").json == made
    assert ask("GET", f"{path}/items?limit=100&order=asc").json["data"] == items[1:]
    assert ask("GET", f"{path}/items/no").status == 404
    assert ask("POST", path, {"metadata": {}}).json["metadata"] == {}
    assert ask("GET", path, headers=OTHERS).status == 404
    assert ask("DELETE", path).json["deleted"] is True
    error = api.create(conversation=made["id"])
    assert (error.status, error.json["error"]["code"]) == (404, "conversation_not_found")
    both = api.create(conversation=made["id"], previous_response_id=answer["id"])
    assert both.json["error"]["param"] == "conversation"


def test_what_would_fail_is_refused_before_it_runs_in_the_background(api: Api) -> None:
    assert api.create(background=True, model="none").status == 404
    assert api.create(background=True, store=False).json["error"]["param"] == "background"


def test_chats_are_counted_too(server: Server, tiny_model: Path, api: Api) -> None:
    body = {"model": tiny_model.stem, "messages": [{"role": "user", "content": "one"}]}
    answer = post(server.port, "/v1/chat/completions/input_tokens", body, headers=MINE)
    assert answer.json == {"object": "response.input_tokens", "input_tokens": api.count("one")}


def test_a_server_that_stops_ends_what_runs_in_the_background(tiny_model: Path, tmp_path: Path) -> None:
    with serve_in_process(tmp_path, tiny_model, env={"LLMSERVE_CONTEXT_LENGTH": "32768"}) as running:
        made = Api(running, tiny_model).ok(background=True, **LONG)
        assert made["status"] in ("queued", "in_progress")
    running.wait_for_log("BACKGROUND /v1/responses failed")
