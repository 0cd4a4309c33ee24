"""Writes rules in llguidance's variant of Lark."""

from __future__ import annotations

import json

from llmserve.server.grammars.nodes import (
    ROOT,
    Chars,
    Choice,
    Grammar,
    Lexeme,
    Node,
    Ref,
    Repeat,
    Sequence,
    Text,
)

__all__ = ["write_lark"]

MAX_DEPTH = 8
"""Deeper groups get names of their own: llguidance reads 30 levels."""


def write_lark(rules: Grammar, grammar: Grammar) -> str:
    """The text. ``rules`` are those of the parser; their lexemes may use rules of ``grammar``."""
    return _Writer(rules, grammar).text()


class _Writer:
    def __init__(self, rules: Grammar, grammar: Grammar) -> None:
        self._rules = rules
        self._grammar = grammar
        self._lines = [f"start: {_rule(ROOT, rules)}"]
        self._terminals: dict[Node, str] = {}
        self._names = {name: _rule(name, rules) for name in rules}
        self._waiting: list[tuple[str, Node, bool]] = []
        self._num_groups = 0

    def text(self) -> str:
        for name, body in self._rules.items():
            self._define(self._names[name], body, is_terminal=False)
        while self._waiting:
            self._define(*self._waiting.pop())
        return "\n".join(self._lines) + "\n"

    def _define(self, name: str, body: Node, is_terminal: bool) -> None:
        options = body.options if isinstance(body, Choice) else (body,)
        texts = [self._expression(option, is_terminal, 0) for option in options]
        self._lines.append(f"{name}: {' | '.join(texts)}")

    def _expression(self, node: Node, is_terminal: bool, depth: int) -> str:
        match node:
            case Chars() | Text():
                return _literal(node)
            case Ref(name=name):
                return self._terminal(node) if is_terminal else self._names[name]
            case Lexeme(node=lexeme):
                return _literal(lexeme) if isinstance(lexeme, Chars | Text) else self._terminal(lexeme)
            case Sequence(items=items):
                return " ".join(self._item(item, is_terminal, depth) for item in items) or '""'
            case Choice():
                return self._group(node, is_terminal, depth)
            case Repeat(item=item, low=low, high=high):
                return self._item(item, is_terminal, depth) + _operator(low, high)

    def _item(self, node: Node, is_terminal: bool, depth: int) -> str:
        is_compound = isinstance(node, Repeat | Sequence)
        return (
            self._group(node, is_terminal, depth)
            if is_compound
            else self._expression(node, is_terminal, depth)
        )

    def _group(self, node: Node, is_terminal: bool, depth: int) -> str:
        if depth == MAX_DEPTH:
            self._num_groups += 1
            name = f"G{self._num_groups}" if is_terminal else f"g{self._num_groups}"
            self._waiting.append((name, node, is_terminal))
            return name
        options = node.options if isinstance(node, Choice) else (node,)
        return f"({' | '.join(self._expression(option, is_terminal, depth + 1) for option in options)})"

    def _terminal(self, node: Node) -> str:
        """The name of a terminal, which is defined at its first use."""
        if (name := self._terminals.get(node)) is None:
            name = self._terminals[node] = f"T{len(self._terminals)}"
            body = self._grammar[node.name] if isinstance(node, Ref) else node
            self._waiting.append((name, body, True))
        return name


def _rule(name: str, rules: Grammar) -> str:
    return f"r{list(rules).index(name)}"


def _operator(low: int, high: int | None) -> str:
    if (low, high) == (0, 1):
        return "?"
    if high is None:
        return {0: "*", 1: "+"}.get(low, f"{{{low},}}")
    return f"{{{low},{high}}}"


def _literal(node: Chars | Text) -> str:
    if isinstance(node, Chars) and len(node.ranges) == 1 and node.ranges[0][0] == node.ranges[0][1]:
        node = Text(chr(node.ranges[0][0]))
    if isinstance(node, Text):
        # Lark's strings are JSON's, except that DEL must be escaped as well.
        return json.dumps(node.text, ensure_ascii=False).replace("\x7f", "\\u007f")
    return f"/[{''.join(_range(low, high) for low, high in node.ranges)}]/"


def _range(low: int, high: int) -> str:
    return _code_point(low) if low == high else f"{_code_point(low)}-{_code_point(high)}"


def _code_point(code: int) -> str:
    return chr(code) if code < 0x80 and chr(code).isalnum() else f"\\x{{{code:x}}}"
