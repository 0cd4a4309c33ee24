"""Jinja's sandbox with limits on what a template may compute (`limits`)."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import jinja2
import jinja2.ext
import jinja2.lexer
import jinja2.nodes
import jinja2.sandbox
import jinja2.visitor
from jinja2.runtime import Context

from llmserve.templates import growth
from llmserve.templates.limits import (
    CONTAINERS,
    MAX_CHARACTERS,
    MAX_NODES,
    MAX_TOKENS,
    budget,
    limited,
    weight,
)
from llmserve.templates.marks import unescape_marks

__all__ = ["BoundedEnvironment", "BoundedTokens"]

# No chat template has a use for these, and their time is hard to bound.
_LEFT_OUT_FILTERS = ("pprint", "urlize", "wordwrap")
_LEFT_OUT_GLOBALS = ("lipsum",)
_MAX_COLUMNS = 100_000
_MAX_DIGITS = 100


class BoundedEnvironment(jinja2.sandbox.ImmutableSandboxedEnvironment):
    """Renders within the budget of `limits.within_limits`."""

    intercepted_binops = frozenset(("+", "-", "*", "/", "//", "%", "**"))

    def __init__(self, **options: Any) -> None:
        super().__init__(finalize=_text, **options)
        for name in _LEFT_OUT_FILTERS:
            del self.filters[name]
        for name in _LEFT_OUT_GLOBALS:
            del self.globals[name]
        for name, function in self.filters.items():
            self.filters[name] = _counted(_GUARDS.get(name, _no_guard), function)
        self.filters["string"] = _counted(_no_guard, _text)
        self.filters.update(_llmserve_step=_step, _llmserve_checked=_checked, _llmserve_joined=_joined)

    @staticmethod
    def concat(parts: Iterable[str]) -> str:
        """Joins what a template, macro or block wrote."""
        return _join(parts)

    def add_filter(self, name: str, function: Callable[..., Any], guard: Callable[..., int]) -> None:
        """Adds a filter whose results have at most as many characters as `guard` says."""
        self.filters[name] = _counted(guard, function)

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        """An operator, after a check of what it would make."""
        budget().spend(growth.binary(operator, left, right))
        return super().call_binop(context, operator, left, right)

    def call(__self, __context: Context, __obj: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: N805
        """A call, after a check of what it would make. Its parameters' names leave all others to `kwargs`."""
        budget().step()
        method = getattr(__obj, "__wrapped__", __obj)
        owner = getattr(method, "__self__", None)
        if isinstance(owner, str | bytes | int):
            if getattr(method, "__name__", "") == "join" and args and not isinstance(args[0], list | tuple):
                args = (list(args[0]), *args[1:])
            guard = growth.METHODS.get(getattr(method, "__name__", ""), _same_size)
            budget().spend(_estimate(guard, owner, *args, **kwargs))
            return super().call(__context, __obj, *args, **kwargs)
        if _holds_several((*args, *kwargs.values())):
            weight(*args, *kwargs.values())
        return _spent(super().call(__context, __obj, *args, **kwargs))

    def _generate(
        self, source: jinja2.nodes.Template, name: str | None, filename: str | None, defer_init: bool = False
    ) -> str:
        _check_nodes(source)
        source = _Counting().visit(source)
        source.set_environment(self)
        return super()._generate(source, name, filename, defer_init)


class BoundedTokens(jinja2.ext.Extension):
    """Refuses a template with too many tokens while it is parsed."""

    def filter_stream(self, stream: jinja2.lexer.TokenStream) -> Iterator[jinja2.lexer.Token]:
        """The tokens, up to the limit."""
        for number, token in enumerate(stream):
            if number == MAX_TOKENS:
                raise limited(f"has more than {MAX_TOKENS} tokens")
            yield token


def _check_nodes(template: jinja2.nodes.Template) -> None:
    left: list[jinja2.nodes.Node] = [template]
    number = 0
    while left:
        number += 1
        if number > MAX_NODES:
            raise limited(f"has more than {MAX_NODES} nodes")
        left.extend(left.pop().iter_child_nodes())


class _Counting(jinja2.visitor.NodeTransformer):
    """Lets loops, macros, comparisons and new lists count."""

    def visit_For(self, node: jinja2.nodes.For) -> jinja2.nodes.Node:  # noqa: N802 - jinja2 names it so
        self.generic_visit(node)
        if node.test is not None:
            step = _filter("_llmserve_step", _true(node), node)
            node.test = jinja2.nodes.And(step, node.test, lineno=node.lineno)
        return _with_step(node)

    def visit_Macro(self, node: jinja2.nodes.Macro) -> jinja2.nodes.Node:  # noqa: N802
        return _with_step(self.generic_visit(node))

    def visit_CallBlock(self, node: jinja2.nodes.CallBlock) -> jinja2.nodes.Node:  # noqa: N802
        return _with_step(self.generic_visit(node))

    def visit_Block(self, node: jinja2.nodes.Block) -> jinja2.nodes.Node:  # noqa: N802
        return _with_step(self.generic_visit(node))

    def visit_Compare(self, node: jinja2.nodes.Compare) -> jinja2.nodes.Node:  # noqa: N802
        return _filter("_llmserve_step", self.generic_visit(node), node)

    def visit_List(self, node: jinja2.nodes.List) -> jinja2.nodes.Node:  # noqa: N802
        return _filter("_llmserve_checked", self.generic_visit(node), node)

    def visit_Dict(self, node: jinja2.nodes.Dict) -> jinja2.nodes.Node:  # noqa: N802
        return _filter("_llmserve_checked", self.generic_visit(node), node)

    def visit_Tuple(self, node: jinja2.nodes.Tuple) -> jinja2.nodes.Node:  # noqa: N802
        self.generic_visit(node)
        return _filter("_llmserve_checked", node, node) if node.ctx == "load" else node

    def visit_Getitem(self, node: jinja2.nodes.Getitem) -> jinja2.nodes.Node:  # noqa: N802
        self.generic_visit(node)
        is_copy = isinstance(node.arg, jinja2.nodes.Slice)
        return _filter("_llmserve_checked", node, node) if is_copy else node

    def visit_Concat(self, node: jinja2.nodes.Concat) -> jinja2.nodes.Node:  # noqa: N802
        self.generic_visit(node)
        return _filter("_llmserve_joined", jinja2.nodes.List(node.nodes, lineno=node.lineno), node)


