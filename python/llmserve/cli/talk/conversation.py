"""A conversation: its system prompt, its messages, and the file that it can be kept in."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from llmserve.cli.errors import CommandError
from llmserve.cli.talk.talker import Message

_ROLES = ("user", "assistant")


class Conversation:
    """Messages of a user and an assistant, in turns."""

    def __init__(self, system: str = "") -> None:
        self.system = system
        self._turns: list[Message] = []

    @property
    def messages(self) -> list[Message]:
        """All messages, with the system prompt first if there is one."""
        begin: list[Message] = [{"role": "system", "content": self.system}] if self.system else []
        return [*begin, *self._turns]

    def ask(self, text: str) -> None:
        """Adds what the user says."""
        self._turns.append({"role": "user", "content": text})

    def answer(self, text: str) -> None:
        """Adds what the assistant says; where that is nothing, the question is taken back."""
        if text:
            self._turns.append({"role": "assistant", "content": text})
        else:
            self._turns.pop()

    def take_answer_back(self) -> bool:
        """Removes the last answer, so that its question is the last message; false if there is none."""
        if not self._turns or self._turns[-1]["role"] != "assistant":
            return False
        self._turns.pop()
        return True

    def clear(self) -> None:
        """Removes all messages but the system prompt."""
        self._turns.clear()

    def save(self, path: Path) -> None:
        """Writes the messages as OpenAI's API takes them.

        Raises:
            CommandError: The file cannot be written.
        """
        text = json.dumps({"messages": self.messages}, indent=2, ensure_ascii=False)
        try:
            path.write_text(f"{text}\n", "utf-8")
        except OSError as error:
            raise CommandError(f"{path} cannot be written: {error.strerror or error}") from None

    def load(self, path: Path) -> None:
        """Replaces the conversation with that of a file, or leaves it as it is.

        Raises:
            CommandError: The file cannot be read, or contains something else.
        """
        try:
            read = json.loads(path.read_text("utf-8"))
        except OSError as error:
            raise CommandError(f"{path} cannot be read: {error.strerror or error}") from None
        except ValueError:
            read = None
        messages = read.get("messages") if isinstance(read, dict) else None
        if not isinstance(messages, list) or not all(map(_is_message, messages)):
            raise CommandError(f"{path} is not a saved conversation")
        is_system = bool(messages) and messages[0]["role"] == "system"
        turns = messages[1:] if is_system else messages
        if any(message["role"] not in _ROLES for message in turns):
            raise CommandError(f"{path} has messages of others than user and assistant")
        self.system = messages[0]["content"] if is_system else ""
        self._turns = turns

    @property
    def num_turns(self) -> int:
        """How many messages there are, without the system prompt."""
        return len(self._turns)


def _is_message(value: Any) -> bool:
    return (
        isinstance(value, dict)
        and isinstance(value.get("role"), str)
        and isinstance(value.get("content"), str)
    )
