"""The registry: presets by name, and environments made from them.

A preset is a name, a factory and, usually, a list of tasks. What is known of it (`info`) is cheap;
making it (`make`) may open a browser. A factory is called as `factory(tasks, **kwargs)` with the
tuple of selected tasks, or as `factory(**kwargs)` if the preset has no list of tasks; one that is
costly to import is registered as `"package.module:name"` and imported when first made. It never
sees a trajectory collector: `make` wraps what it returns, and only if there is a collector. So a
factory written before recording existed, or that never heard of it, records like any other.

Presets come from three places: those that ship (`webtraj.presets`), those that installed packages
offer through the entry-point group `webtraj.presets` (an entry point names a function without
arguments that calls `register`), and those that a program registers itself. The second kind is
looked for when the registry is first read, never at import.
"""

from __future__ import annotations

import difflib
import inspect
import re
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar, overload

from webtraj import errors
from webtraj import selectors as selectors_lib
from webtraj.registry import plugins
from webtraj.registry.plugins import ENTRY_POINT_GROUP, PresetPluginWarning
from webtraj.registry.preset import Preset, PresetInfo, SelectedPreset, Tasks

if TYPE_CHECKING:
    from webtraj.collectors.base import TrajectoryCollector
    from webtraj.environments.base import Environment
    from webtraj.environments.collecting import TrajectoryCollectingEnvironment

__all__ = [
    "ENTRY_POINT_GROUP",
    "PresetInfo",
    "PresetPluginWarning",
    "SelectedPreset",
    "info",
    "make",
    "register",
    "select",
    "unregister",
]

_F = TypeVar("_F", bound=Callable[..., Any] | str)

_IMPORTABLE = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")

_presets: dict[str, Preset] = {}
_lock = threading.RLock()
_builtin_loaded = False
_plugins_loaded = False


@overload
def register(
    name: str,
    factory: None = None,
    *,
    description: str = "",
    tasks: Tasks | None = None,
    uses_browser: bool = False,
) -> Callable[[_F], _F]: ...


@overload
def register(
    name: str,
    factory: _F,
    *,
    description: str = "",
    tasks: Tasks | None = None,
    uses_browser: bool = False,
) -> _F: ...


def register(
    name: str,
    factory: _F | None = None,
    *,
    description: str = "",
    tasks: Tasks | None = None,
    uses_browser: bool = False,
) -> _F | Callable[[_F], _F]:
    """Registers a preset; without `factory`, returns a decorator that does.

    >>> @register("doctest/greeting", tasks=("hello", "goodbye"))
    ... def make_greeting(tasks, *, polite=True):
    ...     '''Says each task in turn.'''
    >>> info("doctest/greeting").description
    'Says each task in turn.'
    >>> unregister("doctest/greeting")

    Args:
        name: Letters, digits and `_ . / -`.
        factory: Called as `factory(tasks, **kwargs)` with the tuple of selected tasks, or as
            `factory(**kwargs)` if `tasks` is None, it returns an environment. May be given as
            `"package.module:name"`, to be imported when first made. Returned unchanged.
        description: What the preset is, in a line; by default the docstring's first.
        tasks: What a selector chooses from: a sequence, or a function returning one that is asked
            each time; or None.
        uses_browser: Whether the factory takes `pool`, so that a rollout shares one browser pool
            among its workers.

    Raises:
        InvalidInputError: The name is malformed or taken, or the factory cannot be called.
    """
    if not isinstance(name, str) or not re.fullmatch(selectors_lib.NAME_PATTERN, name):
        raise errors.InvalidInputError(
            f"Invalid preset name {name!r}: expected letters, digits and _ . / - only "
            "(':' and '@' belong to selectors)."
        )
    if factory is None:
        return lambda decorated: register(
            name, decorated, description=description, tasks=tasks, uses_browser=uses_browser
        )
    if not (callable(factory) or (isinstance(factory, str) and _IMPORTABLE.fullmatch(factory))):
        raise errors.InvalidInputError(
            f"The factory of preset {name!r} must be callable, or be named as "
            f"'package.module:name'; got {factory!r}."
        )
    preset = Preset(
        name=name,
        factory=factory,
        description=description or _first_line(factory),
        tasks=tasks if tasks is None or callable(tasks) else tuple(tasks),
        uses_browser=uses_browser,
    )
    _load_builtin()
    with _lock:
        if name in _presets:
            raise errors.InvalidInputError(
                f"The preset {name!r} is registered already: choose another name, or call "
                f"webtraj.unregister({name!r}) first."
            )
        _presets[name] = preset
    return factory


