"""Wire types of llama-server's slots."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

from llmserve.server.apis.openai.schema import MODEL
from llmserve.server.refusals import FieldError
from llmserve.server.web.field_kinds import read_text
from llmserve.server.web.fields import Field, Kind


def _read_filename(value: Any, name: str) -> str:
    text = read_text(value, name)
    if "/" in text or "\\" in text or text in (".", ".."):
        raise FieldError(name, "must be the name of a file, without a folder")
    return text


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotRequest:
    """What to do a slot's action with."""

    filename: Annotated[
        str | None,
        Field(
            "The file, in `SESSIONS_DIR`, to save to or to restore from.",
            kind=Kind(_read_filename, {"type": "string", "minLength": 1}),
            example="slot0.bin",
        ),
    ] = None
    model: Annotated[str | None, MODEL] = None
