"""What both bridges do alike: forward attributes, tell kinds of environment, refuse copies."""

from __future__ import annotations

import inspect
from typing import Any, NoReturn

__all__ = ["WrapsEnvironment", "is_async"]

_NO_COPY = (
    "{bridge} cannot be pickled or copied: it owns a thread and the environment that lives there. "
    "Send a function that builds the environment instead, and call as_sync or as_async there."
)


class WrapsEnvironment:
    """A bridge around `_environment`, whose attributes stay reachable through the bridge."""

    _environment: Any

    @property
    def environment_name(self) -> str:
        """The name of the wrapped environment, usually its class, for the record."""
        name = getattr(self._environment, "environment_name", None)
        return name if isinstance(name, str) else type(self._environment).__name__

    def __getattr__(self, name: str) -> Any:
        # Dunders are the bridge's own affair: forwarded, they would make copy and pickle answer for
        # the wrong object. `_environment` is missing only while under construction.
        if name == "_environment" or (name.startswith("__") and name.endswith("__")):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return getattr(self._environment, name)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._environment!r})"

    def __reduce__(self) -> NoReturn:
        raise TypeError(_NO_COPY.format(bridge=type(self).__name__))


def is_async(environment: Any) -> bool:
    """Returns whether an environment follows webtraj's asynchronous contract, not dm_env's."""
    return hasattr(type(environment), "__aenter__") or inspect.iscoroutinefunction(
        getattr(environment, "step", None)
    )
