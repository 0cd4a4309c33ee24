"""Whose a request is: of its API key, or of whom the gateway names that the server trusts."""

from __future__ import annotations

from contextvars import ContextVar
from hashlib import sha256

from starlette.types import Scope

from llmserve.server.settings import Settings
from llmserve.server.trust.keys import owner_of
from llmserve.server.web.headers import header
from llmserve.tenant import Tenant

FAIRNESS_ID = "x-gateway-inference-fairness-id"
"""The header of the Gateway API's inference extension that names whom a request counts for."""

_UNNAMED = Tenant("")
_current: ContextVar[Tenant] = ContextVar("llmserve_tenant", default=_UNNAMED)


def current_tenant() -> Tenant:
    """Whose request is being served; outside of any, the tenant without a name."""
    return _current.get()


def serve_as(tenant: Tenant) -> None:
    """Says whose the request is that this task serves from here on, and the tasks that it starts."""
    _current.set(tenant)


class TenantRule:
    """Tells requests with different keys apart; without keys, all are one tenant's.

    Tenants have digests for names, so nothing that shows one can show a key.
    """

    def __init__(self, settings: Settings) -> None:
        self._keys = settings.api_key
        self._priority_keys = settings.priority_key_file
        self._priority_weight = settings.priority_weight
        self._trusts_gateway = settings.trust_fairness_id

    def __call__(self, scope: Scope) -> Tenant:
        """Whose a request is that may pass."""
        named = header(scope, FAIRNESS_ID.encode()) if self._trusts_gateway else None
        name = sha256(named.encode("latin-1")).digest() if named else owner_of(self._keys, scope)
        has_priority = bool(owner_of(self._priority_keys, scope))
        return Tenant(name.hex(), weight=self._priority_weight if has_priority else 1)
