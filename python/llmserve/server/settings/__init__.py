"""The server's settings: the environment (``LLMSERVE_*``), overridden by the command line."""

from llmserve.server.settings.drafting import DraftSettings
from llmserve.server.settings.loading import Settings, SettingsError, parse_settings
from llmserve.server.settings.variable import Variable
from llmserve.server.settings.variables import VARIABLES

__all__ = ["VARIABLES", "DraftSettings", "Settings", "SettingsError", "Variable", "parse_settings"]
