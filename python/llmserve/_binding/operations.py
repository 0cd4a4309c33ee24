"""Operations of the Python API: each is written once, and awaited or called."""

from __future__ import annotations

import functools
import types
from collections.abc import Callable, Coroutine
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar, overload

from llmserve._binding.awaited import Awaited
from llmserve._binding.blocking import Blocking, run

__all__ = ["operation"]

S = TypeVar("S")
P = ParamSpec("P")
R = TypeVar("R")


class operation(Generic[S, P, R]):  # noqa: N801 - a decorator, like `property`
    """Makes a method of a `Waiting` class an operation.

    An `Awaited` subclass has the coroutine function itself. A `Blocking` one has a function that runs it to
    its end and gives what it returns. What waits in it must come from `Waiting`.
    """

    def __init__(self, steps: Callable[Concatenate[S, P], Coroutine[Any, Any, R]]) -> None:
        @functools.wraps(steps)
        def call(handle: S, *args: P.args, **kwargs: P.kwargs) -> R:
            return run(steps(handle, *args, **kwargs))

        self._steps = steps
        self._call = call

    @overload
    def __get__(self, handle: Awaited, owner: type) -> Callable[P, Coroutine[Any, Any, R]]: ...
    @overload
    def __get__(self, handle: Blocking, owner: type) -> Callable[P, R]: ...
    @overload
    def __get__(self, handle: None, owner: type[Blocking]) -> Callable[Concatenate[S, P], R]: ...
    @overload
    def __get__(self, handle: None, owner: type) -> Callable[Concatenate[S, P], Coroutine[Any, Any, R]]: ...
    def __get__(self, handle: object, owner: type) -> Callable[..., Any]:
        function = self._call if issubclass(owner, Blocking) else self._steps
        return function if handle is None else types.MethodType(function, handle)
