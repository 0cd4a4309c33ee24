"""Publishes events on a ZMQ socket: topic, sequence number and batch, each a frame."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence

import msgpack
import zmq

from llmserve.server.kv_events.events import Event

_MAX_UNSENT = 100_000
"""Messages kept for a subscriber that is slow; what is beyond is lost to it, as it sees by the numbers."""
_RANK = 0


class Publisher:
    """A socket that subscribers connect to, or that connects to a router. Sending never waits."""

    def __init__(self, address: str, pod: str) -> None:
        """``pod`` is this server's name in topics.

        Raises:
            zmq.ZMQError: The address cannot be used.
        """
        self._pod = pod
        self._numbers: Counter[str] = Counter()
        self._context = zmq.Context()
        self._socket = self._context.socket(zmq.PUB)
        self._socket.set_hwm(_MAX_UNSENT)
        try:
            # As vLLM does: who listens on all addresses, or on a file, waits for subscribers.
            if "*" in address or "::" in address or address.startswith("ipc://"):
                self._socket.bind(address)
            else:
                self._socket.connect(address)
        except zmq.ZMQError:
            self.close()
            raise

    def publish(self, model: str, events: Sequence[Event]) -> None:
        """Sends a batch of a model's events. The batches of each model have numbers of their own."""
        topic = f"kv@{self._pod}@{model}"
        number = self._numbers[topic]
        self._numbers[topic] += 1
        batch = msgpack.packb((time.time(), events, _RANK))
        self._socket.send_multipart((topic.encode(), number.to_bytes(8, "big"), batch))

    def close(self) -> None:
        """Closes the socket; what has been sent has half a second to leave."""
        self._context.destroy(linger=500)
