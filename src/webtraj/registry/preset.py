"""What a preset is, and how an environment is made from it."""

from __future__ import annotations

import dataclasses
import importlib
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from webtraj import credentials, errors

if TYPE_CHECKING:
    from webtraj.environments.base import Environment

__all__ = ["Factory", "Preset", "PresetInfo", "SelectedPreset", "Tasks"]

Factory: TypeAlias = "Callable[..., Environment] | str"
"""What makes the environment, or `package.module:name` of that."""

Tasks: TypeAlias = Sequence[Any] | Callable[[], Sequence[Any]]
"""What a selector chooses from, or a function that returns it."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class PresetInfo:
    """What is known of a preset without making it."""

    name: str
    """The name it is made by."""
    description: str = ""
    """What it is, in a line."""
    num_tasks: int | None = None
    """How many tasks a selector chooses from; None if the preset has no list of tasks."""
    uses_browser: bool = False
    """Whether its factory takes `pool`, a `BrowserPool` to share."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Preset:
    """What was registered."""

    name: str
    factory: Factory
    description: str
    tasks: Tasks | None
    uses_browser: bool

    def get_factory(self) -> Callable[..., Environment]:
        """Returns the factory, imported if need be."""
        if not isinstance(self.factory, str):
            return self.factory
        module, _, name = self.factory.partition(":")
        return cast("Callable[..., Environment]", getattr(importlib.import_module(module), name))

    def list_tasks(self) -> Sequence[Any] | None:
        """Returns what a selector chooses from; None if there is nothing to choose."""
        return self.tasks() if callable(self.tasks) else self.tasks

    def describe(self) -> PresetInfo:
        """Returns what is known of the preset without making it."""
        tasks = self.list_tasks()
        return PresetInfo(
            name=self.name,
            description=self.description,
            num_tasks=None if tasks is None else len(tasks),
            uses_browser=self.uses_browser,
        )


@dataclasses.dataclass(frozen=True, slots=True)
class SelectedPreset:
    """A preset with the tasks that a selector chose of it."""

    preset: Preset
    tasks: tuple[Any, ...] | None
    """The chosen tasks; None if the preset has no list of tasks."""

    @property
    def name(self) -> str:
        """The preset's name."""
        return self.preset.name

    @property
    def uses_browser(self) -> bool:
        """Whether `make` takes `pool`, a `BrowserPool` to share."""
        return self.preset.uses_browser

    def split(self) -> tuple[SelectedPreset, ...]:
        """Returns one selection for each task, in order."""
        if self.tasks is None:
            return (self,)
        return tuple(SelectedPreset(self.preset, (task,)) for task in self.tasks)

    def make(self, **kwargs: Any) -> Environment:
        """Makes the environment, unrecorded.

        Raises:
            InvalidInputError: The factory does not take one of the arguments, or needs another.
        """
        args = () if self.tasks is None else (self.tasks,)
        factory = self.preset.get_factory()
        _check_arguments(self.name, factory, args, kwargs)
        return factory(*args, **kwargs)


def _check_arguments(
    name: str, factory: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> None:
    """Checks a call before it is made, so that a TypeError from inside the factory stays one."""
    try:
        signature = inspect.signature(factory)
    except ValueError:  # Some builtins have none.
        return
    try:
        signature.bind(*args, **kwargs)
    except TypeError as error:
        from webtraj.named import nearest  # Imports pydantic, which costs time.

        parameters = list(signature.parameters.values())[len(args) :]
        names = [parameter.name for parameter in parameters]
        takes = f"It takes: {', '.join(names) or 'no options'}."
        shown = credentials.concealed(kwargs)
        given = ", ".join(f"{key}={value!r:.60}" for key, value in shown.items()) or "none"
        unknown = [key for key in kwargs if key not in names]
        if unknown:
            raise errors.InvalidInputError(
                f"The preset {name!r} has no option {unknown[0]!r:.60}; given: {given}. "
                f"{nearest(unknown[0], names)}{takes}"
            ) from None
        raise errors.InvalidInputError(
            f"The preset {name!r} cannot be made ({error}). Given: {given}. {takes}"
        ) from None
