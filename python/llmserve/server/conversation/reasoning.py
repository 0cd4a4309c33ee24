"""How models mark their reasoning before the answer."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ReasoningTags:
    """The texts before and after the reasoning."""

    open: str
    close: str

    def is_open(self, prompt: str, continued: str = "") -> bool:
        """Whether the template, or the beginning of the turn that is continued, has begun the reasoning."""
        return self.split(continued)[0] if continued else prompt.rstrip().endswith(self.open)

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


_TAGS = (
    ReasoningTags("<think>", "</think>"),
    ReasoningTags("[THINK]", "[/THINK]"),
    ReasoningTags("<seed:think>", "</seed:think>"),
)


def tags_of(template: str) -> ReasoningTags | None:
    """The tags that a chat template knows."""
    return next((tags for tags in _TAGS if tags.open in template or tags.close in template), None)
