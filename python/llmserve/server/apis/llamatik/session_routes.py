"""Llamatik's sessions: cancel, empty, save and load them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from llmserve.server.apis.llamatik.answers import SavedAnswer
from llmserve.server.apis.llamatik.contents import DONE, NO_MODEL, NOT_LOCAL, SESSION_EXPIRED, post, send_ok
from llmserve.server.apis.llamatik.errors import DIALECT, PREFIX
from llmserve.server.apis.llamatik.generation import DEFAULT_SESSION
from llmserve.server.apis.llamatik.schema import SessionFileRequest, SessionRequest
from llmserve.server.apis.llamatik.state import ChosenModel
from llmserve.server.models.session_work import work_in_order
from llmserve.server.refusals import PathNotAllowedError
from llmserve.server.services import Services
from llmserve.server.stale_files import is_temporary
from llmserve.server.web.endpoint import Content, json_of
from llmserve.server.web.exchange import Exchange
from llmserve.server.web.fields import dump
from llmserve.server.web.headers import answer_headers
from llmserve.server.web.session_names import SESSION, session_of
from llmserve.session import Session

T = TypeVar("T")

_FILE_ERRORS = {400: "The path is outside the folder, or the file is wrong.", 403: NOT_LOCAL, 409: NO_MODEL}


class SessionsApi:
    """The routes over the shared services and the dialect's model."""

    def __init__(self, services: Services, model: ChosenModel) -> None:
        self._services = services
        self._model = model

    @post(
        path=f"{PREFIX}/cancel",
        operation_id="cancelGeneration",
        summary="Cancel a session's calls",
        description=("Ends what runs or waits in the default session, or in the named one, within one step."),
        responses=DONE,
        parameters=[SESSION],
        body=SessionRequest,
        needs_body=False,
    )
    async def cancel(self, exchange: Exchange) -> None:
        """`POST cancel`."""
        parsed = await exchange.read(SessionRequest, may_be_empty=True)
        name = _session_name(exchange, parsed.value)
        self._services.sessions.cancel(name, DIALECT, self._model.current)
        await send_ok(exchange, parsed.unknown)

    @post(
        path=f"{PREFIX}/session/reset",
        operation_id="resetSession",
        summary="Empty a session",
        description="Empties the default session, or the named one, after its running call.",
        responses=DONE,
        errors={409: NO_MODEL},
        parameters=[SESSION],
        body=SessionRequest,
        needs_body=False,
    )
    async def reset_session(self, exchange: Exchange) -> None:
        """`POST session/reset`."""
        parsed = await exchange.read(SessionRequest, may_be_empty=True)
        await self._session_call(exchange, parsed.value, lambda session: session.reset())
        await send_ok(exchange, parsed.unknown)

    @post(
        path=f"{PREFIX}/session/save",
        operation_id="saveSession",
        summary="Save a session",
        description=(
            "Writes the session's tokens and their state to a file, which appears as a whole or not at all. "
            "Only a session's file is replaced."
        ),
        responses={200: Content("Saved.", json_of(SavedAnswer))},
        errors={**_FILE_ERRORS, 404: "There is no session of this name.", 410: SESSION_EXPIRED},
        parameters=[SESSION],
        body=SessionFileRequest,
    )
    async def save_session(self, exchange: Exchange) -> None:
        """`POST session/save`."""
        parsed = await exchange.read(SessionFileRequest)
        path = self._services.sessions_folder.admit(parsed.value.path, "path", exchange.request.scope)
        if is_temporary(path):  # a later start would remove it
            raise PathNotAllowedError("path")

        async def save(session: Session) -> SavedAnswer:
            await session.save(path)
            size = (await asyncio.to_thread(path.stat)).st_size
            return SavedAnswer(tokens=session.num_tokens, bytes=size)

        saved = await self._session_call(exchange, parsed.value, save, goes_on=True)
        await exchange.send_json(dump(saved), headers=answer_headers(parsed.unknown))

    @post(
        path=f"{PREFIX}/session/load",
        operation_id="loadSession",
        summary="Load a session",
        description=(
            "Replaces the session by a saved one of the same model. If that fails, the session is unchanged."
        ),
        responses=DONE,
        errors=_FILE_ERRORS,
        parameters=[SESSION],
        body=SessionFileRequest,
    )
    async def load_session(self, exchange: Exchange) -> None:
        """`POST session/load`."""
        parsed = await exchange.read(SessionFileRequest)
        path = self._services.sessions_folder.admit(parsed.value.path, "path", exchange.request.scope)
        await self._session_call(exchange, parsed.value, lambda session: session.load(path))
        await send_ok(exchange, parsed.unknown)

    async def _session_call(
        self,
        exchange: Exchange,
        request: SessionRequest,
        run: Callable[[Session], Coroutine[Any, Any, T]],
        *,
        goes_on: bool = False,
    ) -> T:
        """Does something with a session, after the calls before it.

        One that ``goes_on`` needs a named session to
        be there.
        """
        name = _session_name(exchange, request)
        must_exist = goes_on and name != DEFAULT_SESSION
        with (
            self._model.use() as (model, _),
            self._services.sessions.call(
                model, name, DIALECT, goes_on=goes_on, must_exist=must_exist
            ) as call,
        ):
            return await work_in_order(call, run)


def _session_name(exchange: Exchange, request: SessionRequest) -> str:
    return session_of(exchange.request.scope, request.session_id, "sessionId") or DEFAULT_SESSION
