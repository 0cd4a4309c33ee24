r"""Reads GBNF, the notation of llama.cpp's grammars; xgrammar reads nearly the same.

    root  ::= item ("," item)*   # a rule reaches to the next one
    item  ::= [a-z]+ | "\x41" | [^"\n]{2,3} | .

Unlike llama.cpp, but like xgrammar, it accepts a line break anywhere in a rule.
"""

from __future__ import annotations

from llmserve.server.grammars.nodes import (
    ROOT,
    Grammar,
    Node,
    Ref,
    char_set,
    choice,
    repeat,
    sequence,
)
from llmserve.server.grammars.scanner import GrammarSyntaxError, Scanner

__all__ = ["GrammarSyntaxError", "read_gbnf"]

MAX_REPETITIONS = 2000
"""llama.cpp's limit."""

MAX_NESTING = 50
MAX_OPERATORS = 4

_ANY = char_set((), is_negated=True)


def read_gbnf(text: str) -> Grammar:
    """The rules of a grammar.

    Raises:
        GrammarSyntaxError: The grammar is malformed or lacks a rule.
    """
    return _Reader(Scanner(text)).rules()


class _Reader:
    def __init__(self, scanner: Scanner) -> None:
        self._scanner = scanner
        self._uses: dict[str, int] = {}
        self._depth = 0

    def rules(self) -> Grammar:
        scanner = self._scanner
        rules: dict[str, Node] = {}
        while not scanner.is_at_end:
            begun = scanner.position
            name = scanner.take_name()
            if not name:
                raise scanner.error(f"expected the name of a rule, got {scanner.next!r}")
            if not scanner.take("::="):
                raise scanner.error(f"expected '::=' after the name {name[:64]!r}")
            if name in rules:
                raise scanner.error(f"the rule {name[:64]!r} is defined twice", begun)
            rules[name] = self._choice()
            if scanner.next and not scanner.is_at_rule():
                raise scanner.error(f"unexpected {scanner.next!r}")
        if ROOT not in rules:
            raise GrammarSyntaxError("the rule 'root' is missing")
        for name, position in self._uses.items():
            if name not in rules:
                raise scanner.error(f"the rule {name[:64]!r} is not defined", position)
        return rules

    def _choice(self) -> Node:
        options = [self._sequence()]
        while self._scanner.take("|"):
            options.append(self._sequence())
        return choice(options)

    def _sequence(self) -> Node:
        items: list[Node] = []
        while (item := self._atom()) is not None:
            items.append(self._repeated(item))
        return sequence(items)

    def _atom(self) -> Node | None:
        scanner = self._scanner
        if scanner.next == '"':
            return scanner.take_string()
        if scanner.next == "[":
            return scanner.take_set()
        if scanner.take("."):
            return _ANY
        if scanner.next == "(":
            return self._group()
        if scanner.is_at_rule():
            return None
        position = scanner.position
        if name := scanner.take_name():
            self._uses.setdefault(name, position)
            return Ref(name)
        return None

    def _group(self) -> Node:
        scanner = self._scanner
        begun = scanner.position
        if self._depth == MAX_NESTING:
            raise scanner.error(f"groups may be nested at most {MAX_NESTING} deep")
        scanner.take("(")
        self._depth += 1
        inner = self._choice()
        self._depth -= 1
        if not scanner.take(")"):
            if scanner.is_at_end or scanner.is_at_rule():
                raise scanner.error("the group is not closed", begun)
            raise scanner.error(f"unexpected {scanner.next!r}")
        return inner

    def _repeated(self, item: Node) -> Node:
        scanner = self._scanner
        for _ in range(MAX_OPERATORS):
            if scanner.take("*"):
                item = repeat(item, 0, None)
            elif scanner.take("+"):
                item = repeat(item, 1, None)
            elif scanner.take("?"):
                item = repeat(item, 0, 1)
            elif scanner.next == "{":
                low, high = self._bounds()
                item = repeat(item, low, high)
            else:
                return item
        raise scanner.error(f"more than {MAX_OPERATORS - 1} repetitions of one item")

    def _bounds(self) -> tuple[int, int | None]:
        scanner = self._scanner
        begun = scanner.position
        scanner.take("{")
        low = high = scanner.take_number()
        if scanner.take(","):
            high = scanner.take_number()
            low = 0 if low is None else low
        if low is None or not scanner.take("}"):
            raise scanner.error("a repetition must be {m}, {m,}, {,n} or {m,n}", begun)
        if high is not None and high < low:
            raise scanner.error("the repetition's end is below its start", begun)
        if max(low, high or 0) > MAX_REPETITIONS:
            raise scanner.error(f"a repetition may have at most {MAX_REPETITIONS} rounds", begun)
        return low, high
