"""What a fleet of replicas in Ray Serve does. Runs in an environment that has Ray (see `checks`).

One fleet does it all, one check after another.
"""

from __future__ import annotations

import http.client
import json
import os
import threading
import time
import urllib.request
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import ray
from benches.ray_fleet import Conversation, Fleet, Reply, Talk, fleet
from ray import serve

from clients.checks import run_checks

OPTIONS = {
    "model": os.environ["MODEL"],
    "sessions_dir": os.environ["SESSIONS"],
    "threads": "1",
    "cpus": "1",
    "context_length": "4096",
    "max_sequences": "8",
}
NUM_SESSIONS = 8
PATIENCE_S = 120

FLEET: Fleet


def wait_until(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < end, "it does not come about"
        time.sleep(0.1)


def num_running() -> int:
    states: dict[Any, int] = serve.status().applications["default"].deployments["Replica"].replica_states
    return sum(states.values()) if set(states) == {"RUNNING"} else 0


def scale_to(number: int) -> None:
    FLEET.deploy({**OPTIONS, "replicas": str(number)})
    wait_until(lambda: num_running() == number)


def complete(prompt: str, session: str | None = None, **fields: Any) -> Reply:
    headers = {} if session is None else {"X-LLMServe-Session": session}
    body = {"prompt": prompt, "max_tokens": 4, "temperature": 0, **fields}
    return FLEET.post("/v1/completions", body, headers)


def check_turns_hit_their_prefix() -> None:
    scale_to(2)
    talk = Talk([Conversation(number) for number in range(12)])
    share = talk.run(FLEET)
    assert not talk.failures, talk.failures
    assert share >= 0.95, share


def check_answers_and_errors_pass_through() -> None:
    reply = complete("Hello", n=2, stream=False)
    assert (reply.status, len(reply.json["choices"])) == (200, 2), reply
    assert complete("Hello", temperature=-1).status == 400
    assert FLEET.post("/nothing", {}).status == 404
    assert complete("x" * (17 << 20)).status == 413


def check_sessions_follow_their_replica_and_outlive_it() -> None:
    names = [f"Ada{number}" for number in range(NUM_SESSIONS)]
    with ThreadPoolExecutor(NUM_SESSIONS) as pool:
        begun = list(pool.map(lambda name: complete("Once upon a time", name), names))
        again = list(pool.map(lambda name: complete(" and", name), names))
    scale_to(1)
    after = [complete(" so", name) for name in names]
    for replies in zip(begun, again, after, strict=True):
        assert [reply.status for reply in replies] == [200, 200, 200], replies
        lengths = [reply.json["usage"]["prompt_tokens"] for reply in replies]
        assert lengths == sorted(set(lengths)), lengths


def check_a_client_that_leaves_ends_its_request() -> None:
    connection = http.client.HTTPConnection("127.0.0.1", FLEET.port, timeout=PATIENCE_S)
    body = {"prompt": "Once", "max_tokens": 3500, "ignore_eos": True, "stream": True}
    connection.request("POST", "/v1/completions", json.dumps(body), {"Content-Type": "application/json"})
    stream = connection.getresponse()
    assert stream.readline().startswith(b"data: ")
    stream.close()
    connection.close()
    wait_until(lambda: counter("llmserve_requests_cancelled_total") == 1)


def counter(name: str) -> float:
    """A counter of the only replica."""
    with urllib.request.urlopen(f"http://127.0.0.1:{FLEET.port}/metrics", timeout=PATIENCE_S) as page:
        lines = page.read().decode().splitlines()
    return float(next(line for line in lines if line.startswith(name + "{")).split()[-1])


def check_a_killed_replica_loses_only_its_running_requests() -> None:
    scale_to(2)
    num_streams = 8
    with ThreadPoolExecutor(num_streams) as pool:
        running = [
            pool.submit(complete, f"{n} long", max_tokens=2000, ignore_eos=True) for n in range(num_streams)
        ]
        wait_until(lambda: all(future.running() or future.done() for future in running))
        time.sleep(1)
        unfinished = [future for future in running if not future.done()]
        kill_a_replica()
        next_ones = [retried(f"{number} next") for number in range(num_streams)]
        replies = [future.result() for future in running]
    lost = [reply for reply in replies if reply.status != 200]
    assert 0 < len(lost) < len(unfinished), (len(lost), len(unfinished), lost)
    assert {reply.status for reply in next_ones} == {200}, next_ones
    wait_until(lambda: num_running() == 2)


def kill_a_replica() -> None:
    actors = ray.util.list_named_actors(all_namespaces=True)
    name = next(actor["name"] for actor in actors if "#Replica#" in actor["name"])
    ray.kill(ray.get_actor(name, namespace="serve"))


def retried(prompt: str) -> Reply:
    reply = complete(prompt)
    return reply if reply.status == 200 else complete(prompt)


def check_the_fleet_grows_and_shrinks_under_load_without_an_error() -> None:
    bounds = {"min_replicas": "1", "max_replicas": "3", "upscale_delay_s": "1", "downscale_delay_s": "2"}
    FLEET.deploy({**OPTIONS, **bounds})
    failures: list[str] = []
    has_grown = threading.Event()

    def load() -> None:
        first = 100
        while not has_grown.is_set():
            talk = Talk([Conversation(first + number) for number in range(40)], clients=40)
            talk.run(FLEET)
            failures.extend(talk.failures)
            first += 100

    with ThreadPoolExecutor(1) as pool:
        loading = pool.submit(load)
        try:
            wait_until(lambda: num_running() == 3)
        finally:
            has_grown.set()
        loading.result()
    # A client that asks now and then meanwhile.
    while num_running() != 1:
        assert retried("Hello").status == 200
        time.sleep(0.2)
    assert not failures, failures


if __name__ == "__main__":
    with fleet(cpus=4) as FLEET:
        run_checks({name: value for name, value in globals().items() if name.startswith("check_")})
