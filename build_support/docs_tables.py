"""Write the tables of settings and fields in `docs` from the server's own (``make tables``).

A table stands between ``<!-- NAME: made by make tables -->`` and ``<!-- end -->``.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import llama_server_tables
from llmserve.cli import commands
from llmserve.cli.parser import build_parser, subparser
from llmserve.server.apis.anthropic.schema import MessagesRequest
from llmserve.server.apis.completions.schema import CompletionRequest
from llmserve.server.apis.llamatik.convert import DEFAULT_SAMPLING
from llmserve.server.apis.llamatik.schema import ParamsRequest
from llmserve.server.apis.ollama.schema import OllamaChatRequest
from llmserve.server.apis.openai.chat_schema import ChatRequest
from llmserve.server.apis.openai.completions_schema import DEFAULT_MAX_TOKENS, OpenAiCompletionRequest
from llmserve.server.apis.openai.constraint_schema import ConstraintFields
from llmserve.server.apis.openai.native_schema import NativeCompletionRequest
from llmserve.server.apis.openai.responses_schema import ResponsesRequest
from llmserve.server.apis.sie.schema import GenerateRequest
from llmserve.server.fields.foreign import FOREIGN, Refused
from llmserve.server.fields.loading import LOADING
from llmserve.server.fields.refused import values
from llmserve.server.fields.sampling import SAMPLING
from llmserve.server.fields.table import Known, Table, snake
from llmserve.server.fields.without_effect import WITHOUT_EFFECT
from llmserve.server.settings.load_options import MODEL_VARIABLES, TEMPLATE_FILE
from llmserve.server.settings.variable import Variable
from llmserve.server.settings.variables import (
    API_KEY_FILE,
    CONFIG_FILE,
    DRAFT_VARIABLES,
    SERVER_VARIABLES,
)
from llmserve.server.web.fields import Property, properties
from toolchain import ROOT

DOCS = ROOT / "docs"


@dataclass(frozen=True)
class Column:
    """A route of a dialect, by the class that its body is read as."""

    title: str
    body: type
    defaults: Mapping[str, Any] = field(default_factory=dict)


LLAMATIK = Column("Llamatik", ParamsRequest, DEFAULT_SAMPLING)
COLUMNS = (
    Column("`/v1/chat/completions`", ChatRequest),
    Column("`/v1/completions`", OpenAiCompletionRequest, {"max_tokens": DEFAULT_MAX_TOKENS}),
    Column("`/v1/responses`", ResponsesRequest),
    Column("`/completion`", NativeCompletionRequest),
    Column("`/v1/messages`", MessagesRequest),
    Column("`/completions`, gRPC", CompletionRequest),
    LLAMATIK,
    Column("SIE", GenerateRequest),
    Column("Ollama", OllamaChatRequest),
)
OPENAI = tuple(column.title for column in COLUMNS[:4])
"""The routes of the OpenAI API that generate texts."""


def meanings(table: Table) -> Iterator[str]:
    """What each field is."""
    yield from _head("field", "default", "range", "meaning")
    for name, known in table.items():
        yield _row(f"`{name}`", _shown(known.default), _range(known), known.field.doc)


def names(table: Table, *columns: Column) -> Iterator[str]:
    """The name and default of each field in each dialect."""
    yield from _head("field", *(column.title for column in columns))
    for name in table:
        yield _row(f"`{name}`", *(_cell(name, column) for column in columns))


def _cell(name: str, column: Column) -> str:
    found = [(wire, prop) for wire, prop in _leaves(column.body, "") if name in prop.engine_names]
    return ", ".join(f"`{wire}`{_default(column.defaults.get(name, prop.default))}" for wire, prop in found)


def foreign(columns: Sequence[Column]) -> Iterator[str]:
    """What becomes of the fields of other servers in each dialect."""
    yield from _head("field", "honoured", "refused", "meaning")
    leaves = [(column.title, wire, prop) for column in columns for wire, prop in _fields(column.body)]
    for name in dict.fromkeys([*(wire for wire, _ in _leaves(ConstraintFields, "")), *FOREIGN]):
        honoured = {
            title: prop.field.doc for title, wire, prop in leaves if name in (wire, snake(_in_options(wire)))
        }
        refused = FOREIGN.get(name)
        # The first route's words.
        docs = [*list(honoured.values())[:1], *([_refusal(refused)] if refused else [])]
        elsewhere = ("elsewhere" if honoured else "everywhere") if refused else ""
        yield _row(f"`{name}`", _titles(list(honoured)), elsewhere, " ".join(docs))
    for name, reason in WITHOUT_EFFECT.items():
        yield _row(f"`{name}`", "", "", f"Without effect: {reason}.")


def _in_options(wire: str) -> str:
    """A field's name without that of the object that has only options."""
    return wire.removeprefix("options.").removeprefix("default_sampling.")


