"""What names of Ollama's clients stand for, where a model is to be downloaded."""

from __future__ import annotations

import re

from llmserve.server.apis.ollama.names import HUB, HUB_SHORT, LATEST, split_tag
from llmserve.server.refusals import FieldError, ModelsFolderError

_HUB = re.compile(rf"{HUB}(?=[^/]+/[^/]+$)|{HUB_SHORT}", re.IGNORECASE)
_LIBRARY = re.compile(r"(?:\w[\w.-]*/)?\w[\w.-]*(?::\w[\w.-]*)?")
"""A name of Ollama's library: `NAME:TAG` or `USER/NAME:TAG`."""


def source_of(name: str, *, may_be_url: bool) -> str:
    """A name as `download.sources.files_of` takes it.

    Raises:
        FieldError: It is one of Ollama's library.
        ModelsFolderError: It is a URL, and the request may not give one.
    """
    if found := _HUB.match(name):
        repository, tag = split_tag(name[found.end() :])
        # A quantization is found in any case, and a file by its exact name.
        exact = name[found.end() + len(repository) + 1 :]
        return f"{HUB_SHORT}{repository}" if tag == LATEST else f"{HUB_SHORT}{repository}:{exact}"
    if name.startswith(("https://", "http://")):
        if not may_be_url:
            raise ModelsFolderError("URLs are taken from requests of the server's own machine only")
        return name
    if not _LIBRARY.fullmatch(name):
        raise FieldError(
            "model",
            f"must name a repository of Hugging Face, such as hf.co/ORG/REPO:Q4_K_M, got {name[:64]!a}",
        )
    repository = name if name.count("/") == 1 else "ORG/REPO"
    raise FieldError(
        "model",
        f"must name a repository of Hugging Face, such as hf.co/{repository}:Q4_K_M; {name[:64]!r} is a name "
        "of Ollama's library, which is not available here",
    )
