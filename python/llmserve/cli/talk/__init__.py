"""Talking to a model in a terminal: in this process, or on a server."""

from llmserve.cli.talk.talker import Reply, Talker

__all__ = ["Reply", "Talker"]
