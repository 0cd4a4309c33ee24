"""How an engine guesses the next tokens of a request, to compute several in one step."""

from __future__ import annotations

import threading
from typing import Any, Literal, TypeAlias

from llmserve import _core
from llmserve.errors import InvalidParameterError

__all__ = ["MAX_DRAFT_LEN", "DefaultDrafting", "DraftMethod", "Drafting", "DraftingOptions"]

DraftMethod: TypeAlias = Literal["mtp", "prompt_lookup"]
MAX_DRAFT_LEN = _core.MAX_DRAFT_TOKENS
_METHODS = ("mtp", "prompt_lookup")

_Argument: TypeAlias = tuple[_core.Head | None, int, bool]


class DraftingOptions:
    """Validated options of a `Drafting`. Raises `InvalidParameterError`, which names the field."""

    __slots__ = ("adaptive", "draft_len", "method")

    def __init__(self, method: DraftMethod, draft_len: int, adaptive: bool) -> None:
        if method not in _METHODS:
            raise _refused("method", "'mtp' or 'prompt_lookup'", method)
        if isinstance(draft_len, bool) or not isinstance(draft_len, int):
            raise _refused("draft_len", "an integer", draft_len)
        if not 1 <= draft_len <= MAX_DRAFT_LEN:
            limit = 1 if draft_len < 1 else MAX_DRAFT_LEN
            raise _refused("draft_len", f"from 1 to {MAX_DRAFT_LEN}", draft_len, limit)
        if not isinstance(adaptive, bool):
            raise _refused("adaptive", "True or False", adaptive)
        self.method: DraftMethod = method
        self.draft_len = draft_len
        self.adaptive = adaptive


class Drafting:
    """How requests draft: with the model's own head (MTP), or by looking the last tokens up in the prompt.

    Made by `open_drafting`. With `mtp` it keeps the engine's draft context open, which is freed with the last
    `Drafting` and the last request that use it. `close()`, leaving `with` or `async with`, or dropping the
    object releases the context; running requests keep drafting.
    """

    __slots__ = ("__weakref__", "_head", "_is_closed", "_options")

    def __init__(self, options: DraftingOptions, head: _core.Head | None) -> None:
        self._options = options
        self._head = head
        self._is_closed = False

    @property
    def method(self) -> DraftMethod:
        """`mtp` or `prompt_lookup`."""
        return self._options.method

    @property
    def draft_len(self) -> int:
        """Maximum number of tokens in one draft."""
        return self._options.draft_len

    @property
    def adaptive(self) -> bool:
        """Whether drafts are shortened or skipped when they do not pay off."""
        return self._options.adaptive

    @property
    def is_closed(self) -> bool:
        """Whether `close` was called."""
        return self._is_closed

    def close(self) -> None:
        """Release the draft context; later requests cannot use this object."""
        self._is_closed = True
        self._head = None

    def __enter__(self) -> Drafting:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def __aenter__(self) -> Drafting:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        closed = ", closed" if self._is_closed else ""
        return f"<Drafting {self.method}, draft_len={self.draft_len}, adaptive={self.adaptive}{closed}>"

    def argument(self) -> _Argument | None:
        """The arguments for the native engine; `None` once closed."""
        # Read first: another thread may close it at any moment.
        head = self._head
        if self._is_closed:
            return None
        return head, self.draft_len, self.adaptive


class DefaultDrafting:
    """The default drafting of an engine's requests. Safe to use from any thread.

    If calls overlap, the one that began last wins: a head takes a moment to open.
    """

    __slots__ = ("_current", "_last_set", "_lock", "_num_calls")

    def __init__(self) -> None:
        # The lock is held for a few instructions only.
        self._lock = threading.Lock()
        self._num_calls = 0
        self._last_set = 0
        self._current: Drafting | None = None

    @property
    def current(self) -> Drafting | None:
        """The default, or `None` for no drafting."""
        return self._current

    def begin(self) -> int:
        """The number of a call that is going to set the default."""
        with self._lock:
            self._num_calls += 1
            return self._num_calls

    def set(self, call: int, drafting: Drafting | None) -> None:
        """End a call: its drafting replaces the default and closes it, unless a later call has set it."""
        with self._lock:
            if call > self._last_set:
                self._last_set = call
                drafting, self._current = self._current, drafting
        if drafting is not None:
            drafting.close()

    def argument(self, drafting: Drafting | Literal[False] | None) -> _Argument | None:
        """How a request drafts: its own choice, or the default if that is `None`.

        Raises `InvalidParameterError` for anything but an open `Drafting`, False and `None`.
        """
        if drafting is None:
            current = self._current
            return None if current is None else current.argument()
        if drafting is False:
            return None
        if not isinstance(drafting, Drafting):
            raise _refused("drafting", "a `Drafting`, False or None", drafting)
        argument = drafting.argument()
        if argument is None:
            raise InvalidParameterError("must not be closed", field="drafting")
        return argument


def _refused(field: str, expected: str, value: Any, limit: float | None = None) -> InvalidParameterError:
    return InvalidParameterError(f"must be {expected}, got {value!r:.80}", field=field, limit=limit)
