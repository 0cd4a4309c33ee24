"""``llmserve run``: one answer of a model."""

from __future__ import annotations

import argparse
import dataclasses
import sys

HELP = "print a model's answer to a prompt"
DESCRIPTION = (
    "Prints a model's answer as it is generated, and ends. The prompt is the argument, or standard input, or "
    "both: the input follows the argument. Without either, in a terminal, it is a chat."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the model, the prompt and the sampling parameters."""
    # Imported late: parsers of all commands are built to show what there is.
    from llmserve.cli.talk.opening import add_model_arguments
    from llmserve.cli.talk.sampling import add_sampling_arguments

    parser.add_argument(
        "model",
        metavar="MODEL",
        help="GGUF file, or a part of the name of one that was downloaded; with --url, an id of the server",
    )
    parser.add_argument("prompt", nargs="?", metavar="PROMPT", help="what to answer")
    parser.add_argument("--system", default="", metavar="TEXT", help="system prompt")
    parser.add_argument(
        "--raw", action="store_true", help="continue the prompt as it is, without the chat template"
    )
    parser.add_argument(
        "--json", action="store_true", help="print one JSON object at the end: text, reason and token counts"
    )
    add_sampling_arguments(parser)
    add_model_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    """Prints the answer."""
    from llmserve.cli.commands import chat
    from llmserve.cli.errors import UsageError
    from llmserve.cli.output import print_json
    from llmserve.cli.talk.conversation import Conversation
    from llmserve.cli.talk.opening import open_talker
    from llmserve.cli.talk.sampling import sampling_of

    if arguments.raw and arguments.system:
        raise UsageError("--raw continues the prompt as it is: there is no --system")
    prompt = _prompt(arguments.prompt)
    if prompt is None:
        return chat.run(arguments)
    if not prompt:
        raise UsageError("the prompt is empty", "give it as an argument or on standard input")
    sampling = sampling_of(arguments)
    show = (lambda text: None) if arguments.json else _show
    talker = open_talker(arguments)
    try:
        if arguments.raw:
            reply = talker.complete(prompt, sampling, show)
        else:
            conversation = Conversation(arguments.system)
            conversation.ask(prompt)
            reply = talker.reply(conversation.messages, sampling, show)
    except KeyboardInterrupt:
        # The shell's prompt begins a line.
        show("\n")
        raise
    finally:
        talker.close()
    show("\n")
    if arguments.json:
        print_json({"model": talker.name, **dataclasses.asdict(reply)})
    return 0


def _prompt(given: str | None) -> str | None:
    """The argument and what is on standard input; ``None`` if there is neither."""
    if sys.stdin is None or sys.stdin.isatty():
        return given
    texts = [given, sys.stdin.read().strip()]
    return "\n\n".join(text for text in texts if text)


def _show(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()
