"""A small SentencePiece vocabulary (llama.cpp's "llama" tokenizer), as large as the byte-level one.

It puts a space before a text and after each special token, and it is named after Phi-3, whose special tokens
drop the white space after them: llama.cpp knows that by the model's name only.
"""

from __future__ import annotations

import gguf

from .vocabulary import VOCABULARY

NAME = "synthetic phi-3"

UNKNOWN, BOS, EOS, END_OF_TEXT = "<unk>", "<s>", "</s>", "<|endoftext|>"
# The second is found in any text, the last one holds the first.
INST, THINK, TOOL, LONG = "[INST]", "<think>", "[/INST]", "[INST][INST]"

CHAT_TEMPLATE = (
    "{{ bos_token }}{% for message in messages %}"
    "{% if message['role'] == 'user' %}[INST] {{ message['content'] | trim }} [/INST]"
    "{% else %} {{ message['content'] | trim }}</s>{% endif %}{% endfor %}"
)

TOOL_TEMPLATE = "{{ bos_token }}{{ tools | tojson }}" + CHAT_TEMPLATE.removeprefix("{{ bos_token }}")

_PIECES = (
    "▁",
    "▁t",
    "he",
    "▁the",
    "in",
    "▁in",
    "▁a",
    "an",
    "nd",
    "▁and",
    "▁x",
    "\n",
    "[",
    "]",
    "<",
    ">",
    "/",
    "|",
)


def describe(writer: gguf.GGUFWriter) -> None:
    """Adds the vocabulary and the chat templates to the metadata of `writer`."""
    tokens = [UNKNOWN, BOS, EOS]
    types = [gguf.TokenType.UNKNOWN, gguf.TokenType.CONTROL, gguf.TokenType.CONTROL]
    for token in (END_OF_TEXT, INST, THINK, TOOL, LONG):
        tokens.append(token)
        types.append(gguf.TokenType.USER_DEFINED if token == THINK else gguf.TokenType.CONTROL)
    tokens += [f"<0x{byte:02X}>" for byte in range(256)]
    types += [gguf.TokenType.BYTE] * 256
    pieces = [*_PIECES, *"abcdefghijklmnopqrstuvwxyz"][: len(VOCABULARY) - len(tokens)]
    tokens += pieces
    types += [gguf.TokenType.NORMAL] * len(pieces)
    padding = len(VOCABULARY) - len(tokens)
    tokens += [f"unused{number}" for number in range(padding)]
    types += [gguf.TokenType.UNUSED] * padding
    writer.add_tokenizer_model("llama")
    writer.add_tokenizer_pre("default")
    writer.add_token_list(tokens)
    writer.add_token_types(list(map(int, types)))
    # Longer pieces first.
    writer.add_token_scores([float(len(token)) for token in tokens])
    writer.add_bos_token_id(tokens.index(BOS))
    writer.add_eos_token_id(tokens.index(EOS))
    writer.add_unk_token_id(tokens.index(UNKNOWN))
    writer.add_add_bos_token(True)
    writer.add_add_space_prefix(True)
    writer.add_chat_template(
        [{"name": "default", "template": CHAT_TEMPLATE}, {"name": "tool_use", "template": TOOL_TEMPLATE}]
    )
