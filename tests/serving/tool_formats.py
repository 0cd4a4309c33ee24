"""The formats of well-known models, written down by hand from what they write."""

from __future__ import annotations

from llmserve.server.conversation.tool_formats import ArgumentTags, KindTexts, ToolFormat

HERMES = ToolFormat(
    triggers=("<tool_call>",),
    head='<tool_call>\n{"name": "',
    after_name='", "arguments":',
    after_arguments="}\n</tool_call>",
    again="<tool_call>",
    next_head='\n<tool_call>\n{"name": "',
)
"""Hermes, Qwen 2.5 and 3, Granite 4 and many more."""

QWEN_XML = ToolFormat(
    triggers=("<tool_call>",),
    head="<tool_call>\n<function=",
    after_name=">\n",
    tags=ArgumentTags(
        before_name="<parameter=", after_name=">\n", after_value="\n</parameter>\n", end="</function>"
    ),
    after_arguments="</function>\n</tool_call>",
    again="<tool_call>",
    next_head="\n<tool_call>\n<function=",
)
"""Qwen3-Coder, Qwen 3.5, Nemotron 3."""

SEED_XML = ToolFormat(
    triggers=("<seed:tool_call>",),
    head="<seed:tool_call>\n<function=",
    after_name=">\n",
    tags=ArgumentTags(
        before_name="<parameter=", after_name=">", after_value="</parameter>\n", end="</function>"
    ),
    after_arguments="</function>\n</seed:tool_call>",
    again="<seed:tool_call>",
    next_head="\n<seed:tool_call>\n<function=",
)
"""Seed-OSS."""

MINIMAX_XML = ToolFormat(
    triggers=("<minimax:tool_call>",),
    head='<minimax:tool_call>\n<invoke name="',
    after_name='">\n',
    tags=ArgumentTags(
        before_name='<parameter name="', after_name='">', after_value="</parameter>\n", end="</invoke>"
    ),
    after_arguments="</invoke>",
    again="<invoke",
    next_head='\n<invoke name="',
)
"""MiniMax M2: one element of all calls."""

GLM_XML = ToolFormat(
    triggers=("<tool_call>",),
    head="<tool_call>",
    after_name="\n",
    tags=ArgumentTags(
        before_name="<arg_key>",
        after_name="</arg_key>\n<arg_value>",
        after_value="</arg_value>\n",
        end="</tool_call>",
    ),
    after_arguments="</tool_call>",
    again="<tool_call>",
    next_head="\n<tool_call>",
)
"""GLM 4.5 and 4.6."""

GEMMA = ToolFormat(
    triggers=("<|tool_call>",),
    head="<|tool_call>call:",
    after_name="{",
    tags=ArgumentTags(
        before_name="",
        after_name=':<|"|>',
        after_value='<|"|>',
        between=",",
        end="}",
        kinds=tuple(KindTexts(kind, ":", "") for kind in ("integer", "number", "boolean", "null")),
    ),
    after_arguments="}<tool_call|>",
    again="<|tool_call>",
    next_head="<|tool_call>call:",
)
"""Gemma 4: strings stand between tokens of their own."""

PYTHON = ToolFormat(
    triggers=("<|tool_call_start|>",),
    head="<|tool_call_start|>[",
    after_name="(",
    tags=ArgumentTags(
        before_name="",
        after_name="='",
        after_value="'",
        between=", ",
        end=")",
        kinds=tuple(
            KindTexts(kind, "=", "") for kind in ("integer", "number", "boolean", "null", "object", "array")
        ),
    ),
    after_arguments=")",
    again=",",
    next_head=", ",
)
"""LFM 2.5: Python's calls."""

LLAMA_3 = ToolFormat(
    triggers=("<|python_tag|>",),
    begins_with_brace=True,
    head='{"name": "',
    after_name='", "parameters":',
    after_arguments="}",
)

MISTRAL = ToolFormat(
    triggers=("[TOOL_CALLS]",),
    head='[TOOL_CALLS] [{"name": "',
    after_name='", "arguments":',
    after_arguments=', "id": "{id}"}',
    again=",",
    next_head=', {"name": "',
    id_style="short",
)
"""One array of all calls."""

MISTRAL_ARGS = ToolFormat(
    triggers=("[TOOL_CALLS]",),
    head="[TOOL_CALLS]",
    after_name="[ARGS]",
    after_arguments="",
    again="[TOOL_CALLS]",
    next_head="[TOOL_CALLS]",
    id_style="short",
)
"""Devstral, Ministral 3."""

MISTRAL_IDS = ToolFormat(
    triggers=("[TOOL_CALLS]",),
    head="[TOOL_CALLS]",
    after_name="[CALL_ID]{id}[ARGS]",
    after_arguments="",
    again="[TOOL_CALLS]",
    next_head="[TOOL_CALLS]",
    id_style="short",
)
"""Mistral Small 3.2: the model is shown the call's id."""

DEEPSEEK = ToolFormat(
    triggers=("<｜tool▁calls▁begin｜>",),
    head="<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>",
    after_name="<｜tool▁sep｜>",
    after_arguments="<｜tool▁call▁end｜>",
    again="<｜tool▁call▁begin｜>",
    next_head="<｜tool▁call▁begin｜>",
)
"""DeepSeek 3.1."""

DEEPSEEK_FENCED = ToolFormat(
    triggers=("<｜tool▁calls▁begin｜>",),
    head="<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>",
    after_name="\n```json\n",
    after_arguments="\n```<｜tool▁call▁end｜>",
    again="<｜tool▁call▁begin｜>",
    next_head="\n<｜tool▁call▁begin｜>function<｜tool▁sep｜>",
)
"""DeepSeek 3 and R1."""

TOOLCALL = ToolFormat(
    triggers=("<TOOLCALL>",),
    head='<TOOLCALL>[{"name": "',
    after_name='", "arguments":',
    after_arguments="}",
    again=",",
    next_head=', {"name": "',
)
"""Nemotron Nano 2."""

FUNCTION_TAG = ToolFormat(
    triggers=("<function=",),
    head="<function=",
    after_name=">",
    after_arguments="</function>",
    again="<function=",
    next_head="<function=",
)
"""Functionary and Llama 3.1's custom calls."""

COMMAND = ToolFormat(
    triggers=("<|START_ACTION|>",),
    head='<|START_ACTION|>[\n    {"call": "{index}", "name": "',
    after_name='", "parameters":',
    after_arguments="}",
    again=",",
    next_head=',\n    {"call": "{index}", "name": "',
)
"""As Command R 7B: calls have numbers."""

HARMONY = ToolFormat(
    triggers=(" to=functions.", "<|channel|>commentary to=functions."),
    head=" to=functions.",
    after_name="<|channel|>commentary json<|message|>",
    after_arguments="",
)
"""gpt-oss: a call is a message of its own."""
