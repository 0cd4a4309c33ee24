"""The two deployments: an entrance and the replicas behind it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ray import serve
from ray.serve.config import AutoscalingConfig, AutoscalingPolicy, RequestRouterConfig

from llmserve.ray.ingress import Ingress
from llmserve.ray.plan import Plan
from llmserve.ray.replica import Replica
from llmserve.ray.router import AffinityRouter
from llmserve.ray.scaling import ByQueue
from llmserve.server.settings import Settings

_REPORT_S = 1.0
"""How often replicas tell what they have."""
_INGRESS_REQUESTS = 1000
"""How many requests one entrance passes on at the same time."""


class Actor(Replica):
    """A replica as Ray makes and ends it: after its last request, before the process is killed."""

    async def __init__(self, settings: Settings) -> None:  # type: ignore[misc]
        super().__init__(settings)
        await self.start()

    async def __del__(self) -> None:
        """Ends the replica."""
        await self.end()


def application(plan: Plan, **changed: Any) -> serve.Application:
    """The application of a plan; ``changed`` are options of the replicas' deployment that differ."""
    replicas = serve.deployment(Actor).options(**{**_replica_options(plan), **changed})
    ingress = serve.deployment(Ingress).options(
        num_replicas=plan.routers,
        max_ongoing_requests=_INGRESS_REQUESTS,
        ray_actor_options={"num_cpus": 0},
        graceful_shutdown_timeout_s=plan.shutdown_timeout_s,
    )
    return ingress.bind(replicas.bind(plan.settings), plan.settings.max_body_bytes)


def _replica_options(plan: Plan) -> Mapping[str, Any]:
    """The options of the replicas' deployment."""
    options: dict[str, Any] = {
        "name": "Replica",
        "max_ongoing_requests": plan.max_ongoing_requests,
        "graceful_shutdown_wait_loop_s": 0.5,
        "graceful_shutdown_timeout_s": plan.shutdown_timeout_s,
        "ray_actor_options": {"num_cpus": plan.cpus, "num_gpus": plan.gpus},
        "request_router_config": RequestRouterConfig(
            request_router_class=AffinityRouter,
            request_router_kwargs={"slots": plan.slots},
            request_routing_stats_period_s=_REPORT_S,
        ),
    }
    if plan.min_replicas == plan.max_replicas:
        return {**options, "num_replicas": plan.max_replicas}
    policy = AutoscalingPolicy(policy_function=ByQueue, policy_kwargs={"slots": plan.slots})
    scaling = AutoscalingConfig(
        min_replicas=plan.min_replicas,
        max_replicas=plan.max_replicas,
        target_ongoing_requests=plan.slots,
        upscale_delay_s=plan.upscale_delay_s,
        downscale_delay_s=plan.downscale_delay_s,
        policy=policy,
    )
    return {**options, "autoscaling_config": scaling}
