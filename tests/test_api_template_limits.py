"""A template comes with a model file, which may be anybody's: it ends, and its memory is bounded."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from llmserve import Engine, InvalidParameterError, ModelConfig, SamplingParams, TemplateError
from llmserve.server.conversation.planning import Conversation, plan_turn
from llmserve.templates import environment, limits, render
from llmserve.templates.capabilities import capabilities
from llmserve.templates.sandbox import BoundedEnvironment

USER = {"role": "user", "content": "Hi"}

LONG = "{% set x = 'a' * 1000 %}"
SIZE = "makes a value of more than 16000000 characters"
STEPS = "takes more than 2000000 steps"
BITS = "computes with integers of more than 4096 bits"
WIDTH = "asks for a width of more than 100000"


def often(text: str) -> str:
    return text * 40


# By what the template tries.
GROWING = {
    "repeat a text": ("{{ 'a' * 10**9 }}", SIZE),
    "repeat a text, the other way": ("{{ 10**9 * 'a' }}", SIZE),
    "repeat a list": ("{{ [1] * 10**9 }}", SIZE),
    "double by ~": (LONG + often("{% set x = x ~ x %}"), SIZE),
    "double by +": (LONG + often("{% set x = x + x %}"), SIZE),
    "double in blocks": (LONG + often("{% set x %}{{ x }}{{ x }}{% endset %}"), SIZE),
    "double in macros": (
        LONG + "{% macro f(x) %}{{ x }}{{ x }}{% endmacro %}" + often("{% set x = f(x) %}"),
        SIZE,
    ),
    "keep copies": (
        LONG + "{% set x = x * 15000 %}" + often("{% set y = x[1:] %}"),
        "makes more than 256000000",
    ),
    "write without end": (
        LONG + "{% for i in range(100000) %}{{ x }}{% endfor %}",
        SIZE,
    ),
    "a wide number": ("{{ '%1000000000d' % 1 }}", SIZE),
    "a width from a value": ("{{ '%*d' % (1000000000, 1) }}", SIZE),
    "the filter format": ("{{ '%1000000000d' | format(1) }}", SIZE),
    "the method format": ("{{ '{:1000000000}'.format(1) }}", SIZE),
    "the method format, nested": ("{{ '{:{w}}'.format(1, w=1000000000) }}", SIZE),
    "one value many times": (LONG + "{{ ('%(a)s' * 20000) % {'a': x} }}", SIZE),
    "center": ("{{ 'a' | center(10**9) }}", WIDTH),
    "ljust": ("{{ 'a'.ljust(10**9) }}", WIDTH),
    "zfill": ("{{ 'a'.zfill(10**9) }}", WIDTH),
    "tabs": ("{{ '\t'.expandtabs(10**9) }}", WIDTH),
    "indent": ("{{ ('a\n' * 1000) | indent(100000) }}", SIZE),
    "replace": (LONG + often("{% set x = x.replace('a', x) %}"), SIZE),
    "the filter replace": (LONG + often("{% set x = x | replace('a', x) %}"), SIZE),
    "join": (LONG + "{{ ([x] * 100000) | join(x) }}", SIZE),
    "the method join": (LONG + "{{ x.join(['b'] * 100000) }}", SIZE),
    "join what is made while it is joined": (
        LONG + "{{ range(100000) | map(attribute='q', default=x) | join }}",
        SIZE,
    ),
    "indented JSON": ("{{ range(100000) | list | tojson(indent=100000) }}", SIZE),
    "separators": (LONG + "{{ range(100000) | list | tojson(separators=(x, x)) }}", SIZE),
    "lists in lists": ("{% set a = ['a'] %}" + often("{% set a = [a, a] %}") + "{{ a }}", SIZE),
    "dicts in dicts": (
        "{% set a = 1 %}" + often("{% set a = {'x': a, 'y': a} %}") + "{{ a | tojson }}",
        SIZE,
    ),
    "namespaces": ("{% set a = 1 %}" + often("{% set a = namespace(x=a, y=a) %}") + "{{ a }}", SIZE),
    "arguments": (
        "{% set n = namespace(a=['a']) %}{% macro f() %}{% set n.a = varargs %}{% endmacro %}"
        + often("{{ f(n.a, n.a) }}"),
        SIZE,
    ),
    "sums of lists": ("{{ ([[1] * 100] * 9000) | sum(start=[]) }}", SIZE),
    "columns": ("{{ [1] | batch(10**9, 'x') | list }}", "asks for more than 100000 columns"),
    "powers": ("{{ 9 ** 9999999 }}", BITS),
    "products": ("{% set x = 9 ** 1000 %}" + often("{% set x = x * x %}"), BITS),
    "long divisions": ("{% set x = ('f' * 100000) | int(base=16) %}{{ x // 3 }}", BITS),
    "digits": ("{{ 1.5 | round(10**9, 'floor') }}", "rounds to more than 100 digits"),
    "bytes of a number": ("{{ (5).to_bytes(10**10, 'big') }}", "calls a method"),
    "translate": ("{{ 'a'.translate({97: 'b'}) }}", "calls a method"),
}
LASTING = {
    "loops": ("{% for a in range(100000) %}{% for b in range(100000) %}{% endfor %}{% endfor %}", STEPS),
    "loops that skip": (
        "{% for a in range(100000) %}{% for b in range(100000) if false %}{% endfor %}{% endfor %}",
        STEPS,
    ),
    "comparisons": (
        "{% set a = range(100000) | list %}{% set b = range(100000) | list %}"
        "{% for i in a %}{{ a == b }}{% endfor %}",
        "takes longer than",
    ),
    "sorting": (
        "{% set a = range(100000) | list %}{% for i in a %}{% set b = a | sort %}{% endfor %}",
        "takes longer than",
    ),
    "calls of calls": (
        "{% macro f() %}{{ caller() }}{{ caller() }}{% endmacro %}"
        + often("{% call f() %}")
        + often("{% endcall %}"),
        "takes longer than",
    ),
}


TOKENS = "has more than 10000 tokens"
NODES = "has more than 5000 nodes"
# What compiling them would make of a few hundred thousand characters takes seconds and up to a GB.
LONG_SOURCES = {
    "a chain of ~": ("{{ a" + "~a" * 127_000 + " }}", TOKENS),
    "a chain of comparisons": ("{{ 1" + "<1" * 127_000 + " }}", TOKENS),
    "a chain of filters": ("{{ a" + "|e" * 127_000 + " }}", TOKENS),
    "lines": ("{{ 1 }}\n" * 31_000, TOKENS),
    "blocks and lines": ("  {% if a %}\n  {% endif %}\n" * 9_000, TOKENS),
    "arguments": ("{{ f(" + "a," * 127_000 + ") }}", TOKENS),
    "items": ("{{ {" + "1:1," * 63_000 + "} }}", TOKENS),
    "macros": ("{% macro f() %}{% endmacro %}" * 8_000, TOKENS),
    "nodes of few tokens": ("{{ 1" + "<1" * 4_000 + " }}", NODES),
}


@pytest.mark.parametrize("name", LONG_SOURCES)
def test_what_is_compiled_is_bounded(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    source, message = LONG_SOURCES[name]
    tried = []
    from_string = BoundedEnvironment.from_string

    def counted(self: Any, text: str) -> Any:
        tried.append(text)
        return from_string(self, text)

    monkeypatch.setattr(BoundedEnvironment, "from_string", counted)
    with pytest.raises(TemplateError, match=f"^the chat template failed: the template {message}$"):
        render(source, [USER], True)
    # Not for each conversation that finds out what it takes.
    assert capabilities(source).takes_strings
    assert tried == [source]


def test_a_template_may_be_as_long_as_the_bounds() -> None:
    assert render("{{ 1 ~" + "~".join(["2"] * 4_900) + " }}", [USER], True) == "1" + "2" * 4_900
    assert len(render("x" * 200_000 + "\n" * 50_000, [USER], True)) == 249_999


@pytest.mark.anyio
async def test_templates_are_compiled_on_other_threads(
    tiny_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    environment._compile.cache_clear()
    threads = set()
    from_string = BoundedEnvironment.from_string

    def watched(self: Any, text: str) -> Any:
        threads.add(threading.current_thread())
        return from_string(self, text)

    monkeypatch.setattr(BoundedEnvironment, "from_string", watched)
    config = ModelConfig(context_length=256, max_sequences=1, threads=1)
    async with await Engine.load(tiny_model, config) as engine:
        await engine.chat_prompt([USER], template="{{ messages[0].content }}")
        await engine.next_turn("Hi", template="{% for m in messages %}{{ m.content }}\n{% endfor %}")
        conversation = Conversation(messages=[USER])
        await plan_turn(engine, conversation, SamplingParams())
    assert threads
    assert threading.current_thread() not in threads


@pytest.mark.parametrize("name", GROWING)
def test_memory_is_bounded(name: str) -> None:
    source, message = GROWING[name]
    with pytest.raises(TemplateError, match=f"the chat template failed: the template {message}"):
        render(source, [USER], True)


@pytest.mark.parametrize("name", LASTING)
def test_time_is_bounded(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    source, message = LASTING[name]
    if message != STEPS:
        monkeypatch.setattr(limits, "MAX_CPU_S", 0.5)
    with pytest.raises(TemplateError, match=f"the chat template failed: the template {message}"):
        render(source, [USER], True)


def test_what_a_template_takes_is_found_out_in_bounded_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MAX_CPU_S", 0.5)
    # All conversations that are tried share one budget, so that this ends.
    assert capabilities(LASTING["sorting"][0]).takes_strings


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("{{ ''.__class__.__mro__ }}", "access to attribute '__class__'"),
        ("{{ cycler.__init__.__globals__ }}", "access to attribute '__init__'"),
        ("{{ messages.append(1) }}", "access to attribute 'append'"),
        (
            "{% set n = namespace() %}{% set n.__class__ = 5 %}",
            "a namespace does not accept a name like '__class__'",
        ),
        ("{{ namespace(__init__=1) }}", "a namespace does not accept a name like '__init__'"),
        ("{{ dict.fromkeys([1]) }}", "'function object' has no attribute 'fromkeys'"),
        ("{% import 'os' as os %}", "TypeError: no loader"),
        ("{% include '/etc/passwd' %}", "TypeError: no loader"),
        ("{{ lipsum(9) }}", "'lipsum' is undefined"),
        ("{{ 'x' | urlize }}", "No filter named 'urlize'"),
        ("{{ " + "(" * 5000 + "1" + ")" * 5000 + " }}", "RecursionError"),
        ("{% for a in [1] %}" * 60 + "{% endfor %}" * 60, "SyntaxError: too many"),
        ("{% block a %}{{ self.a() }}{% endblock %}", "RecursionError"),
    ],
)
def test_a_template_reaches_nothing_but_its_inputs(source: str, message: str) -> None:
    with pytest.raises(TemplateError) as failure:
        render(source, [USER], True)
    assert str(failure.value).startswith(f"the chat template failed: {message}")


def test_long_templates_and_messages() -> None:
    with pytest.raises(TemplateError, match="at most 256000 characters, it has 300000"):
        render("x" * 300_000, [USER], True)
    with pytest.raises(TemplateError) as failure:
        render("{{ raise_exception('x' * 100000) }}", [USER], True)
    assert len(str(failure.value)) < 1100


def test_inputs_are_plain_data() -> None:
    class Secret:
        password = "x"  # noqa: S105

    class Text(str):
        def secret(self) -> str:
            return "x"

    with pytest.raises(InvalidParameterError, match="not Secret"):
        render("{{ messages[0].content.password }}", [USER | {"content": Secret()}], True)
    with pytest.raises(TemplateError, match="has no attribute 'secret'"):
        render("{{ messages[0].content.secret() }}", [USER | {"content": Text("x")}], True)


def test_ordinary_templates_stay_within_the_limits() -> None:
    messages: list[dict[str, Any]] = [USER | {"content": "word " * 500}] * 2000
    source = (
        "{% set ns = namespace(text='', n=0) %}{% for m in messages %}{% set ns.n = ns.n + 1 %}"
        "{% set parts = m.content.split(' ') %}{{ m.role ~ ': ' ~ m.content | trim ~ parts | length }}\n"
        "{% endfor %}{{ ns.n }}"
    )
    assert render(source, messages, True).endswith("\n2000")