def _refusal(refused: Refused) -> str:
    if not refused.neutral:
        return f"Refused: {refused.reason}."
    return f"Refused unless it is {values(refused)}: {refused.reason}."


def _titles(titles: Sequence[str]) -> str:
    """Routes, in short if they are all of the OpenAI API."""
    rest = [title for title in titles if title not in OPENAI]
    is_whole = set(OPENAI) <= set(titles)
    return ", ".join(dict.fromkeys(["OpenAI", *rest] if is_whole else titles))


def _default(value: Any) -> str:
    shown = _shown(value)
    return "" if shown == "-" else f" {shown}"


def _leaves(cls: Any, where: str) -> Iterator[tuple[str, Property]]:
    for prop in properties(cls):
        if prop.nested_type is None:
            yield where + prop.name, prop
        else:
            yield from _leaves(prop.nested_type, f"{where}{prop.name}.")


def _fields(cls: Any) -> Iterator[tuple[str, Property]]:
    """The leaves, and the objects at the top that have some of them."""
    yield from _leaves(cls, "")
    yield from ((prop.name, prop) for prop in properties(cls) if prop.nested_type is not None)


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int) and value.bit_length() >= 31 and not value & (value + 1):
        return f"2^{value.bit_length()} - 1"
    return f"{value:.15g}" if isinstance(value, int | float) else "-"


def _range(known: Known) -> str:
    low, high = known.field.minimum, known.field.maximum
    if low is None or known.type is None:
        return ""
    if high is None:
        return f"at least {_shown(low)}"
    return f"{_shown(low)} to {_shown(high)}"


def variables(rows: Iterable[Variable]) -> Iterator[str]:
    """Settings: variable, option, kind, default, meaning."""
    yield from _head("variable", "option", "takes", "default", "meaning")
    for v in rows:
        options = ", ".join(f"`{option}`" for option in reversed(v.options))
        yield _row(f"`{v.env}`", options, v.kind.takes, v.default or "-", v.doc)


def options(names: Iterable[str]) -> Iterator[str]:
    """Commands with their arguments and options."""
    parser = build_parser(names)
    for name in names:
        below = subparser(parser, name)
        yield from ("", f"## `llmserve {name}`", "", below.description or "", "")
        yield from _head("argument", "meaning")
        for action in below._actions:
            if not isinstance(action, argparse._HelpAction):
                given = ", ".join(f"`{option}`" for option in action.option_strings)
                value = "" if action.nargs == 0 else f" `{_value(action)}`"
                yield _row(
                    f"{given}{value}".strip(), (action.help or "").replace("%%", "%").replace("|", "\\|")
                )
    yield ""


def _value(action: argparse.Action) -> str:
    choices = ",".join(action.choices or ())
    return str(action.metavar or (f"{{{choices}}}" if choices else action.dest.upper()))


def listed(titles: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """A table of cells that are ready."""
    yield from _head(*titles)
    for row in rows:
        yield _row(*row)


def _head(*titles: str) -> Iterator[str]:
    yield _row(*titles)
    yield _row(*("---" for _ in titles))


def _row(*cells: str) -> str:
    return "| " + " | ".join(cells) + " |"


TABLES: Mapping[str, Mapping[str, Iterable[str]]] = {
    "sampling.md": {
        "meanings": tuple(meanings(SAMPLING)),
        "names": tuple(names(SAMPLING, *COLUMNS)),
        "fields of other servers": tuple(foreign(COLUMNS)),
        "load options": tuple(meanings(LOADING)),
        "names of load options": tuple(names(LOADING, LLAMATIK)),
    },
    "llama-server.md": {
        "routes": tuple(listed(("route", "", "how or why"), llama_server_tables.routes())),
        "fields": tuple(
            listed(("field", "honoured by", "on its other routes"), llama_server_tables.fields())
        ),
    },
    "configuration.md": {
        "server": tuple(variables((CONFIG_FILE, *SERVER_VARIABLES, API_KEY_FILE))),
        "drafting": tuple(variables(DRAFT_VARIABLES)),
        "model": tuple(variables((*MODEL_VARIABLES, TEMPLATE_FILE))),
    },
    "cli-options.md": {
        "options": tuple(options([name for name in commands.NAMES if name != "serve"])),
    },
}


def with_tables(page: str, text: str) -> str:
    """A page's text with its tables as they should be."""
    for name, rows in TABLES[page].items():
        begin, end = f"<!-- {name}: made by make tables -->", "<!-- end -->"
        before, found_begin, rest = text.partition(begin)
        _, found_end, after = rest.partition(end)
        if not (found_begin and found_end):
            sys.exit(f"docs/{page} has no place for the table {name!r}")
        text = before + "\n".join((begin, *rows, end)) + after
    return text


if __name__ == "__main__":
    for page in TABLES:
        path = DOCS / page
        path.write_text(with_tables(page, path.read_text()))
