"""llama-server's `id_slot`: the named session that stands for a slot."""

from __future__ import annotations

from llmserve.server.apis.openai.schema import SlotFields
from llmserve.server.refusals import FieldError
from llmserve.server.web.session_names import slot_session
from llmserve.types import ModelInfo


def session_of_slot(
    fields: SlotFields, info: ModelInfo, session: str | None, num_texts: int = 1
) -> str | None:
    """The session of the slot that a request names, if it names one and asks for one text.

    Raises:
        FieldError: There is no such slot, or the request names a session, too.
    """
    if fields.id_slot < 0 or num_texts > 1:
        return None
    if session is not None:
        raise FieldError("id_slot", "cannot be used with a session: choose one")
    return slot_session(check_slot(fields.id_slot, info))


def check_slot(number: int, info: ModelInfo, given: str | None = None) -> int:
    """The number of a slot; `given` is how the request has it.

    Raises:
        FieldError: There is no such slot.
    """
    last = info.num_slots - 1
    if not 0 <= number <= last:
        raise FieldError("id_slot", f"must be from 0 to {last}, got {given or number}", limit=last)
    return number
