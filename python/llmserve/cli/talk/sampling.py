"""Sampling parameters on the command line and in a chat."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from llmserve.cli.errors import UsageError
from llmserve.errors import InvalidParameterError
from llmserve.sampling_params import SamplingParams
from llmserve.server.attribute_docs import docs_of

PARAMETERS: Mapping[str, Callable[[str], int | float]] = MappingProxyType(
    {
        "max_tokens": int,
        "temperature": float,
        "top_k": int,
        "top_p": float,
        "min_p": float,
        "repetition_penalty": float,
        "frequency_penalty": float,
        "presence_penalty": float,
        "seed": int,
    }
)
"""Those that have one number, by the names of `SamplingParams`."""

_ALIASES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {"max_tokens": ("-n", "--n-predict"), "temperature": ("--temp",), "seed": ("-s",)}
)

_DOCS: Mapping[str, str] = MappingProxyType(
    {
        "max_tokens": "Maximum number of tokens to generate. By default as many as the context holds.",
        "seed": "Seed of the draws: the same one gives the same answer. By default it is random.",
    }
)
"""Where the Python API's description is about Python."""


def add_sampling_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares an option for each parameter."""
    group = parser.add_argument_group("sampling")
    docs = {**docs_of(SamplingParams), **_DOCS}
    for name, kind in PARAMETERS.items():
        group.add_argument(
            f"--{name.replace('_', '-')}",
            *_ALIASES.get(name, ()),
            type=kind,
            dest=name,
            metavar="N" if kind is int else "NUMBER",
            help=docs[name].replace("%", "%%"),
        )
    group.add_argument(
        "--stop", action="append", metavar="TEXT", help="a text that ends the answer; may be repeated"
    )


def sampling_of(arguments: argparse.Namespace) -> dict[str, Any]:
    """The parameters that were given.

    Raises:
        UsageError: One is out of range.
    """
    names = (*PARAMETERS, "stop")
    given = {name: value for name in names if (value := getattr(arguments, name)) is not None}
    try:
        SamplingParams(**given)
    except InvalidParameterError as error:
        raise UsageError(f"--{error.field.replace('_', '-')} {error.reason}") from None
    return given


def parsed(name: str, text: str) -> int | float:
    """The value of a parameter.

    Raises:
        UsageError: There is no such parameter, or its value is not a number.
        InvalidParameterError: It is out of range.
    """
    name = name.replace("-", "_")
    if name not in PARAMETERS:
        raise UsageError(f"there is no parameter {name}", ", ".join(PARAMETERS))
    try:
        value = PARAMETERS[name](text)
    except ValueError:
        kind = "a whole number" if PARAMETERS[name] is int else "a number"
        raise UsageError(f"{name} must be {kind}, got {text!r}") from None
    named: dict[str, Any] = {name: value}
    SamplingParams(**named)
    return value
