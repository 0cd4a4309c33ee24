"""Jinja as Hugging Face's tokenizers set it up, in a sandbox."""

from __future__ import annotations

import datetime
import functools
import json
from collections.abc import Mapping
from typing import Any, NoReturn

import jinja2
import jinja2.exceptions
import jinja2.ext
import jinja2.meta
import jinja2.nodes
import jinja2.parser
import jinja2.utils

from llmserve.errors import InvalidParameterError, TemplateError
from llmserve.templates.limits import weight, within_limits
from llmserve.templates.marks import unescape_marks
from llmserve.templates.sandbox import BoundedEnvironment, BoundedTokens

__all__ = ["check", "now", "render", "variables_of"]

MAX_SOURCE_CHARACTERS = 256_000
"""Maximum length of a template; the longest public ones have about 20,000 characters."""
MAX_MESSAGE_CHARACTERS = 1000
"""Maximum length of a template's own error."""


def render(source: str, variables: Mapping[str, Any]) -> str:
    """What a template makes of its variables.

    Raises `TemplateError` with the template's own words if it has any.
    """
    _check_length(source)
    try:
        data = _plain(variables)
    except RecursionError:
        raise InvalidParameterError("nested too deeply", field="messages") from None
    with within_limits():
        compiled = _compiled(source)
        try:
            return compiled.render(data)
        # Whatever a template raises on messages that it does not expect is its failure.
        except Exception as error:
            raise _failure(_reason(error)) from error


def check(source: str) -> None:
    """Raises `TemplateError` for a template that is too long, or that has a mistake in its syntax."""
    _check_length(source)
    with within_limits():
        _compiled(source)


def variables_of(source: str) -> frozenset[str]:
    """The variables that a template reads. Raises what `check` raises."""
    check(source)
    with within_limits():
        return frozenset(jinja2.meta.find_undeclared_variables(_environment().parse(source)))


def _check_length(source: str) -> None:
    if len(source) > MAX_SOURCE_CHARACTERS:
        limit = f"{MAX_SOURCE_CHARACTERS} characters, it has {len(source)}"
        raise TemplateError(f"the chat template is too long: at most {limit}")


def _compiled(source: str) -> jinja2.Template:
    compiled = _compile(source)
    if isinstance(compiled, str):
        raise _failure(compiled)
    return compiled


def _reason(error: Exception) -> str:
    return str(error) if isinstance(error, jinja2.TemplateError) else f"{type(error).__name__}: {error}"


def _failure(message: str) -> TemplateError:
    shown = message if len(message) <= MAX_MESSAGE_CHARACTERS else f"{message[:MAX_MESSAGE_CHARACTERS]}..."
    return TemplateError(f"the chat template failed: {shown}")


@functools.lru_cache(maxsize=64)
def _compile(source: str) -> jinja2.Template | str:
    """The template, or why there is none: dozens of conversations are tried with each source."""
    try:
        return _environment().from_string(source)
    except Exception as error:
        return _reason(error)


@functools.lru_cache(maxsize=1)
def _environment() -> jinja2.Environment:
    # Prompts are not HTML: nothing is to be escaped.
    environment = BoundedEnvironment(
        trim_blocks=True,
        lstrip_blocks=True,
        autoescape=False,
        extensions=["jinja2.ext.loopcontrols", _GenerationBlock, BoundedTokens],
    )
    environment.add_filter("tojson", _to_json, _json_size)
    environment.globals["raise_exception"] = _raise_exception
    environment.globals["strftime_now"] = _strftime_now
    environment.globals["namespace"] = _Namespace
    environment.globals["dict"] = _make_dict
    return environment


class _Namespace(jinja2.utils.Namespace):
    """Jinja's `namespace`, without the names by which Python's own things are reached."""

    def __init__(*args: Any, **kwargs: Any) -> None:
        # A template may use any keyword, `self` too.
        jinja2.utils.Namespace.__init__(args[0])
        for name, value in dict(*args[1:], **kwargs).items():
            args[0][name] = value

    def __setitem__(self, name: str, value: Any) -> None:
        if name.startswith("_"):
            raise jinja2.exceptions.SecurityError(f"a namespace does not accept a name like {name!r}")
        super().__setitem__(name, value)


def _make_dict(*args: Any, **kwargs: Any) -> dict[Any, Any]:
    """Jinja's `dict`, without the class's other methods."""
    return dict(*args, **kwargs)


def _plain(value: Any) -> Any:
    """Data of the caller's as plain types: a template must not reach methods of anything else."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, Mapping):
        return {_plain(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    for kind in (str, int, float):
        if isinstance(value, kind):
            return value if type(value) is kind else kind(value)
    kind_of_value = type(value).__name__
    raise InvalidParameterError(
        f"a template accepts text, numbers, lists and mappings, not {kind_of_value}", field="messages"
    )


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
    encoder = json.JSONEncoder(
        ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys
    )
    # Each line repeats an indent, so the pieces are counted as they come.
    text = encoder.encode(value) if indent is None else BoundedEnvironment.concat(encoder.iterencode(value))
    return unescape_marks(text) if ensure_ascii else text


def _json_size(value: Any, *_: Any, separators: Any = None, **__: Any) -> int:
    """Characters of the JSON text, as if nothing had to be escaped, without indents."""
    return weight(value) * (1 + sum(map(len, separators or ())))


def _raise_exception(message: str) -> NoReturn:
    raise jinja2.TemplateError(message)


def _strftime_now(pattern: str) -> str:
    return now().strftime(pattern)


def now() -> datetime.datetime:
    """The time that templates get: this machine's clock, in its time zone."""
    return datetime.datetime.now().astimezone()
