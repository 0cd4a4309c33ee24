"""GBNF: what is read, what is refused and where, and what becomes of it."""

from __future__ import annotations

import re

import pytest

from gbnf_reference import matches
from llmserve.server.grammars.translation import GrammarSyntaxError, gbnf_to_lark


def lines(gbnf: str) -> list[str]:
    return gbnf_to_lark(gbnf).splitlines()


@pytest.mark.parametrize(
    ("gbnf", "texts", "others"),
    [
        (r'root ::= "a\tb\n\"\\\x41\u00e9\U0001F600"', ['a\tb\n"\\Aé😀'], ["", "a"]),
        (r'root ::= "\ud83d\ude00"', ["😀"], ["😃"]),
        (r"root ::= [a-c\]\-^\n]", list("abc]-^\n"), ["d", "", "ab"]),
        (r"root ::= [^a-c]", ["d", "\n", "😀"], ["a", "", "dd"]),
        (r"root ::= [-a] [a-] [\x41-\x43é]", ["--é", "aaB"], ["b-é"]),
        ("root ::= . .", ["ab", "\n\n", "😀é"], ["a", "abc"]),
        ("root ::= [^]", ["a", "\n"], ["", "ab"]),
        ('root ::= "a"* "b"+ "c"?', ["b", "aabbc"], ["", "ac", "bcc"]),
        ('root ::= "a"{2} "b"{1,} "c"{,2} "d"{0}', ["aab", "aabbbcc"], ["ab", "aabccc", "aabd"]),
        ('root ::= "a"{2,3}', ["aa", "aaa"], ["a", "aaaa"]),
        ('root ::= ("a" | "b" "c") | ', ["a", "bc", ""], ["b"]),
        (
            'root ::=\n  "a" # first\n  | Other-Rule_1\nOther-Rule_1 ::= "x"\n| "y" # last',
            ["a", "x", "y"],
            ["ax"],
        ),
        ('# nothing\nroot ::= ( "a"\n  "b" )\n\n', ["ab"], ["a"]),
        ('root ::= x\nx ::= "a" x | "b"', ["b", "aab"], ["a"]),
        ('root ::= root "a" | "b"', ["b", "baa"], ["a", "ab"]),
    ],
)
def test_the_notation(gbnf: str, texts: list[str], others: list[str]) -> None:
    assert [text for text in texts if not matches(gbnf, text)] == []
    assert [text for text in others if matches(gbnf, text)] == []
    assert lines(gbnf)[0] == "start: r0"


@pytest.mark.parametrize(
    ("gbnf", "message"),
    [
        ("", "the rule 'root' is missing"),
        ('start ::= "a"', "the rule 'root' is missing"),
        ('root ::= "a" )', "line 1, column 14: unexpected ')'"),
        ('root ::= "a"\n= "b"', "line 2, column 1: unexpected '='"),
        ('root = "a"', "line 1, column 6: expected '::=' after the name 'root'"),
        ('"a"', "line 1, column 1: expected the name of a rule"),
        ('root ::= ("a"', "line 1, column 10: the group is not closed"),
        ('root ::= ("a"\nx ::= "b")', "line 1, column 10: the group is not closed"),
        ('root ::= "a\nb"', "line 1, column 10: the string is not closed"),
        ("root ::= [a", "line 1, column 10: the set of characters is not closed"),
        ("root ::= []", "line 1, column 10: the set of characters is empty"),
        ("root ::= [z-a]", "line 1, column 11: the range's end is before its start"),
        (r"root ::= [\ud800]", "line 1, column 11: half of a surrogate pair is not a character"),
        (r'root ::= "\ud800"', "line 1, column 10: half of a surrogate pair is not a character"),
        (r'root ::= "\q"', r"line 1, column 11: unknown escape '\\q'"),
        (r'root ::= "\x4"', "line 1, column 11: the escape must have 2 hexadecimal digits"),
        (r'root ::= "\U00110000"', "line 1, column 11: the escape is beyond the last code point"),
        ("root ::= a\n  nothing", "line 1, column 10: the rule 'a' is not defined"),
        ('root ::= "a"\nroot ::= "b"', "line 2, column 1: the rule 'root' is defined twice"),
        ('root ::= "a"{2,1}', "line 1, column 13: the repetition's end is below its start"),
        ('root ::= "a"{}', "line 1, column 13: a repetition must be {m}, {m,}, {,n} or {m,n}"),
        ('root ::= "a"{2001}', "line 1, column 13: a repetition may have at most 2000 rounds"),
        ('root ::= "a"' + "*" * 5, "more than 3 repetitions of one item"),
        ("root ::= " + "(" * 51, "line 1, column 60: groups may be nested at most 50 deep"),
        ("root ::= (=x)", "line 1, column 11: unexpected '='"),
        ("root ::= <[7]>", "line 1, column 10: unexpected '<'"),
        ('root ::= "a" root', "the rule 'root' matches no finite text"),
        ('root ::= a\na ::= b\nb ::= a "x"', "the rule 'root' matches no finite text"),
    ],
)
def test_mistakes_are_named_with_their_place(gbnf: str, message: str) -> None:
    with pytest.raises(GrammarSyntaxError) as raised:
        gbnf_to_lark(gbnf)
    assert message in str(raised.value)


def test_what_does_not_recur_is_one_lexeme() -> None:
    assert lines('root ::= item+\nitem ::= "- " [^\\n]+ "\\n"')[:2] == ["start: r0", "r0: T0"]
    # Recursion at one end is repetition.
    assert lines("root ::= digits\ndigits ::= [0-9] | [0-9] digits")[:2] == ["start: r0", "r0: T0"]


def test_lexemes_that_could_be_read_too_far_are_split() -> None:
    def has_words(closing: str) -> bool:
        gbnf = f'root ::= word | "(" root {closing}\nword ::= [a-z]+'
        return any(re.fullmatch(r"T[0-9]+: /\[a-z\]/\+", line) for line in lines(gbnf))

    # Behind a word comes a parenthesis or the end. Then a letter.
    assert has_words('")"')
    assert not has_words('"x"')
    # The letters between are one lexeme still.
    assert any(line.endswith(": /[a-wy-z]/+") for line in lines('root ::= [a-z]+ | "(" root "x"'))
    # `ab` begins like `a`, which `b` may follow.
    split = lines('root ::= ("a" | "ab") root "b" | "b"')
    assert not any('"ab"' in line for line in split)


def test_options_that_never_end_and_empty_rounds_are_left_out() -> None:
    text = gbnf_to_lark('root ::= "a" | "b" bad | nothing*\nbad ::= "c" bad\nnothing ::= "" ""*')
    assert '"b"' not in text
    assert '"c"' not in text
    assert '""*' not in text


@pytest.mark.parametrize(
    "gbnf",
    [
        "root ::= " + "(" * 50 + 'root "a" | "b"' + ")*+?" * 50,
        "root ::= r0\n" + "".join(f'r{i} ::= r{i + 1} "a" | "b" root\n' for i in range(300)) + 'r300 ::= "x"',
        "root ::= r0\n" + "".join(f"r{i} ::= r{i + 1} r{i + 1}\n" for i in range(300)) + 'r300 ::= "x"',
        'root ::= x | "(" root ")"\nx ::= ' + " | ".join(f'"a{i}"' for i in range(900)),
    ],
    ids=["nested", "chain", "doubling", "options"],
)
def test_large_grammars_stay_small(gbnf: str) -> None:
    """Nothing is written out more often than it stands there; the time is that of one look at each part."""
    assert len(gbnf_to_lark(gbnf)) < 4 * len(gbnf)
