"""Documents of schemas that Pydantic makes: the model reads each of them, whatever its budget."""

from __future__ import annotations

import json
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from ipaddress import IPv4Network, IPv6Network
from typing import Annotated, Literal
from uuid import UUID

import pydantic
import pytest

from llmserve import BudgetTooSmallError, Engine, SamplingParams

pytestmark = pytest.mark.anyio

SURPLUSES = (0, 1, 2, 5, 9, 14, 25, 40, 80)

# As older releases of Pydantic describe it; newer ones allow any string.
Amount = Annotated[
    Decimal,
    pydantic.WithJsonSchema(
        {"anyOf": [{"type": "number"}, {"type": "string", "pattern": r"^(?!^[-+.]*$)[+-]?0*\d*\.?\d*$"}]}
    ),
]


class Event(pydantic.BaseModel):
    """Times of all kinds."""

    day: date
    at: datetime
    daily: time
    takes: timedelta
    also: datetime | date | None = None


class Host(pydantic.BaseModel):
    """Values that are strings in JSON."""

    id: UUID
    price: Amount
    network: IPv4Network
    other: IPv6Network
    raw: bytes
    secret: pydantic.SecretStr
    kinds: set[Literal["a", "b", "c"]]


class Node(pydantic.BaseModel):
    """Nested unions, and a reference to itself."""

    value: int | list[Event | bool] | dict[str, Amount | None]
    child: Node | None = None


@pytest.mark.parametrize("model", [Event, Host, Node])
async def test_the_model_reads_every_document(tiny: Engine, model: type[pydantic.BaseModel]) -> None:
    schema = json.dumps(model.model_json_schema())
    with pytest.raises(BudgetTooSmallError) as too_small:
        await tiny.generate("x", json_schema=schema, max_tokens=1)
    for surplus in SURPLUSES:
        for seed in (1, 2):
            params = SamplingParams(
                json_schema=schema, max_tokens=too_small.value.minimum + surplus, temperature=1.0, seed=seed
            )
            completion = await tiny.generate("A document: ", params)
            model.model_validate_json(completion.text)
