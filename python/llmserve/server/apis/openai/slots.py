"""llama-server's `/slots`: what is being computed, and named sessions as slots that can be saved."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

from llmserve.errors import QueueFullError
from llmserve.server.apis.openai.contents import LOADED_ERRORS, MODEL_QUERY, answered
from llmserve.server.apis.openai.slot_choice import check_slot
from llmserve.server.apis.openai.slots_schema import SlotRequest
from llmserve.server.error_shapes.openai import DIALECT, OPENAI
from llmserve.server.models import Model
from llmserve.server.models.session_work import work_in_order
from llmserve.server.refusals import FieldError
from llmserve.server.services import Services
from llmserve.server.web.endpoint import Content, Endpoint
from llmserve.server.web.exchange import Exchange
from llmserve.server.web.headers import answer_headers
from llmserve.server.web.model_errors import MODEL_ERRORS
from llmserve.server.web.parameters import Parameter, as_it_is, in_path, one_of
from llmserve.server.web.session_names import slot_session
from llmserve.session import Session

_NO_SLOT: Parameter[str, None] = Parameter(
    name="fail_on_no_slot",
    place="query",
    doc="With any value: a 503 while no slot is free.",
    read=as_it_is,
    default=None,
)
_ID = in_path("id_slot", "The number of the slot, from 0.")
_ACTIONS = ("save", "restore", "erase")


_ACTION: Parameter[str, None] = Parameter(
    name="action",
    place="query",
    doc="What to do: `save`, `restore` or `erase`.",
    read=one_of(_ACTIONS),
    default=None,
    schema={"type": "string", "enum": list(_ACTIONS)},
)


class SlotsApi:
    """The routes over the shared services."""

    def __init__(self, services: Services) -> None:
        self._services = services

    @Endpoint(
        path="/slots",
        method="GET",
        dialect=OPENAI,
        operation_id="slots",
        summary="Slots of a model",
        description=(
            "One entry for each sequence that can be computed at a time. One with `n_prompt_tokens` is the "
            "session `slot-N`, which requests with `id_slot` use. The model must be loaded."
        ),
        responses={
            200: Content(
                "The slots.", {"application/json": {"schema": {"type": "array", "items": {"type": "object"}}}}
            )
        },
        errors={
            **LOADED_ERRORS,
            503: "The model is being loaded, or no slot is free and the query asks for one.",
        },
        parameters=[MODEL_QUERY, _NO_SLOT],
    )
    async def slots(self, exchange: Exchange) -> None:
        """`GET /slots`."""
        scope = exchange.request.scope
        found = await self._services.on_demand.loaded(MODEL_QUERY.of(scope))
        model = self._services.registry.find(found.entry.path, found.entry.config)
        slots = [] if model is None else self._slots(model)
        if _NO_SLOT.of(scope) and all(slot["is_processing"] for slot in slots):
            raise QueueFullError("no slot is free")
        await exchange.send_json(slots)

    def _slots(self, model: Model) -> list[dict[str, Any]]:
        stats = model.stats()
        if stats is None or model.handle is None:
            return []
        sessions = self._services.sessions.of_model(model)
        named = {number: sessions.get(slot_session(number)) for number in range(stats.num_slots)}
        busy = {number for number, session in named.items() if session is not None and session.num_uses > 0}
        others = [number for number in named if number not in busy]
        busy.update(others[: max(0, stats.num_running - len(busy))])
        is_drafting = stats.num_draft_users > 0
        slots = []
        for number, session in named.items():
            slot = {
                "id": number,
                "n_ctx": stats.context_length,
                "speculative": is_drafting,
                "is_processing": number in busy,
            }
            if session is not None:
                slot["n_prompt_tokens"] = session.session.num_tokens
            slots.append(slot)
        return slots

    @Endpoint(
        path="/slots/{id_slot}",
        method="POST",
        dialect=OPENAI,
        operation_id="slotAction",
        summary="Save, restore or erase a slot",
        description=(
            "A slot is the session `slot-N`: what requests with `id_slot` N left there. Its file is one of "
            "llmserve's session files."
        ),
        body=SlotRequest,
        needs_body=False,
        responses=answered("What was done.", {"id_slot": 0, "filename": "slot0.bin", "n_saved": 1745}),
        errors={
            **MODEL_ERRORS,
            400: "The slot, the action or the file is wrong.",
            403: "The file is outside SESSIONS_DIR, or that is unset and the request is not local.",
            404: "There is no such model, or nothing was computed in the slot.",
            410: "The session has expired.",
        },
        parameters=[_ID, _ACTION],
    )
    async def act(self, exchange: Exchange) -> None:
        """`POST /slots/N?action=...`."""
        parsed = await exchange.read(SlotRequest, may_be_empty=True)
        scope = exchange.request.scope
        action = _ACTION.of(scope)
        if action is None:
            raise FieldError("action", "is required")
        number = _slot_number(_ID.of(scope))
        async with self._services.on_demand.use(parsed.value.model) as used:
            check_slot(number, used.engine.info.num_slots)
            run = _erase if action == "erase" else self._with_file(action, parsed.value.filename, exchange)
            must_exist = action == "save"
            with self._services.sessions.call(
                used.model, slot_session(number), DIALECT, goes_on=must_exist, must_exist=must_exist
            ) as call:
                done = await work_in_order(call, run)
        await exchange.send_json({"id_slot": number, **done}, headers=answer_headers(parsed.unknown))

    def _with_file(
        self, action: str, filename: str | None, exchange: Exchange
    ) -> Callable[[Session], Coroutine[Any, Any, dict[str, Any]]]:
        if filename is None:
            raise FieldError("filename", "is required")
        path = self._services.sessions_folder.admit(filename, "filename", exchange.request.scope)

        async def run(session: Session) -> dict[str, Any]:
            begun = time.monotonic()
            await (session.save(path) if action == "save" else session.load(path))
            took = {f"{action}_ms": round((time.monotonic() - begun) * 1000, 3)}
            counts = await _counts(action, session, path)
            return {"filename": filename, **counts, "timings": took}

        return run


async def _counts(action: str, session: Session, path: Path) -> dict[str, int]:
    size = (await asyncio.to_thread(path.stat)).st_size
    if action == "save":
        return {"n_saved": session.num_tokens, "n_written": size}
    return {"n_restored": session.num_tokens, "n_read": size}


async def _erase(session: Session) -> dict[str, Any]:
    num_tokens = session.num_tokens
    await session.reset()
    return {"n_erased": num_tokens}


def _slot_number(text: str) -> int:
    if not text.isascii() or not text.isdecimal() or len(text) > 9:
        raise FieldError("id_slot", f"must be the number of a slot, got {text[:32]!a}")
    return int(text)
