"""The old name of `webtraj.environments.browser.access`."""

from __future__ import annotations

import warnings
from typing import Any

from webtraj.environments.browser import access

__all__: list[str] = []


def __getattr__(name: str) -> Any:
    value = getattr(access, name)
    warnings.warn(
        f"{__name__} is now {access.__name__}; import {name} from there.",
        DeprecationWarning,
        stacklevel=2,
    )
    return value
