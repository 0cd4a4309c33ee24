"""What an engine can be asked at once, and prompts as the native engine takes them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Sized
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from llmserve import _core
from llmserve._binding.model_handle import ModelHandle, Special
from llmserve.chat import ChatPrompt
from llmserve.drafting import DefaultDrafting, Drafting
from llmserve.errors import ContextExceededError, InvalidParameterError, LoadError, TemplateError
from llmserve.model_config import ModelConfig
from llmserve.sampling_params import SamplingParams
from llmserve.types import ChatMessage, ModelInfo

if TYPE_CHECKING:
    from llmserve.templates import ChatTemplates

__all__ = ["LoadedModel", "Prompt", "check_length", "prompt_arguments", "sampling_params"]

Prompt: TypeAlias = str | Sequence[int] | ChatPrompt
PromptT = TypeVar("PromptT", bound=str | Sequence[int])


class LoadedModel(ModelHandle[_core.Engine]):
    """A handle on a loaded model, and what can be asked of it at once."""

    __slots__ = ("_chat_templates", "_drafting", "_pieces")
    _wanted = "generation"

    def __init__(self, core: _core.Engine, config: ModelConfig) -> None:
        super().__init__(core, config)
        if config.chat_template is not None:
            _check_template(config.chat_template)
            self._info = replace(self._info, chat_template=config.chat_template, chat_templates={})
        self._chat_templates: ChatTemplates | None = None
        self._drafting = DefaultDrafting()
        # The bytes of tokens that were requested; bounded by the vocabulary.
        self._pieces: dict[int, bytes] = {}

    @property
    def chat_template(self) -> str | None:
        """The model's default chat template (Jinja)."""
        return self._info.chat_template

    def apply_chat_template(
        self, messages: Sequence[ChatMessage], add_generation_prompt: bool = True, **kwargs: Any
    ) -> str:
        """The prompt that the model's chat template makes of messages.

        `kwargs` are further variables for the template. Control tokens are part of the result, so it is
        tokenized with `parse_special`. Raises `TemplateError`.
        """
        if self._info.chat_template is None:
            raise TemplateError("the model has no chat template")
        # Imported late: jinja2 takes longer to import than all of this package.
        from llmserve import templates

        variables = {**self._info.special_tokens, **kwargs}
        return templates.render(self._info.chat_template, messages, add_generation_prompt, **variables)

    @property
    def _chat(self) -> ChatTemplates:
        if self._chat_templates is None:
            from llmserve.templates import ChatTemplates

            self._chat_templates = ChatTemplates(self._info)
        return self._chat_templates

    @property
    def drafting(self) -> Drafting | None:
        """What requests draft with unless they choose for themselves; `None`: nothing."""
        return self._drafting.current

    def disable_drafting(self) -> None:
        """Later requests do not draft unless they say so; ends what `enable_mtp` and the like began.

        The draft context goes with the last request that uses it.
        """
        self._drafting.set(self._drafting.begin(), None)

    def _let_go(self) -> None:
        self.disable_drafting()


_DEFAULT_PARAMS = SamplingParams()


def sampling_params(params: SamplingParams | None, overrides: Mapping[str, Any]) -> SamplingParams:
    """Parameters with some fields replaced. Raises `TypeError` for an unknown field."""
    params = params or _DEFAULT_PARAMS
    return params.replace(**overrides) if overrides else params


def prompt_arguments(
    prompt: PromptT | ChatPrompt, add_special: bool, parse_special: bool
) -> tuple[PromptT | str, bool, Special]:
    """A prompt for the engine: text or ids, whether BOS is added, and what control tokens' text becomes."""
    if isinstance(prompt, ChatPrompt):
        return prompt.marked, add_special, "marked"
    if _is_conversation(prompt):
        raise InvalidParameterError(
            "must be a text, token ids or a `ChatPrompt`, got messages: call `chat(messages)`, or give what "
            "`chat_prompt(messages)` makes of them",
            field="prompt",
        )
    return prompt, add_special, "control" if parse_special else "plain"


def _is_conversation(prompt: object) -> bool:
    if isinstance(prompt, Mapping):
        return True
    return isinstance(prompt, Sequence) and any(isinstance(first, Mapping) for first in prompt[:1])


def _check_template(source: str) -> None:
    from llmserve.templates import check

    try:
        check(source)
    except TemplateError as error:
        raise LoadError(str(error), reason="invalid_option", field="chat_template") from None


def check_length(core: _core.Engine, info: ModelInfo, prompt: object) -> None:
    """Refuse token ids that cannot fit before they are converted: there may be millions.

    Raises `ContextExceededError`, and what `check_alive` raises.
    """
    limit = info.context_length
    if not isinstance(prompt, str | bytes) and isinstance(prompt, Sized) and len(prompt) >= limit:
        core.check_alive()
        raise ContextExceededError(
            f"prompt: {len(prompt)} tokens leave no room for output in the context length of {limit} tokens",
            prompt_tokens=len(prompt),
            context_length=limit,
        )
