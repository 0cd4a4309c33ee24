"""``llmserve chat``: a conversation in the terminal."""

from __future__ import annotations

import argparse
import os
import sys

HELP = "chat with a model in the terminal"
DESCRIPTION = (
    "Chats with a model, which is loaded into this process or is on a server (--url). /help lists the "
    "commands of the chat."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the model, the system prompt and the sampling parameters."""
    # Imported late: parsers of all commands are built to show what there is.
    from llmserve.cli.talk.opening import add_model_arguments
    from llmserve.cli.talk.sampling import add_sampling_arguments

    parser.add_argument(
        "model",
        nargs="?",
        metavar="MODEL",
        help="GGUF file, or a part of the name of one that was downloaded; with --url, an id of the server "
        "(default: the default model, or the server's first)",
    )
    parser.add_argument("--system", default="", metavar="TEXT", help="system prompt")
    add_sampling_arguments(parser)
    add_model_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    """Chats until the input ends."""
    from llmserve.cli.output import dim
    from llmserve.cli.talk.chat import Chat
    from llmserve.cli.talk.conversation import Conversation
    from llmserve.cli.talk.opening import open_talker
    from llmserve.cli.talk.reading import line_history
    from llmserve.cli.talk.sampling import sampling_of
    from llmserve.server.settings import parse_settings

    sampling = sampling_of(arguments)
    talker = open_talker(arguments)
    try:
        if sys.stdin.isatty():
            sys.stdout.write(dim(f"{talker.name}: /help lists commands, Ctrl-D ends") + "\n")
        with line_history(parse_settings(os.environ).cache_dir / "chat_history"):
            Chat(talker, Conversation(arguments.system), sampling).run()
    finally:
        talker.close()
    return 0
