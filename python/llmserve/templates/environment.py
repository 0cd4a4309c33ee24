"""Jinja as Hugging Face's tokenizers set it up, in a sandbox."""

from __future__ import annotations

import datetime
import functools
import json
from collections.abc import Mapping
from typing import Any, NoReturn

import jinja2
import jinja2.ext
import jinja2.nodes
import jinja2.parser
import jinja2.sandbox

from llmserve.errors import TemplateError
from llmserve.templates.marks import unescape_marks

__all__ = ["render"]


def render(source: str, variables: Mapping[str, Any]) -> str:
    """What a template makes of its variables.

    Raises `TemplateError` with the template's own words where it has some.
    """
    try:
        return _compile(source).render(variables)
    except jinja2.TemplateError as error:
        raise TemplateError(f"the chat template failed: {error}") from error
    # What templates run into on messages that they do not expect.
    except (TypeError, ValueError, KeyError, AttributeError, ArithmeticError, RecursionError) as error:
        raise TemplateError(f"the chat template failed: {type(error).__name__}: {error}") from error


@functools.lru_cache(maxsize=64)
def _compile(source: str) -> jinja2.Template:
    return _environment().from_string(source)


@functools.lru_cache(maxsize=1)
def _environment() -> jinja2.Environment:
    # Prompts are no HTML: nothing is to be escaped.
    environment = jinja2.sandbox.ImmutableSandboxedEnvironment(
        trim_blocks=True,
        lstrip_blocks=True,
        autoescape=False,
        extensions=["jinja2.ext.loopcontrols", _GenerationBlock],
    )
    environment.filters["tojson"] = _to_json
    environment.globals["raise_exception"] = _raise_exception
    environment.globals["strftime_now"] = _strftime_now
    return environment


class _GenerationBlock(jinja2.ext.Extension):
    """`{% generation %}` marks the assistant's words for training; here it does nothing."""

    tags = {"generation"}  # noqa: RUF012 - jinja2 declares it so

    def parse(self, parser: jinja2.parser.Parser) -> jinja2.nodes.Node:
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return jinja2.nodes.Scope(body, lineno=line)


def _to_json(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    text = json.dumps(
        value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys
    )
    return unescape_marks(text) if ensure_ascii else text


def _raise_exception(message: str) -> NoReturn:
    raise jinja2.TemplateError(message)


def _strftime_now(pattern: str) -> str:
    """The date and time of this machine's clock, in its time zone."""
    return datetime.datetime.now().astimezone().strftime(pattern)
