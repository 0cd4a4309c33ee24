"""A fleet of replicas in Ray Serve on this machine, and conversations with it. Needs Ray."""

from __future__ import annotations

import json
import os
import random
import secrets
import socket
import tempfile
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

LIMIT_S = 60.0
WORDS = ("river", "stone", "lamp", "winter", "paper", "garden", "silver", "mountain", "letter", "bridge")
SYSTEM = "You answer briefly, in plain words, and you say so when you do not know something. " * 8
TURNS = 5


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer: its status and its JSON."""

    status: int
    json: Any


@dataclass(frozen=True, slots=True)
class Fleet:
    """Replicas behind a port on loopback."""

    port: int
    folder: Path

    def post(self, path: str, body: Mapping[str, Any], headers: Mapping[str, str] | None = None) -> Reply:
        """The answer to a request. A connection that breaks is one with the status 0."""
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.port}{path}",
            json.dumps(body).encode(),
            {"Content-Type": "application/json", **(headers or {})},
        )
        try:
            with urllib.request.urlopen(request, timeout=LIMIT_S) as answer:  # noqa: S310 - an address of this machine
                return Reply(answer.status, json.load(answer))
        except urllib.error.HTTPError as error:
            return Reply(error.code, error.read().decode())
        except (OSError, ValueError) as error:
            return Reply(0, str(error))

    def deploy(self, options: Mapping[str, str], *, at_random: bool = False) -> None:
        """Deploys the application, or changes the one that there is; returns when it is ready.

        ``at_random`` leaves the choice of replicas to Ray's two random choices.
        """
        from ray import serve
        from ray.serve.config import RequestRouterConfig

        from llmserve.ray import deployment
        from llmserve.ray.plan import plan_of

        plan = plan_of({}, options, self.folder)
        changed = {"request_router_config": RequestRouterConfig()} if at_random else {}
        serve.run(deployment.application(plan, **changed))


@contextmanager
def fleet(cpus: int = 8) -> Iterator[Fleet]:
    """A cluster of one node that nobody else reaches, with Ray Serve and no application yet."""
    with tempfile.TemporaryDirectory(prefix="llmserve-ray-") as folder:
        # Else Ray would write a token into the user's home. It reads its environment once in a process.
        os.environ |= {"RAY_USAGE_STATS_ENABLED": "0"}
        os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(32))
        import ray
        from ray import serve

        ray.init(
            num_cpus=cpus,
            include_dashboard=False,
            object_store_memory=100 * 2**20,
            log_to_driver=False,
            _node_ip_address="127.0.0.1",
            _temp_dir=folder,
        )
        try:
            port = _free_port()
            serve.start(http_options={"host": "127.0.0.1", "port": port})
            yield Fleet(port, Path(folder))
            serve.shutdown()
        finally:
            ray.shutdown()


def _free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


@dataclass(slots=True)
class Conversation:
    """A chat that goes on turn by turn. Its first message is its own."""

    number: int
    messages: list[dict[str, str]] = field(default_factory=list)
    hits: list[bool] = field(default_factory=list)
    num_tokens: int = 0

    def turn(self, fleet: Fleet) -> Reply:
        """The next turn. It is a hit if the prompt of the turn before is not computed again."""
        words = random.Random(f"{self.number} {len(self.messages)}").choices(WORDS, k=16)  # noqa: S311 - no secret
        if not self.messages:
            self.messages.append({"role": "system", "content": SYSTEM})
        said = {"role": "user", "content": f"Conversation {self.number}: {' '.join(words)}"}
        body = {"messages": [*self.messages, said], "max_tokens": 32, "temperature": 0}
        reply = fleet.post("/v1/chat/completions", body)
        if reply.status == 200:
            usage = reply.json["usage"]
            if self.num_tokens:
                cached = usage["prompt_tokens_details"]["cached_tokens"]
                self.hits.append(cached >= 0.9 * self.num_tokens)
            self.num_tokens = usage["prompt_tokens"]
            self.messages += [said, reply.json["choices"][0]["message"]]
        return reply


@dataclass(slots=True)
class Talk:
    """Many conversations at once, whose turns come in any order; a client tries each turn at most twice."""

    conversations: list[Conversation]
    clients: int = 8
    failures: list[str] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def run(self, fleet: Fleet, turns: int = TURNS) -> float:
        """Has all turns; returns the share of those after the first that hit their prefix."""
        left = [conversation for conversation in self.conversations for _ in range(turns)]
        random.Random(7).shuffle(left)  # noqa: S311 - no secret
        busy: set[int] = set()

        def next_one() -> Conversation | None:
            with self._lock:
                for place, conversation in enumerate(left):
                    if conversation.number not in busy:
                        busy.add(conversation.number)
                        return left.pop(place)
            return None

        def client() -> None:
            while (conversation := next_one()) is not None:
                replies = [conversation.turn(fleet)]
                if replies[0].status != 200:
                    replies.append(conversation.turn(fleet))
                with self._lock:
                    busy.discard(conversation.number)
                    if replies[-1].status != 200:
                        self.failures += [f"{reply.status} {reply.json}" for reply in replies]

        with ThreadPoolExecutor(self.clients) as pool:
            for done in [pool.submit(client) for _ in range(self.clients)]:
                done.result()
        hits = [hit for conversation in self.conversations for hit in conversation.hits]
        return sum(hits) / len(hits)
