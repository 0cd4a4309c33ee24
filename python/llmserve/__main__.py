"""``python -m llmserve`` is ``llmserve``."""

import sys

from llmserve.server.cli import main

sys.exit(main())
