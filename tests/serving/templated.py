"""Models with other chat templates than their own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def write_with_template(model: Path, template: str, path: Path) -> None:
    """Writes a copy of a GGUF file with another chat template."""
    if template.startswith("["):
        # The script would take it for JSON.
        template = f"{{# #}}{template}"
    command = [sys.executable, "-m", "gguf.scripts.gguf_new_metadata", "--force"]
    subprocess.run(
        [*command, "--chat-template", template, str(model), str(path)], check=True, capture_output=True
    )
