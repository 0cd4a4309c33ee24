"""KV events as a router's subscriber gets them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgpack
import pytest
import zmq

from llmserve.server.kv_events import BLOCK_SIZE, KvEvents, KvEventsStartError
from llmserve.server.models import Registry
from llmserve.types import ModelConfig
from serving import Server, post, serve_in_process
from serving.exposition import scrape

POD = "10.0.0.7:8082"
TIMEOUT_MS = 20_000


@dataclass
class Subscriber:
    """Follows the blocks of all models."""

    socket: zmq.Socket[bytes]
    numbers: list[int] = field(default_factory=list)
    blocks: set[tuple[str, int]] = field(default_factory=set)
    """Medium and hash."""
    events: list[list[Any]] = field(default_factory=list)
    topics: set[str] = field(default_factory=set)

    def follow(self, is_enough: Callable[[], bool]) -> None:
        while not is_enough():
            assert self.socket.poll(TIMEOUT_MS), self.events
            topic, number, batch = self.socket.recv_multipart()
            self.topics.add(topic.decode())
            self.numbers.append(int.from_bytes(number, "big"))
            _, events, rank = msgpack.unpackb(batch)
            assert rank == 0
            for event in events:
                self._take(event)

    def _take(self, event: list[Any]) -> None:
        self.events.append(event)
        if event[0] == "BlockStored":
            _, hashes, parent, ids, block_size, _, medium, _ = event
            assert len(ids) == block_size * len(hashes)
            assert parent is None or (medium, parent) in self.blocks
            self.blocks |= {(medium, block) for block in hashes}
        elif event[0] == "BlockRemoved":
            self.blocks -= {(event[2], block) for block in event[1]}

    def stored_ids(self) -> list[int]:
        return [token for event in self.events if event[0] == "BlockStored" for token in event[3]]


@pytest.fixture
def subscriber() -> Iterator[Subscriber]:
    with zmq.Context() as context, context.socket(zmq.SUB) as socket:
        socket.subscribe(f"kv@{POD}@")
        yield Subscriber(socket)


@pytest.fixture
def served(tiny_models: Path, tmp_path: Path, subscriber: Subscriber) -> Iterator[Server]:
    # It connects to its subscriber, so that no event is lost before that is there.
    port = subscriber.socket.bind_to_random_port("tcp://127.0.0.1")
    env = {
        "MODELS_DIR": str(tiny_models),
        "LLMSERVE_LOAD_WAIT_S": "120",
        "LLMSERVE_KV_EVENTS": f"tcp://127.0.0.1:{port}",
        "LLMSERVE_KV_EVENTS_POD": POD,
    }
    with serve_in_process(tmp_path, env=env) as running:
        yield running


def test_a_router_follows_the_cells_of_a_model(served: Server, subscriber: Subscriber) -> None:
    prompt = "seashells " * 10
    body = {"model": "llama", "prompt": prompt, "max_tokens": 2, "ignore_eos": True}
    assert post(served.port, "/v1/completions", body).status == 200
    rendered = post(served.port, "/v1/completions/render", {"model": "llama", "prompt": prompt}).json
    ids = rendered[0]["token_ids"]
    whole = ids[: len(ids) // BLOCK_SIZE * BLOCK_SIZE]
    subscriber.follow(lambda: len(subscriber.stored_ids()) >= len(whole))
    assert subscriber.stored_ids()[: len(whole)] == whole
    assert subscriber.topics == {f"kv@{POD}@llama"}
    config = scrape(served.port).samples("llmserve_cache_config_info")[0]
    assert config.labels["block_size"] == str(BLOCK_SIZE)
    assert post(served.port, "/models/unload", {"model": "llama"}).status == 200
    subscriber.follow(lambda: subscriber.events[-1] == ["AllBlocksCleared"])
    assert not subscriber.blocks
    assert subscriber.numbers == list(range(len(subscriber.numbers)))


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "llmserve.server.kv_events.publisher", raising=False)
    monkeypatch.setitem(sys.modules, "msgpack", None)
    with pytest.raises(KvEventsStartError, match=r"msgpack.*\n.*pip install msgpack pyzmq"):
        KvEvents(Registry(ModelConfig()), "tcp://*:5557", POD).start()


@pytest.mark.parametrize("address", ["nowhere", "tcp://*:{port}"])
def test_an_address_that_cannot_be_used(address: str) -> None:
    with zmq.Context() as context, context.socket(zmq.PUB) as socket:
        port = socket.bind_to_random_port("tcp://*")
        with pytest.raises(KvEventsStartError, match="LLMSERVE_KV_EVENTS"):
            KvEvents(Registry(ModelConfig()), address.format(port=port), POD).start()
