"""How models mark their reasoning before the answer."""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass

from llmserve.server.conversation.borders import first_piece, is_tag, last_tag, shared_beginning
from llmserve.server.conversation.call_probes import ARGUMENTS, NAMES, THOUGHT, WORDS, Probe
from llmserve.server.conversation.known_formats import is_harmony
from llmserve.templates.capabilities import capabilities
from llmserve.templates.limits import within_limits

_WORD = re.compile(r"\w+")


@dataclass(frozen=True, slots=True)
class ReasoningTags:
    """The texts before and after the reasoning."""

    open: str
    close: str
    lead: str = ""
    """What follows the opening tag, and is not shown either."""
    after_close: str = "\n\n"
    """What stands between a closing tag and the answer."""
    hidden: tuple[str, ...] = ()
    """Texts around the messages of an answer, which are not shown; the first begins the last message."""

    def is_open(self, prompt: str, continued: str = "") -> bool:
        """Whether the template, or the beginning of the turn that is continued, has begun the reasoning."""
        if continued:
            return self.split(continued)[0]
        return prompt.rstrip().endswith((self.open, self.open + self.lead.rstrip()))

    def split(self, begun: str) -> tuple[bool, str]:
        """Whether the beginning of a turn ends in open reasoning, and what it has of that, or of the answer.

        Blocks stand at the beginning, one after another; a tag behind any words is text.
        """
        rest = begun.lstrip()
        while rest.startswith((self.open, self.close)):
            before, close, after = rest.partition(self.close)
            if not close:
                return True, before.removeprefix(self.open)
            rest = after.lstrip()
        return False, rest

    def may_open(self, prompt: str) -> bool:
        """Whether the model may begin to reason: a template turns that off with empty reasoning."""
        return not self.is_open(prompt) and not prompt.rstrip().endswith(self.close)


HARMONY = ReasoningTags(
    "<|channel|>analysis<|message|>",
    "<|end|>",
    after_close="<|start|>assistant",
    hidden=("<|channel|>final<|message|>", "<|channel|>commentary<|message|>", "<|start|>assistant"),
)
"""Each message has a channel: reasoning, what is said before calls, and the answer."""

# For templates that do not show the reasoning of an earlier turn.
_TAGS = (
    ReasoningTags("<think>", "</think>"),
    ReasoningTags("[THINK]", "[/THINK]"),
    ReasoningTags("<seed:think>", "</seed:think>"),
    ReasoningTags("\u25c1think\u25b7", "\u25c1/think\u25b7"),
    ReasoningTags("<|START_THINKING|>", "<|END_THINKING|>"),
    ReasoningTags("<|inner_prefix|>", "<|inner_suffix|>"),
)


@functools.lru_cache(maxsize=64)
def tags_of(template: str) -> ReasoningTags | None:
    """The tags that a chat template shows around reasoning, or names."""
    if is_harmony(template):
        return HARMONY
    with within_limits():
        shown = _shown(Probe(capabilities(template)))
    if shown is not None:
        return shown
    return next((tags for tags in _TAGS if tags.open in template or tags.close in template), None)


def _shown(probe: Probe) -> ReasoningTags | None:
    calls = [ARGUMENTS]
    shown = (
        _around(probe.words(THOUGHT), probe.words(), WORDS),
        # Some keep the reasoning that led to a call, and drop all other.
        _around(probe.calls(calls, thought=THOUGHT), probe.calls(calls), NAMES[0]),
    )
    return next((tags for tags in shown if tags is not None), None)


def _around(text: str | None, without: str | None, output: str) -> ReasoningTags | None:
    """The tags in a text with reasoning and output, given the same without reasoning."""
    before, thought, behind = (text or "").partition(THOUGHT)
    behind, found, _ = behind.partition(output)
    if not thought or not found:
        return None
    begun = before[len(shared_beginning(before, without or "")) :].lstrip()
    is_always_shown = not begun
    begun, behind = begun or last_tag(before), behind.strip()
    tag, close = first_piece(begun), first_piece(behind)
    lead, after = begun[len(tag) :], behind[len(close) :].strip()
    if not is_tag(tag) or not is_tag(close) or any(map(str.isspace, lead.rstrip())):
        return None
    if is_always_shown and not set(_WORD.findall(tag)) & set(_WORD.findall(close)):
        return None  # what comes before every answer
    is_begun = output == WORDS and is_tag(after)
    return ReasoningTags(tag, close, lead=lead if lead.strip() else "", hidden=(after,) if is_begun else ())
