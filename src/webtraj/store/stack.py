"""Room for deep recursion: Python counts stack frames by thread."""

from __future__ import annotations

import concurrent.futures
from collections.abc import Callable
from typing import ParamSpec, TypeVar

__all__ = ["call_on_fresh_stack"]

_P = ParamSpec("_P")
_T = TypeVar("_T")


def call_on_fresh_stack(function: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> _T:
    """Returns `function(*args, **kwargs)`, called where no stack frames are in use yet.

    For values so deeply nested that following them would exceed Python's recursion limit. It costs
    a thread.
    """
    with concurrent.futures.ThreadPoolExecutor(1, "webtraj-stack") as executor:
        return executor.submit(function, *args, **kwargs).result()
