"""Small chat templates with the constructs of public ones whose licences keep them out of this repository."""

from __future__ import annotations

_TURNS = """\
{%- if tools %}{{ tools | tojson }}{% endif -%}
{%- for message in messages -%}
{{ '<|turn|>' + message.role + '\\n' }}
{%- if message.reasoning_content %}{{ '<ponder>' + message.reasoning_content + '</ponder>' }}{% endif -%}
{%- if message.content %}{{ message.content }}{% endif -%}
{%- if message.tool_calls -%}
CALLS
{%- endif -%}
{{ '<|done|>' }}
{%- endfor -%}
{%- if add_generation_prompt %}{{ '<|turn|>assistant\\n' }}{% endif -%}
"""


def _with_calls(calls: str) -> str:
    return _TURNS.replace("CALLS", calls.strip("\n"))


CALL_TEMPLATES = {
    # LFM 2.5
    "python": _with_calls("""
<|calls|>[
{%- for call in message.tool_calls -%}
{{ call.function.name }}(
{%- for key, value in call.function.arguments.items() -%}
{{ key }}={% if value is string %}'{{ value | replace("\\\\", "\\\\\\\\") | replace("'", "\\\\'") }}'
{%- elif value is mapping %}{{ value | tojson }}{% else %}{{ value | string }}{% endif -%}
{{ '' if loop.last else ', ' }}
{%- endfor -%}
){{ '' if loop.last else ', ' }}
{%- endfor -%}
]<|/calls|>
"""),
    # DeepSeek 3.2: strings and JSON are told apart in the tag
    "typed attributes": _with_calls("""
{{ '\n\n<calls>' }}
{%- for call in message.tool_calls -%}
{{ '\n<invoke name="' + call.function.name + '">\n' }}
{%- for key, value in call.function.arguments.items() -%}
<argument name="{{ key }}" string="{{ 'true' if value is string else 'false' }}">
{%- if value is string %}{{ value }}{% else %}{{ value | tojson }}{% endif -%}
{{ '</argument>\n' }}
{%- endfor -%}
</invoke>
{%- endfor -%}
{{ '\n</calls>' }}
"""),
    # MiniMax M3 and Kimi K3: elements are named after arguments, and calls are numbered from one
    "elements": _with_calls("""
<calls>
{%- for call in message.tool_calls -%}
<call tool="{{ call.function.name }}" index="{{ loop.index }}">
{%- for key, value in call.function.arguments.items() -%}
<{{ key }}>{% if value is string %}{{ value }}{% else %}{{ value | tojson }}{% endif %}</{{ key }}>
{%- endfor -%}
</call>
{%- endfor -%}
</calls>
"""),
    # GLM 4.7: nothing stands between the name and the first argument
    "keys": _with_calls("""
{%- for call in message.tool_calls -%}
<tool_call>{{ call.function.name }}
{%- for key, value in call.function.arguments.items() -%}
<key>{{ key }}</key><value>
{%- if value is string %}{{ value }}{% else %}{{ value | tojson }}{% endif -%}
</value>
{%- endfor -%}
</tool_call>
{%- endfor -%}
"""),
    # Kimi K2
    "functions": _with_calls("""
<|section|>
{%- for call in message.tool_calls -%}
<|call|>functions.{{ call.function.name }}:{{ loop.index0 }}<|arguments|>
{{- call.function.arguments | tojson }}<|/call|>
{%- endfor -%}
<|/section|>
"""),
    # Solar: the id comes first
    "ids first": _with_calls("""
<|calls|>
{%- for call in message.tool_calls -%}
<|call:begin|>{{ call.id }}<|call:name|>{{ call.function.name }}<|call:args|>
{%- if call.function.arguments is string %}{{ call.function.arguments }}
{%- else %}{{ call.function.arguments | tojson }}{% endif -%}
<|call:end|>
{%- endfor -%}
"""),
    # A name that comes twice, as in templates of Muse
    "twice": _with_calls("""
{%- for call in message.tool_calls -%}
<|to|>{{ call.function.name }}<|message|><invoke name="{{ call.function.name }}">
{{- call.function.arguments | tojson }}</invoke>
{%- endfor -%}
"""),
    # Apertus: the name is a key
    "name as key": _with_calls("""
<|tools|>[
{%- for call in message.tool_calls -%}
{"{{ call.function.name }}": {{ call.function.arguments | tojson }}}{{ '' if loop.last else ', ' }}
{%- endfor -%}
]<|/tools|>
"""),
    # MiniMax M1: one object a line, in text of its own
    "lines": _with_calls("""
{{- '<calls>\n' }}
{%- for call in message.tool_calls -%}
{{ '{"name": "' + call.function.name + '", "arguments": ' + (call.function.arguments | tojson) + '}\n' }}
{%- endfor -%}
</calls>
"""),
    # Older ones want the arguments as text
    "texts": _with_calls("""
{%- for call in message.tool_calls -%}
{{ '<|action|>' + call.function.name + '\n' + call.function.arguments }}
{%- endfor -%}
"""),
}
