"""Ray Serve's choice of a replica, by the rules of `llmserve.routing`."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

from ray.serve.request_router import PendingRequest, ReplicaID, RequestRouter, RunningReplica

from llmserve.ray.calls import Call
from llmserve.routing import Affinity, RoutingKey


class AffinityRouter(RequestRouter):
    """Sends a call to the replica with its session, else with the longest part of its prompt, else to the
    less busy of two.
    """

    def initialize_state(self, slots: int, **_: Any) -> None:
        """Begins without any knowledge. ``slots`` are the requests that a replica computes together."""
        self._affinity: Affinity[ReplicaID] = Affinity(slots)

    def update_replicas(self, replicas: list[RunningReplica]) -> None:
        """Takes the replicas that there are, with what they report."""
        # First: the router may choose as soon as it has them.
        self._affinity.update([replica.replica_id for replica in replicas])
        for replica in replicas:
            stats = replica.routing_stats
            self._affinity.report(replica.replica_id, stats.get("sessions", ()), stats.get("blocks", ()))
        super().update_replicas(replicas)

    def on_replica_actor_died(self, replica_id: ReplicaID) -> None:
        """Forgets a replica."""
        super().on_replica_actor_died(replica_id)
        self._affinity.update(list(self.curr_replicas))

    async def choose_replicas(
        self, candidate_replicas: list[RunningReplica], pending_request: PendingRequest | None = None
    ) -> list[list[RunningReplica]]:
        """The replicas to be tried, in ranks; of each rank Ray takes the least busy."""
        two = random.sample(candidate_replicas, min(2, len(candidate_replicas)))
        if pending_request is None or (key := _key_of(pending_request)) is None:
            return [two]
        loads = {
            replica.replica_id: self.replica_queue_len_cache.get(replica.replica_id) or 0
            for replica in candidate_replicas
        }
        choice = self._affinity.choose(key, loads)
        pending_request.kwargs["has_lost_session"] = choice.has_lost_session
        best = [replica for replica in candidate_replicas if replica.replica_id in choice.replicas]
        if choice.is_binding and best:
            return [best]
        return [best, two] if best else [two]

    def on_request_routed(
        self, pending_request: PendingRequest, replica_id: ReplicaID, result: object
    ) -> None:
        """Remembers where a call went."""
        if (key := _key_of(pending_request)) is not None:
            self._affinity.routed(key, replica_id)


def _key_of(request: PendingRequest) -> RoutingKey | None:
    args: Sequence[Any] = request.args
    return args[0].key if args and isinstance(args[0], Call) else None
