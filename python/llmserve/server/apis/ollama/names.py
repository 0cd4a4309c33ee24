"""Models as Ollama's clients name them: `name:tag`, `hf.co/ORG/REPO:QUANTIZATION`, in any case."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from llmserve.server.models import Catalogue, CatalogueEntry
from llmserve.server.refusals import NotAModelError, UnknownModelError

LATEST = "latest"

HUB = r"(?:https?://)?(?:hf\.co|huggingface\.co)/"
"""A regular expression: the address of Hugging Face's Hub."""
HUB_SHORT = "hf:"
"""What llmserve's own commands write for it."""

_PREFIX = re.compile(rf"{HUB}|(?:https?://)?registry\.ollama\.ai/|{HUB_SHORT}", re.IGNORECASE)
_QUANTIZATION = re.compile(
    r"[-._]((?:UD-)?(?:I?Q\d\w*|TQ\d_\d|BF16|F16|F32|MXFP4\w*))$",
    re.IGNORECASE,
)


class _Name(NamedTuple):
    """The parts of a name, in lower case."""

    whole: str
    base: str
    """Without the quantization."""
    quantization: str

    @property
    def forms(self) -> tuple[str, ...]:
        """How the model may be called, the most exact form first."""
        return (self.whole, _last(self.whole), self.base, _last(self.base))


def listed(model_id: str) -> str:
    """An id as Ollama lists models: always with a tag."""
    return model_id if ":" in _last(model_id) else f"{model_id}:{LATEST}"


async def find(catalogue: Catalogue, name: str) -> CatalogueEntry:
    """The model of a name.

    Raises:
        UnknownModelError: No model has this name, or several have it.
        NotAModelError: It is that of a file that is only a part of models.
    """
    for candidate in dict.fromkeys((name, name.removesuffix(f":{LATEST}"))):
        try:
            return await catalogue.find(candidate)
        except NotAModelError:
            raise
        except UnknownModelError:
            continue
    entries = {entry.id: entry for entry in await catalogue.entries()}
    if (found := match(name, entries)) is None:
        raise UnknownModelError(name)
    return entries[found]


def match(name: str, ids: Iterable[str]) -> str | None:
    """The only id that a name means, if there is one.

    A tag other than `latest` is a quantization, which must be that of the model.
    """
    name, tag = split_tag(name)
    wanted = _PREFIX.sub("", name, count=1).lower().removeprefix("library/").removesuffix("-gguf")
    every = {model_id: _parts(model_id) for model_id in ids}
    known = {model_id: parts for model_id, parts in every.items() if tag in (LATEST, parts.quantization)}
    for rank in range(4):
        found = [model_id for model_id, parts in known.items() if parts.forms[rank] == wanted]
        if found:
            return found[0] if len(found) == 1 else None
    return None


def split_tag(name: str) -> tuple[str, str]:
    """A name and its tag, which is in lower case."""
    head, slash, last = name.rpartition("/")
    last, _, tag = last.partition(":")
    return f"{head}{slash}{last}", tag.lower() or LATEST


def _parts(model_id: str) -> _Name:
    whole = model_id.lower()
    found = _QUANTIZATION.search(whole)
    if found is None:
        return _Name(whole, whole.removesuffix("-gguf"), "")
    return _Name(whole, whole[: found.start()].removesuffix("-gguf"), found[1])


def _last(name: str) -> str:
    return name.rpartition("/")[2]
