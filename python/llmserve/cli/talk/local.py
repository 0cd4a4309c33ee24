"""A model in this process."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from llmserve.cli.talk.talker import Message, Reply, Show
from llmserve.engine import SyncEngine
from llmserve.model_config import ModelConfig
from llmserve.sampling_params import SamplingParams
from llmserve.server.download.progress import ProgressLine
from llmserve.stream import SyncStream

_DEFAULT_SAMPLING: Mapping[str, Any] = {"temperature": 0.7, "top_p": 0.95}
"""What talks well with most models; the Python API's own default is greedy."""


class LocalTalker:
    """A loaded model."""

    def __init__(self, path: Path, config: ModelConfig) -> None:
        """Loads the model, with its progress on standard error.

        Raises:
            LoadError: It cannot be loaded.
        """
        self.name = path.stem
        with ProgressLine(f"loading {path.name}", sys.stderr) as line:
            try:
                # One conversation at a time: more would only take memory.
                self._engine = SyncEngine.load(
                    path,
                    replace(config, max_sequences=1),
                    on_progress=line.show if sys.stderr.isatty() else None,
                )
            finally:
                line.erase()

    def reply(self, messages: Sequence[Message], sampling: Mapping[str, Any], show: Show) -> Reply:
        """The assistant's answer to messages."""
        return _shown(self._engine.chat_stream(messages, _params(sampling)), show)

    def complete(self, prompt: str, sampling: Mapping[str, Any], show: Show) -> Reply:
        """What follows a text, in which control tokens are control tokens."""
        return _shown(self._engine.stream(prompt, _params(sampling)), show)

    def close(self) -> None:
        """Frees the model's memory."""
        self._engine.close()


def _params(sampling: Mapping[str, Any]) -> SamplingParams:
    return SamplingParams(**{**_DEFAULT_SAMPLING, **sampling})


def _shown(stream: SyncStream, show: Show) -> Reply:
    # Leaving the stream, as by Ctrl-C, ends the request.
    with stream:
        for delta in stream:
            show(delta.text)
        completion = stream.result()
    return Reply(
        text=completion.text,
        finish_reason=completion.finish_reason,
        prompt_tokens=completion.usage.prompt_tokens,
        completion_tokens=completion.usage.completion_tokens,
    )
