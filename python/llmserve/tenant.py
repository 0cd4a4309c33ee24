"""Whose a request is."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Tenant"]


@dataclass(frozen=True, slots=True)
class Tenant:
    """One of those who share a model: tenants whose requests wait take turns, by the tokens they were served.

    So none can starve the others, however many requests it has. Requests without a tenant have one in common.
    """

    id: str
    """Its name, equal for all of its requests. It is kept while the tenant has requests."""
    weight: int = 1
    """Its share of the model: twice the weight is served twice the tokens."""
