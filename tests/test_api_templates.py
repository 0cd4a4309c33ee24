"""Chat templates as Hugging Face renders them."""

from __future__ import annotations

import datetime
import threading
from typing import Any

import pytest

from llmserve import TemplateError
from llmserve.templates import render

USER = {"role": "user", "content": "Hi"}


def rendered(template: str, *messages: dict[str, Any], **variables: Any) -> str:
    return render(template, messages or (USER,), variables.pop("add_generation_prompt", True), **variables)


def test_messages_and_variables() -> None:
    template = (
        "{{ bos_token }}{% for m in messages %}[{{ m.role }}|{{ m['content'] }}]{% endfor %}"
        "{% if add_generation_prompt %}>{% endif %}{{ extra }}"
    )
    assert rendered(template, bos_token="<s>") == "<s>[user|Hi]>"  # noqa: S106 - a token of a vocabulary
    assert rendered(template, add_generation_prompt=False, extra=5) == "[user|Hi]5"
    assert rendered(template, USER | {"content": None}) == "[user|]>"
    assert rendered(template, USER | {"content": "<b>&"}) == "[user|<b>&]>"


def test_blocks_are_trimmed() -> None:
    assert (
        rendered("{% for m in messages %}\n    {% if true %}\nx\n    {% endif %}\n{% endfor %}\nend\n")
        == "x\nend"
    )


def test_loop_controls() -> None:
    template = (
        "{% for i in range(9) %}{% if i == 1 %}{% continue %}{% elif i == 4 %}{% break %}{% endif %}"
        "{{ i }}{% endfor %}"
    )
    assert rendered(template) == "023"


def test_lists_of_parts_and_tool_calls() -> None:
    template = (
        "{% for m in messages %}{% if m.tool_calls %}{{ m.tool_calls | tojson }}"
        "{% elif m.content is string %}{{ m.content }}"
        "{% else %}{% for part in m.content %}{{ part.text }}{% endfor %}{% endif %};{% endfor %}"
    )
    call = {"role": "assistant", "content": None, "tool_calls": [{"name": "zeit", "a": "ü<'"}]}
    parts = {"role": "assistant", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}
    tool = {"role": "tool", "content": "5"}
    assert rendered(template, call, tool, parts) == '[{"name": "zeit", "a": "ü<\'"}];5;ab;'


def test_to_json() -> None:
    value = {"b": [1, None], "a": "é"}
    assert rendered("{{ v | tojson }}", v=value) == '{"b": [1, null], "a": "é"}'
    assert rendered("{{ v | tojson(indent=2) }}", v=[1]) == "[\n  1\n]"
    assert (
        rendered("{{ v | tojson(sort_keys=true, separators=(',', ':')) }}", v=value)
        == '{"a":"é","b":[1,null]}'
    )
    assert rendered("{{ v | tojson(ensure_ascii=true) }}", v="é") == '"\\u00e9"'


def test_the_date() -> None:
    before = datetime.datetime.now().astimezone().date()
    text = rendered("{{ strftime_now('%Y-%m-%d') }}")
    after = datetime.datetime.now().astimezone().date()
    assert before <= datetime.date.fromisoformat(text) <= after


def test_generation_blocks_change_nothing() -> None:
    template = (
        "a{% generation %}{% set x = 1 %}b{{ messages[0].content }}{% endgeneration %}c{{ x is defined }}"
    )
    assert rendered(template) == "abHicFalse"


@pytest.mark.parametrize(
    ("template", "message"),
    [
        ("{{ raise_exception('roles must alternate') }}", "the chat template failed: roles must alternate"),
        ("{{ messages[0].missing | tojson }}", "the chat template failed: TypeError: "),
        (
            "{{ messages[0].missing.deeper }}",
            "the chat template failed: 'dict object' has no attribute 'missing'",
        ),
        ("{% for %}", "the chat template failed: "),
        ("{{ 1 // 0 }}", "the chat template failed: ZeroDivisionError: "),
        ("{{ messages.append(1) }}", "the chat template failed: "),
        ("{{ ''.__class__.__mro__ }}", "the chat template failed: access to attribute '__class__'"),
        ("{{ range(10 ** 9) }}", "the chat template failed: OverflowError: "),
        ("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", "the chat template failed: RecursionError: "),
    ],
)
def test_a_template_that_fails_says_why(template: str, message: str) -> None:
    with pytest.raises(TemplateError) as failure:
        render(template, [USER], True)
    assert str(failure.value).startswith(message)
    assert failure.value.code == "template_error"


def test_threads_render_at_the_same_time() -> None:
    texts: list[str] = []
    template = "{% for m in messages %}{{ m.content }}{% endfor %}"
    threads = [
        threading.Thread(target=lambda n=n: texts.append(rendered(template, *[USER] * n)))
        for n in range(1, 20)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(texts) == sorted("Hi" * n for n in range(1, 20))