def unregister(name: str) -> None:
    """Forgets a preset.

    Raises:
        UnknownPresetError: There is none of that name.
    """
    _load_all()
    with _lock:
        _find(name)
        del _presets[name]


@overload
def info(name: str) -> PresetInfo: ...


@overload
def info(name: None = None) -> tuple[PresetInfo, ...]: ...


def info(name: str | None = None) -> PresetInfo | tuple[PresetInfo, ...]:
    """Returns what is known of a preset, or of all of them in the order of their names.

    Makes nothing and imports nothing heavy.

    Raises:
        UnknownPresetError: There is no preset of that name.
    """
    _load_all()
    if name is not None:
        return _find(name).describe()
    with _lock:
        presets = sorted(_presets.values(), key=lambda preset: preset.name)
    return tuple(preset.describe() for preset in presets)


def select(selector: str) -> SelectedPreset:
    """Returns the preset and the tasks that a selector means. The grammar: `webtraj.selectors`.

    Raises:
        InvalidSelectorError: The selector is malformed, or the preset has no such tasks.
        UnknownPresetError: There is no preset of that name.
    """
    name, selection = selectors_lib.parse_selector(selector)
    _load_all()
    preset = _find(name)
    tasks = preset.list_tasks()
    if tasks is None:
        if selection != selectors_lib.AllTasks():
            raise errors.InvalidSelectorError(
                f"Invalid selector {selector!r}: the preset {name!r} has no list of tasks to "
                f"choose from; use {name!r}."
            )
        return SelectedPreset(preset, None)
    try:
        return SelectedPreset(preset, selection(tasks))
    except errors.InvalidSelectorError as error:
        raise errors.InvalidSelectorError(f"Invalid selector {selector!r}: {error}") from None


@overload
def make(
    selector: str,
    *,
    trajectory_collector: None = None,
    episode_info: Any = None,
    **kwargs: Any,
) -> Environment: ...


@overload
def make(
    selector: str,
    *,
    trajectory_collector: TrajectoryCollector,
    episode_info: Any = None,
    **kwargs: Any,
) -> TrajectoryCollectingEnvironment: ...


def make(
    selector: str,
    *,
    trajectory_collector: TrajectoryCollector | None = None,
    episode_info: Any = None,
    **kwargs: Any,
) -> Environment | TrajectoryCollectingEnvironment:
    """Makes the environment that a selector names.

    Args:
        selector: A preset, or some of its tasks: `miniwob/click-test`, `miniwob/all@2/8`.
        trajectory_collector: Records every episode, if given; the caller closes it.
        episode_info: What the record should say of its episodes, as
            `TrajectoryCollectingEnvironment` takes it. Unused without a collector.
        **kwargs: For the preset's factory.

    Raises:
        InvalidSelectorError: The selector is malformed, or the preset has no such tasks.
        UnknownPresetError: There is no preset of that name.
        InvalidInputError: The factory does not take one of the arguments, or needs another.
        MissingDependencyError: The preset needs a package that is not installed.
    """
    environment = select(selector).make(**kwargs)
    if trajectory_collector is None:
        return environment
    from webtraj.environments import collecting

    return collecting.TrajectoryCollectingEnvironment(
        environment, trajectory_collector, episode_info=episode_info
    )


def _find(name: str) -> Preset:
    try:
        return _presets[name]
    except KeyError:
        raise errors.UnknownPresetError(_unknown(name)) from None


def _unknown(name: str) -> str:
    nearest = difflib.get_close_matches(name, _presets, n=5, cutoff=0.5)
    hint = f"Did you mean {' or '.join(map(repr, nearest))}? " if nearest else ""
    return f"No preset is named {name!r}. {hint}`webtraj presets` lists all {len(_presets)}."


def _first_line(factory: Callable[..., Any] | str) -> str:
    return "" if isinstance(factory, str) else (inspect.getdoc(factory) or "").partition("\n")[0]


def _load_builtin() -> None:
    global _builtin_loaded
    with _lock:
        if _builtin_loaded:
            return
        _builtin_loaded = True  # First, since what follows registers.
        before = dict(_presets)
        try:
            from webtraj import presets

            presets.register_presets()
        except BaseException:  # A Ctrl-C, say: the next call registers all of them again.
            _restore(before)
            _builtin_loaded = False
            raise


def _load_all() -> None:
    global _plugins_loaded
    _load_builtin()
    with _lock:
        if _plugins_loaded:
            return
        _plugins_loaded = True
        before = dict(_presets)
        try:
            plugins.load_plugins()
        except BaseException:
            _restore(before)
            _plugins_loaded = False
            raise


def _restore(presets: dict[str, Preset]) -> None:
    _presets.clear()
    _presets.update(presets)
