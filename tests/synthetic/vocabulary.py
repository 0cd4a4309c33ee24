"""A small byte-level BPE vocabulary (llama.cpp's "gpt2" tokenizer) with ChatML control tokens."""

from __future__ import annotations

from dataclasses import dataclass

import gguf

BOS = "<|startoftext|>"
EOS = "<|endoftext|>"
IM_START = "<|im_start|>"
IM_END = "<|im_end|>"

CHAT_TEMPLATE = (
    "{{ bos_token }}"
    "{% for message in messages %}"
    "<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n"
    "{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)

# Each word is merged from the left (`t h`, `th e`), so all its beginnings are tokens too.
_WORDS = (" the", " and", " of", " in", " to", "ing", "er", "ed", "ly", " sea", " tree", " café", "你", "好")


@dataclass(frozen=True)
class Vocabulary:
    """The tokens in the order of their ids; `live` are the ids that a model may generate greedily."""

    tokens: tuple[str, ...]
    types: tuple[int, ...]
    merges: tuple[str, ...]
    live: tuple[int, ...]

    def __len__(self) -> int:
        """The number of tokens."""
        return len(self.tokens)

    def id(self, token: str) -> int:
        """The id of `token`, written as in the vocabulary (bytes as GPT-2's letters)."""
        return self.tokens.index(token)


def byte_letters() -> list[str]:
    """GPT-2's letter for each byte: itself when printable, else a letter from U+0100 on.

    Source: `bytes_to_unicode` of the GPT-2 encoder, described in its paper (section 2.2).
    """
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    letters = []
    for byte in range(256):
        moved = byte - sum(1 for other in printable if other < byte)
        letters.append(chr(byte) if byte in printable else chr(0x100 + moved))
    return letters


def _merged(letters: list[str]) -> tuple[list[str], list[str]]:
    tokens: list[str] = []
    merges: list[str] = []
    for word in _WORDS:
        spelled = [letters[byte] for byte in word.encode()]
        for end in range(1, len(spelled)):
            left, token = "".join(spelled[:end]), "".join(spelled[: end + 1])
            if token not in tokens:
                tokens.append(token)
                merges.append(f"{left} {spelled[end]}")
    return tokens, merges


def _vocabulary() -> Vocabulary:
    letters = byte_letters()
    merged, merges = _merged(letters)
    tokens = [*letters, *merged, BOS, EOS, IM_START, IM_END]
    types = [gguf.TokenType.NORMAL] * (256 + len(merged)) + [gguf.TokenType.CONTROL] * 4
    # Only whole characters: random single bytes above ASCII would make invalid UTF-8.
    values = {letter: byte for byte, letter in enumerate(letters)}
    live = [0x0A, *range(0x20, 0x7F)]
    for number, token in enumerate(merged, start=256):
        try:
            bytes(values[letter] for letter in token).decode()
        except UnicodeDecodeError:
            continue
        live.append(number)
    return Vocabulary(tuple(tokens), tuple(map(int, types)), tuple(merges), tuple(live))


VOCABULARY = _vocabulary()


def describe(writer: gguf.GGUFWriter) -> None:
    """Adds the vocabulary and the chat template to the metadata of `writer`."""
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(list(VOCABULARY.tokens))
    writer.add_token_types(list(VOCABULARY.types))
    writer.add_token_merges(list(VOCABULARY.merges))
    writer.add_bos_token_id(VOCABULARY.id(BOS))
    writer.add_eos_token_id(VOCABULARY.id(EOS))
    writer.add_eot_token_id(VOCABULARY.id(IM_END))
    writer.add_add_bos_token(True)
    writer.add_chat_template(CHAT_TEMPLATE)
