"""llmserve in Ray Serve: ``serve run llmserve.ray:app model=/models/model.gguf replicas=2``.

The arguments are the server's settings, by the names that they have in its file of settings, and the counts
of `llmserve.ray.plan`. ``config=FILE`` reads such a file, ``catalogue=FILE`` one of models.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ray.serve import Application


def app(args: Mapping[str, Any]) -> Application:
    """The application for the arguments of ``serve run``.

    Raises:
        SettingsError: An argument is unknown or wrong.
    """
    # Imported late: what is beside it needs no Ray.
    from llmserve.ray.deployment import application
    from llmserve.ray.plan import plan_of

    return application(plan_of(os.environ, args, Path.cwd()))
