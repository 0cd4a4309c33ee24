"""Sessions and responses that are not stored any more, or cannot be changed."""

from __future__ import annotations

from typing import Literal

from llmserve.server.refusals.base import MAX_SHOWN_ID, Refusal


class SessionExpiredError(Refusal):
    """The session to continue is gone: it was idle for too long, or made room for a newer one."""

    code = "session_expired"

    def __init__(self) -> None:
        super().__init__("the session has expired: the next call begins a new one")


class UnknownSessionError(Refusal):
    """There is no session of this name."""

    code = "unknown_session"

    def __init__(self, name: str) -> None:
        super().__init__(f"there is no session {name[:MAX_SHOWN_ID]!r}")


class SessionsFullError(Refusal):
    """The maximum number of sessions exists, and all of them are in use."""

    code = "sessions_full"

    def __init__(self, limit: int) -> None:
        super().__init__(f"all {limit} sessions are in use")
        self.limit = limit


class UnknownResponseError(Refusal):
    """No response with this id is stored for the client. The words are OpenAI's."""

    code = "response_not_found"

    def __init__(self, response_id: str) -> None:
        super().__init__(f"Response with id '{response_id[:MAX_SHOWN_ID]}' not found.")


class UnknownConversationError(Refusal):
    """No conversation with this id is stored for the client. The words are OpenAI's."""

    code = "conversation_not_found"

    def __init__(self, conversation_id: str) -> None:
        super().__init__(f"Conversation with id '{conversation_id[:MAX_SHOWN_ID]}' not found.")


class UnknownItemError(Refusal):
    """A conversation has no item with this id."""

    code = "item_not_found"

    def __init__(self, item_id: str) -> None:
        super().__init__(f"Item with id '{item_id[:MAX_SHOWN_ID]}' not found.")


class ResponseEndedError(Refusal):
    """A response that does not run in the background cannot be cancelled. The words are OpenAI's."""

    code = "response_not_cancellable"

    def __init__(self, kind: Literal["synchronous", "completed"]) -> None:
        super().__init__(f"Cannot cancel a {kind} response.")
