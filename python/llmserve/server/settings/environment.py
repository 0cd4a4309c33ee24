"""Which variables of the environment are the server's settings."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from llmserve.server.spelling import closest

PREFIX = "LLMSERVE_"

# Read by the project's build and tests, not settings of the server.
_FOREIGN = ("LLMSERVE_CARGO_FEATURES", "LLMSERVE_PEER_DIR", "LLMSERVE_SYNTHETIC_DIR", "LLMSERVE_TEST_")

# What Kubernetes sets in every pod of a namespace with a Service called `llmserve` or `llmserve-...`.
_SERVICE_LINK = re.compile(
    r"LLMSERVE(_[A-Z0-9_]+)?_(SERVICE_HOST|SERVICE_PORT(_[A-Z0-9_]+)?|PORT_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)"
)
_SERVICE_ADDRESS = re.compile(r"(tcp|udp|sctp)://")

_CLOSE = 0.8
"""A name this similar to a setting's name (difflib's ratio) counts as a misspelling of it."""
_NUM_SHOWN = 3


@dataclass(frozen=True, slots=True)
class Notice:
    """A remark about the environment for the log."""

    level: int
    text: str


@dataclass(frozen=True, slots=True)
class Environment:
    """The variables without those set by Kubernetes, and what was found among the others."""

    variables: Mapping[str, str]
    misspelt: Mapping[str, str]
    """Unknown names -> the settings that they resemble."""
    notices: tuple[Notice, ...]


def sort_out(environ: Mapping[str, str], known: Iterable[str]) -> Environment:
    """Separates settings from variables that only look like settings. ``known`` are the settings' names."""
    links = sorted(name for name, value in environ.items() if _is_service_link(name, value))
    variables = {name: value for name, value in environ.items() if name not in links}
    strangers = sorted(variables.keys() - set(known))
    candidates = {name.removeprefix(PREFIX): name for name in known}
    misspelt: dict[str, str] = {}
    notices = [Notice(logging.INFO, _links_text(links))] if links else []
    for name in strangers:
        if not name.startswith(PREFIX) or name.startswith(_FOREIGN):
            continue
        if (meant := closest(name.removeprefix(PREFIX), candidates, _CLOSE)) is not None:
            misspelt[name] = candidates[meant]
        else:
            notices.append(Notice(logging.WARNING, f"{name} is not a setting of llmserve and has no effect"))
    return Environment(variables, misspelt, tuple(notices))


def _is_service_link(name: str, value: str) -> bool:
    if _SERVICE_LINK.fullmatch(name):
        return True
    return name.startswith(PREFIX) and name.endswith("_PORT") and _SERVICE_ADDRESS.match(value) is not None


def _links_text(names: list[str]) -> str:
    shown = ", ".join(names[:_NUM_SHOWN])
    rest = f" and {len(names) - _NUM_SHOWN} more" if len(names) > _NUM_SHOWN else ""
    return (
        f"ignoring variables that Kubernetes sets for Services: {shown}{rest}; "
        "set enableServiceLinks: false in the pod's spec to avoid them"
    )
