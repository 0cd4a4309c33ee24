"""The server's settings: a TOML file, overridden by the environment (``LLMSERVE_*``) and the command line."""

from llmserve.server.settings.drafting import DraftSettings
from llmserve.server.settings.error import SettingsError
from llmserve.server.settings.loading import Settings, parse_settings
from llmserve.server.settings.variable import GROUPS, Group, Variable
from llmserve.server.settings.variables import VARIABLES

__all__ = [
    "GROUPS",
    "VARIABLES",
    "DraftSettings",
    "Group",
    "Settings",
    "SettingsError",
    "Variable",
    "parse_settings",
]
