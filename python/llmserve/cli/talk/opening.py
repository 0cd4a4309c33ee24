"""Which model a command talks to, by its arguments."""

from __future__ import annotations

import argparse
import os
from typing import cast

from llmserve.cli.client import add_server_arguments, client_of
from llmserve.cli.downloads import fetch_default
from llmserve.cli.errors import UsageError
from llmserve.cli.model_names import find_model
from llmserve.cli.setting_options import add_setting, given_settings
from llmserve.cli.talk.talker import Talker
from llmserve.server.settings import parse_settings

_SETTINGS = ("context_length", "threads", "gpu_layers", "kv_type_k", "kv_type_v")


def add_model_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares how a model is loaded, or where the server is that has it."""
    group = parser.add_argument_group(
        "model in this process (further settings by the environment, as for serve)"
    )
    for name in _SETTINGS:
        add_setting(group, name)
    add_server_arguments(parser.add_argument_group("model on a server"))


def open_talker(arguments: argparse.Namespace) -> Talker:
    """The model on the server that is named, or else in this process: the named one, or the default.

    Raises:
        CommandError: There is no such model or server.
        LoadError: The model cannot be loaded.
    """
    given = given_settings(arguments, _SETTINGS)
    # Imported late: each needs what the other does not.
    if arguments.url is not None:
        from llmserve.cli.talk.remote import RemoteTalker

        if given:
            option = next(iter(given)).replace("_", "-")
            raise UsageError(f"--{option} is for models in this process, and --url names a server")
        return RemoteTalker(client_of(arguments), arguments.model)
    from llmserve.cli.talk.local import LocalTalker

    if arguments.api_key is not None:
        raise UsageError("--api-key is for a server, which --url names")
    settings = parse_settings(os.environ, given)
    name = arguments.model or settings.model
    path = fetch_default(settings) if name is None else find_model(name, settings)
    return cast("Talker", LocalTalker(path, settings.model_config))
