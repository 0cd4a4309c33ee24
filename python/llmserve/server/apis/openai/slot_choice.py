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
    check_slot(fields.id_slot, info.num_slots)
    return slot_session(fields.id_slot)


def check_slot(number: int, num_slots: int) -> None:
    """Refuses the number of a slot that a model does not have.

    Raises:
        FieldError: It does not have it.
    """
    if number >= num_slots:
        last = num_slots - 1
        raise FieldError("id_slot", f"must be at most {last}, got {number}", limit=last)
