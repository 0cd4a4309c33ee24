"""Switches drafting on for a model that has been loaded, as the settings say."""

from __future__ import annotations

import logging

from llmserve.engine import Engine
from llmserve.errors import GenerationError, NoDraftHeadError
from llmserve.server.settings import DraftSettings

logger = logging.getLogger(__name__)


async def start_drafting(engine: Engine, settings: DraftSettings, model_id: str) -> None:
    """Makes drafting the engine's default. A model that cannot draft is served without; the log says so.

    ``auto`` asks only for what the model can do.

    Raises:
        EngineClosedError: The engine was closed meanwhile.
        EngineDeadError: The engine's thread has ended.
    """
    wanted = settings.draft
    if wanted == "off" or (wanted == "auto" and not engine.info.has_draft_head):
        return
    options = settings.draft_len, settings.draft_adaptive
    try:
        if wanted == "prompt_lookup":
            await engine.enable_prompt_lookup(*options)
        else:
            await engine.enable_mtp(*options)
    except (NoDraftHeadError, GenerationError) as error:
        logger.warning("model %s is served without drafting: %s", model_id, error)
