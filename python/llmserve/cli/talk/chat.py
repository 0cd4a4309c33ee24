"""A chat in the terminal: what is typed is asked, and lines that begin with a slash are commands."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from llmserve.cli.errors import CommandError, UsageError
from llmserve.cli.output import dim
from llmserve.cli.talk.conversation import Conversation
from llmserve.cli.talk.reading import read_text
from llmserve.cli.talk.sampling import parsed
from llmserve.cli.talk.talker import Talker
from llmserve.errors import LlmserveError
from llmserve.server.spelling import did_you_mean

_HELP = (
    ("/help", "this list"),
    ("/system [TEXT]", "show or change the system prompt"),
    ("/clear", "forget the conversation, but for the system prompt"),
    ("/regenerate", "answer the last question again"),
    ("/save FILE", "write the conversation to a file (JSON)"),
    ("/load FILE", "go on with the conversation of a file"),
    ("/set [NAME VALUE]", "show or change sampling parameters; without a value: the default"),
    ("/quit", "end, as Ctrl-D does"),
)
_TEXTS = '"""several lines""" or a backslash at the end of a line; Ctrl-C stops an answer'


class Chat:
    """Asks a model what is typed, until the input ends."""

    def __init__(self, talker: Talker, conversation: Conversation, sampling: dict[str, Any]) -> None:
        self._talker = talker
        self._conversation = conversation
        self._sampling = sampling
        self._is_over = False
        self._commands: Mapping[str, Callable[[str], None]] = {
            "/help": self._help,
            "/?": self._help,
            "/system": self._system,
            "/clear": self._clear,
            "/regenerate": self._regenerate,
            "/save": self._save,
            "/load": self._load,
            "/set": self._set,
            "/quit": self._quit,
            "/exit": self._quit,
            "/bye": self._quit,
        }

    def run(self) -> None:
        """Talks until `/quit` or the end of the input."""
        while not self._is_over:
            try:
                text = read_text(">>> ", "... ")
            except KeyboardInterrupt:
                self._tell("(/quit or Ctrl-D ends)", line_before=True)
                continue
            if text is None:
                break
            try:
                self._take(text)
            except (CommandError, LlmserveError) as error:
                sys.stderr.write(f"{error}\n")

    def _take(self, text: str) -> None:
        if text.startswith("/"):
            name, _, rest = text.partition(" ")
            if (command := self._commands.get(name)) is None:
                raise UsageError(f"there is no command {name}", did_you_mean(name, self._commands) or "/help")
            command(rest.strip())
        elif text:
            self._conversation.ask(text)
            self._answer()

    def _answer(self) -> None:
        texts: list[str] = []

        def show(text: str) -> None:
            texts.append(text)
            sys.stdout.write(text)
            sys.stdout.flush()

        try:
            reply = self._talker.reply(self._conversation.messages, self._sampling, show)
            end = "" if reply.finish_reason == "stop" else f" ({reply.finish_reason})"
        except KeyboardInterrupt:
            end = " (stopped)"
        finally:
            # What was said before a fault was said.
            self._conversation.answer("".join(texts))
        sys.stdout.write(f"{dim(end)}\n")
        sys.stdout.flush()

    def _help(self, _: str) -> None:
        width = max(len(name) for name, _ in _HELP)
        for name, text in _HELP:
            self._tell(f"{name.ljust(width)}  {text}")
        self._tell(_TEXTS)

    def _system(self, text: str) -> None:
        if text:
            self._conversation.system = text
        else:
            self._tell(self._conversation.system or "(no system prompt)")

    def _clear(self, _: str) -> None:
        self._conversation.clear()

    def _regenerate(self, _: str) -> None:
        if not self._conversation.take_answer_back():
            raise CommandError("there is no answer yet")
        self._answer()

    def _save(self, text: str) -> None:
        path = _path(text, "/save")
        self._conversation.save(path)
        self._tell(f"saved to {path}")

    def _load(self, text: str) -> None:
        path = _path(text, "/load")
        self._conversation.load(path)
        self._tell(f"{self._conversation.num_turns} messages")

    def _set(self, text: str) -> None:
        name, _, value = text.partition(" ")
        if value:
            self._sampling[name.replace("-", "_")] = parsed(name, value.strip())
        elif name:
            self._sampling.pop(name.replace("-", "_"), None)
        else:
            shown = ", ".join(f"{name} {value}" for name, value in self._sampling.items())
            self._tell(shown or "(the defaults)")

    def _quit(self, _: str) -> None:
        self._is_over = True

    def _tell(self, text: str, *, line_before: bool = False) -> None:
        sys.stdout.write(("\n" if line_before else "") + dim(text) + "\n")
        sys.stdout.flush()


def _path(text: str, command: str) -> Path:
    if not text:
        raise UsageError(f"{command} needs the name of a file")
    return Path(text).expanduser()