def _true(node: jinja2.nodes.Node) -> jinja2.nodes.Expr:
    return jinja2.nodes.Const(True, lineno=node.lineno)


def _filter(name: str, value: Any, node: jinja2.nodes.Node) -> jinja2.nodes.Filter:
    return jinja2.nodes.Filter(value, name, [], [], None, None, lineno=node.lineno)


def _with_step(node: Any) -> jinja2.nodes.Node:
    step = jinja2.nodes.ExprStmt(_filter("_llmserve_step", _true(node), node), lineno=node.lineno)
    node.body = [step, *node.body]
    return node  # type: ignore[no-any-return]


# With a context, they are not computed when the template is compiled.
@jinja2.pass_context
def _step(_: Context, value: Any) -> Any:
    budget().step()
    return value


@jinja2.pass_context
def _checked(_: Context, value: Any) -> Any:
    return _spent(value)


@jinja2.pass_context
def _joined(_: Context, values: list[Any]) -> str:
    return _join(map(_text, values))


def _text(value: Any) -> str:
    """What is written for a value."""
    if isinstance(value, str):
        return value
    if isinstance(value, CONTAINERS):
        budget().spend(weight(value))
        # Python's text of a list has U+FDD0 escaped.
        return unescape_marks(str(value))
    return str(value)


def _join(parts: Iterable[str]) -> str:
    texts: list[str] = []
    total = 0
    for text in parts:
        texts.append(text)
        total += len(text)
        if total > MAX_CHARACTERS or len(texts) % 4096 == 0:
            budget().check_size(total)
    budget().spend(total)
    return "".join(texts)


def _spent(value: Any) -> Any:
    """Counts a value that was made."""
    if isinstance(value, str | bytes):
        budget().spend(len(value))
    elif isinstance(value, CONTAINERS):
        # Only a value of several lists can be much larger than everything that was there before.
        held = value if isinstance(value, list | tuple) else ()
        is_flat = isinstance(value, list | tuple) and not _holds_several(held)
        budget().spend(_flat_weight(held) if is_flat else weight(value))
    return value


def _flat_weight(values: Iterable[Any]) -> int:
    return sum(len(value) if isinstance(value, str | bytes) else 1 for value in values)


def _holds_several(values: Iterable[Any]) -> bool:
    held = (value for value in values if isinstance(value, CONTAINERS))
    return next(held, None) is not None and next(held, None) is not None


def _estimate(guard: Callable[..., int], *args: Any, **kwargs: Any) -> int:
    try:
        return guard(*args, **kwargs)
    except (TypeError, AttributeError, ValueError):
        # The method does not take these arguments, and will say so itself.
        return 0


def _counted(guard: Callable[..., int], function: Callable[..., Any]) -> Callable[..., Any]:
    """A filter that looks at what it would make, and counts what it made."""
    # Jinja hands some filters a context, or the like, first.
    skipped = 1 if hasattr(function, "jinja_pass_arg") else 0

    @functools.wraps(function)
    def filter_(*args: Any, **kwargs: Any) -> Any:
        if guard is not _no_guard:
            # An iterator can be read only once, so it is read here.
            args = tuple(list(arg) if isinstance(arg, Iterator) else arg for arg in args)
            budget().spend(_estimate(guard, *args[skipped:], **kwargs))
        return _spent(function(*args, **kwargs))

    return filter_


def _same_size(owner: Any, *_: Any, **__: Any) -> int:
    return len(owner) if isinstance(owner, str | bytes) else 0


def _no_guard(*_: Any, **__: Any) -> int:
    return 0


def _joining(values: Any, separator: Any = "", *_: Any, **__: Any) -> int:
    return growth.joined(str(separator), values if isinstance(values, list | tuple) else list(values))


def _formatting(pattern: Any, *values: Any, **named: Any) -> int:
    return growth.formatted(str(pattern), "%", values or named)


def _columns(values: Any, columns: Any, *_: Any, **__: Any) -> int:
    if isinstance(columns, int) and columns > _MAX_COLUMNS:
        raise limited(f"asks for more than {_MAX_COLUMNS} columns")
    return 0


def _summing(values: Any, attribute: Any = None, start: Any = 0) -> int:
    # Lists are copied for each that is added.
    return weight(values) * len(values) if isinstance(start, list | tuple) else 0


def _rounding(_: Any, precision: Any = 0, *__: Any, **___: Any) -> int:
    if isinstance(precision, int) and abs(precision) > _MAX_DIGITS:
        raise limited(f"rounds to more than {_MAX_DIGITS} digits")
    return 0


_GUARDS: dict[str, Callable[..., int]] = {
    "batch": _columns,
    "center": growth.METHODS["center"],
    "format": _formatting,
    "indent": growth.indented,
    "join": _joining,
    "replace": growth.replaced,
    "round": _rounding,
    "slice": _columns,
    "sum": _summing,
}
