"""What an engine must give for the models with a draft head: the greedy text and the number of drafts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .draft_rules import Rules


@dataclass(frozen=True)
class Drafted:
    """A greedy generation with drafts."""

    tokens: list[int]
    """The output, which is the same without drafts."""
    num_drafted: int
    num_accepted: int
    num_rounds: int
    """Decodes of the target after the prompt."""


def greedy(rules: Rules, prompt: Sequence[int], num_tokens: int) -> list[int]:
    """The output of `num_tokens` tokens after `prompt`."""
    tokens = list(prompt)
    for _ in range(num_tokens):
        tokens.append(rules.target_token(tokens))
    return tokens[len(prompt) :]


def draft(rules: Rules, tokens: Sequence[int], length: int) -> list[int]:
    """What the head drafts after `tokens`; each guess is made on those before it."""
    guessed = list(tokens)
    for _ in range(length):
        guessed.append(rules.head_token(guessed))
    return guessed[len(tokens) :]


def simulate(rules: Rules, prompt: Sequence[int], num_tokens: int, draft_len: int) -> Drafted:
    """Generates `num_tokens` tokens after `prompt` with drafts of `draft_len`, or fewer near the end.

    The prompt gives the first token. Each round after it gives one certain token, so it drafts no more than
    would be output after that one.
    """
    output = greedy(rules, prompt, num_tokens)
    num_drafted = num_accepted = num_rounds = 0
    done = min(1, num_tokens)
    while done < num_tokens:
        guesses = draft(rules, [*prompt, *output[:done]], min(draft_len, num_tokens - done - 1))
        accepted = 0
        while accepted < len(guesses) and guesses[accepted] == output[done + accepted]:
            accepted += 1
        num_drafted += len(guesses)
        num_accepted += accepted
        num_rounds += 1
        done += accepted + 1
    return Drafted(output, num_drafted, num_accepted, num_rounds)
