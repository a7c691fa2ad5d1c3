"""Makes functions accept keywords in British spelling, in addition to American spelling as in PyTorch."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

from ..errors import error

_Function = TypeVar("_Function", bound=Callable[..., Any])


def also_spelled(**alternatives: str) -> Callable[[_Function], _Function]:
    """Returns a decorator that accepts other spellings of keywords: ``optimized="optimised"`` accepts both. Raises
    WhenceError E0101 if a call passes both."""
    def decorate(function: _Function) -> _Function:
        @functools.wraps(function)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            for name, other in alternatives.items():
                if name in kwargs and other in kwargs:
                    raise error("E0101", "usage", f"{name} and {other} are the same option", "pass only one of them")
                if other in kwargs:
                    kwargs[name] = kwargs.pop(other)
            return function(*args, **kwargs)

        return wrapper  # type: ignore[return-value]

    return decorate
