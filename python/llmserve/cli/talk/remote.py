"""A model on a server that speaks OpenAI's API."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from llmserve.cli.client import Client
from llmserve.cli.errors import CommandError
from llmserve.cli.talk.talker import Message, Reply, Show


class RemoteTalker:
    """One model of a server: the named one, or the first that the server lists."""

    def __init__(self, client: Client, model: str | None) -> None:
        """Asks for the model's name if none is given.

        Raises:
            CommandError: The server does not answer, or has no models.
        """
        self._client = client
        self.name = model or _first_model(client)

    def reply(self, messages: Sequence[Message], sampling: Mapping[str, Any], show: Show) -> Reply:
        """The assistant's answer to messages."""
        body = {"messages": list(messages), **sampling}
        return self._shown(
            "/v1/chat/completions", body, lambda choice: (choice.get("delta") or {}).get("content"), show
        )

    def complete(self, prompt: str, sampling: Mapping[str, Any], show: Show) -> Reply:
        """What follows a text."""
        body = {"prompt": prompt, **sampling}
        return self._shown("/v1/completions", body, lambda choice: choice.get("text"), show)

    def close(self) -> None:
        """There is nothing to free."""

    def _shown(
        self, path: str, body: Mapping[str, Any], text_of: Callable[[Any], str | None], show: Show
    ) -> Reply:
        options = {"model": self.name, "stream": True, "stream_options": {"include_usage": True}}
        texts: list[str] = []
        finish_reason = ""
        usage: Mapping[str, int] = {}
        for event in self._client.stream(path, {**options, **body}):
            usage = event.get("usage") or usage
            for choice in event.get("choices") or ():
                finish_reason = choice.get("finish_reason") or finish_reason
                if text := text_of(choice):
                    texts.append(text)
                    show(text)
        return Reply(
            text="".join(texts),
            finish_reason=finish_reason,
            prompt_tokens=usage.get("prompt_tokens", 0),
            completion_tokens=usage.get("completion_tokens", 0),
        )


def _first_model(client: Client) -> str:
    models = client.get_json("/v1/models").get("data") or ()
    if not models:
        raise CommandError(f"{client.url} has no models", "name one that the server can load")
    return str(models[0]["id"])
