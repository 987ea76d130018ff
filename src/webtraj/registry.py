"""The registry: presets by name, and environments made from them.

A preset is a name, a factory and, usually, a list of tasks. Reading about it (`info`) is cheap;
making it (`make`) may open a browser. A factory is called as `factory(tasks, **kwargs)` with the
tuple of selected tasks, or as `factory(**kwargs)` if the preset has no list of tasks. A factory
that is slow to import is registered as `"package.module:name"` and imported on first use. Factories
never see a trajectory collector: `make` wraps their environment if there is one. So a factory that
knows nothing of recording is recorded like any other.

Presets come from three places: the built-in ones, those that installed packages offer through the
entry-point group `webtraj.presets` (an entry point names a function without arguments that calls
`register`), and those that a program registers itself. Packages are searched when the registry is
first read, never at import.

A selector names a preset, here `p`, and selects some of its tasks. Numbers are decimal, from 0:

| selector | tasks |
|---|---|
| `p` | all |
| `p:5` | the sixth |
| `p:0:10`, `p:5:`, `p::10` | from the first number up to, not including, the second |
| `p@2/8` | the third of eight shards |

Shards are consecutive, cover every task once, and differ in size by at most one. A selector that
selects nothing is an error, since nobody means to run no tasks.
"""

from __future__ import annotations

import dataclasses
import difflib
import functools
import importlib
import inspect
import os
import re
import threading
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar, cast, overload

from webtraj import errors
from webtraj.settings import credentials

if TYPE_CHECKING:
    from webtraj.collectors.base import TrajectoryCollector
    from webtraj.environments.base import Environment
    from webtraj.environments.collecting_environment import TrajectoryCollectingEnvironment

__all__ = [
    "ENTRY_POINT_GROUP",
    "PresetInfo",
    "PresetPluginWarning",
    "SelectedPreset",
    "info",
    "make",
    "names",
    "parse_selector",
    "register",
    "select",
    "unregister",
]

_F = TypeVar("_F", bound=Callable[..., Any] | str)
_T = TypeVar("_T")

Factory: TypeAlias = "Callable[..., Environment] | str"
"""A function that makes the environment, or its `package.module:name`."""

Tasks: TypeAlias = Sequence[Any] | Callable[[], Sequence[Any]]
"""The tasks to select from, or a function that returns them."""

ENTRY_POINT_GROUP = "webtraj.presets"
"""The entry-point group. An entry point names a function without arguments that registers."""

_IMPORTABLE = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")

_NAME = "[a-zA-Z0-9_./-]+"
# Nine digits are enough for any number of tasks, and below the limits of int().
_NUMBER = "[0-9]{1,9}"
_SELECTOR = re.compile(
    rf"(?P<name>{_NAME})"
    rf"(?: :(?P<index>{_NUMBER})"
    rf"| :(?P<start>{_NUMBER})?:(?P<stop>{_NUMBER})?"
    rf"| @(?P<shard>{_NUMBER})/(?P<count>{_NUMBER}))?",
    re.VERBOSE,
)
_EXPECTED = (
    "expected 'name', 'name:5', 'name:0:10', 'name:5:', 'name::10' or 'name@2/8', with a name of "
    "letters, digits and _ . / -"
)

_presets: dict[str, Preset] = {}
_lock = threading.RLock()
_builtin_loaded = False
_plugins_loaded = False


class PresetPluginWarning(UserWarning):
    """The presets of an installed package could not be loaded."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class PresetInfo:
    """Facts about a preset, known without making it."""

    name: str
    """The name to pass to `make`."""
    description: str = ""
    """A description of one line."""
    num_tasks: int | None = None
    """The number of tasks to select from; None if the preset has no list of tasks."""
    uses_browser: bool = False
    """Whether its factory takes `pool`, a `BrowserPool` to share."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Preset:
    """A registered preset."""

    name: str
    factory: Factory
    description: str
    tasks: Tasks | None
    uses_browser: bool

    def get_factory(self) -> Callable[..., Environment]:
        """Return the factory, importing it if necessary."""
        if not isinstance(self.factory, str):
            return self.factory
        module, _, name = self.factory.partition(":")
        return cast("Callable[..., Environment]", getattr(importlib.import_module(module), name))

    def list_tasks(self) -> Sequence[Any] | None:
        """Return the tasks to select from; None if the preset has no list."""
        return self.tasks() if callable(self.tasks) else self.tasks

    def describe(self) -> PresetInfo:
        """Return facts about the preset without making it."""
        tasks = self.list_tasks()
        return PresetInfo(
            name=self.name,
            description=self.description,
            num_tasks=None if tasks is None else len(tasks),
            uses_browser=self.uses_browser,
        )


@dataclasses.dataclass(frozen=True, slots=True)
class SelectedPreset:
    """A preset with its selected tasks."""

    preset: Preset
    tasks: tuple[Any, ...] | None
    """The selected tasks; None if the preset has no list of tasks."""

    @property
    def name(self) -> str:
        """The preset's name."""
        return self.preset.name

    @property
    def uses_browser(self) -> bool:
        """Whether `make` takes `pool`, a `BrowserPool` to share."""
        return self.preset.uses_browser

    def split(self) -> tuple[SelectedPreset, ...]:
        """Return one selection for each task, in order."""
        if self.tasks is None:
            return (self,)
        return tuple(SelectedPreset(self.preset, (task,)) for task in self.tasks)

    def make(self, **kwargs: Any) -> Environment:
        """Make the environment, unrecorded.

        Raises:
            InvalidInputError: An argument of the factory is unknown or missing.
        """
        args = () if self.tasks is None else (self.tasks,)
        factory = self.preset.get_factory()
        _check_arguments(self.name, factory, args, kwargs)
        return factory(*args, **kwargs)


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
    """Register a preset; without `factory`, return a decorator that does.

    >>> @register("doctest/greeting", tasks=("hello", "goodbye"))
    ... def make_greeting(tasks, *, polite=True):
    ...     '''Says each task in turn.'''
    >>> info("doctest/greeting").description
    'Says each task in turn.'
    >>> unregister("doctest/greeting")

    Args:
        name: Letters, digits and `_ . / -`.
        factory: A function that returns an environment, called as `factory(tasks, **kwargs)` with
            the tuple of selected tasks, or as `factory(**kwargs)` if `tasks` is None. May be given
            as `"package.module:name"`, to import it on first use. Returned unchanged.
        description: One line; by default the first line of the factory's docstring.
        tasks: The tasks to select from: a sequence, or a function called each time that returns
            one; None if the preset has no list.
        uses_browser: Whether the factory takes `pool`, so that a rollout's workers share one
            browser pool.

    Raises:
        InvalidInputError: The name is malformed or taken, or the factory cannot be called.
    """
    if not isinstance(name, str) or not re.fullmatch(_NAME, name):
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
            f"The factory of preset {name!r} must be callable or a string "
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
                f"The preset {name!r} is already registered. Choose another name, or call "
                f"webtraj.unregister({name!r}) first."
            )
        _presets[name] = preset
    return factory


def unregister(name: str) -> None:
    """Remove a preset.

    Raises:
        UnknownPresetError: No preset has that name.
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
    """Return facts about a preset, or about all of them, sorted by name.

    Makes nothing and imports nothing heavy.

    Raises:
        UnknownPresetError: No preset has that name.
    """
    _load_all()
    if name is not None:
        return _find(name).describe()
    with _lock:
        presets = sorted(_presets.values(), key=lambda preset: preset.name)
    return tuple(preset.describe() for preset in presets)


def names() -> tuple[str, ...]:
    """Return the names of all presets, sorted. This is faster than `info`."""
    _load_all()
    with _lock:
        return tuple(sorted(_presets))


def select(selector: str) -> SelectedPreset:
    """Return the preset and the tasks that a selector selects. See the module for the grammar.

    Raises:
        InvalidSelectorError: The selector is malformed, or the preset has no such tasks.
        UnknownPresetError: No preset has that name.
    """
    name, choose = parse_selector(selector)
    _load_builtin()
    if name not in _presets:  # Packages never replace a built-in preset.
        _load_all()
    preset = _find(name)
    tasks = preset.list_tasks()
    if tasks is None:
        if selector != name:
            raise errors.InvalidSelectorError(
                f"Invalid selector {selector!r}: the preset {name!r} has no list of tasks to "
                f"select from. Use {name!r}."
            )
        return SelectedPreset(preset, None)
    try:
        return SelectedPreset(preset, choose(tasks))
    except errors.InvalidSelectorError as error:
        raise errors.InvalidSelectorError(f"Invalid selector {selector!r}: {error}") from None


def parse_selector(text: str) -> tuple[str, Callable[[Sequence[_T]], tuple[_T, ...]]]:
    """Return the preset's name, and a function that selects from its tasks.

    >>> name, choose = parse_selector("miniwob/all::2")
    >>> name, choose("abc")
    ('miniwob/all', ('a', 'b'))

    Raises:
        InvalidSelectorError: The text does not follow the grammar. The returned function raises it
            if the selection would be empty.
    """
    match = _SELECTOR.fullmatch(text) if isinstance(text, str) else None
    if match is None:
        from webtraj.store.places import is_url

        if is_url(text):
            raise errors.InvalidSelectorError(
                f"{text!r:.200} is a URL, but not of a task file, whose name ends in .jsonl or "
                ".parquet."
            )
        raise errors.InvalidSelectorError(f"Invalid selector {text!r}: {_EXPECTED}.")
    if match[0].endswith(":") and match["start"] is None:
        raise errors.InvalidSelectorError(
            f"Invalid selector {text!r}: a range needs a first or a last number; "
            f"{match['name']!r} alone means all. In full: {_EXPECTED}."
        )
    return match["name"], functools.partial(_choose, match)


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
    """Make the environment that a selector selects.

    Args:
        selector: A preset, or some of its tasks: `miniwob/click-test`, `miniwob/all@2/8`.
        trajectory_collector: Records every episode, if given; the caller closes it.
        episode_info: Facts for the records of its episodes, as taken by
            `TrajectoryCollectingEnvironment`. Unused without a collector.
        **kwargs: Arguments for the preset's factory.

    Raises:
        InvalidSelectorError: The selector is malformed, or the preset has no such tasks.
        UnknownPresetError: No preset has that name.
        InvalidInputError: An argument of the factory is unknown or missing.
        MissingDependencyError: The preset needs a package that is not installed.
    """
    environment = select(selector).make(**kwargs)
    if trajectory_collector is None:
        return environment
    from webtraj.environments import collecting_environment

    return collecting_environment.TrajectoryCollectingEnvironment(
        environment, trajectory_collector, episode_info=episode_info
    )


def _find(name: str) -> Preset:
    try:
        return _presets[name]
    except KeyError:
        from webtraj.settings.named import check_installed  # Imports pydantic, which costs time.

        check_installed(ENTRY_POINT_GROUP, name.partition("/")[0])
        raise errors.UnknownPresetError(_unknown(name)) from None


def _unknown(name: str) -> str:
    nearest = difflib.get_close_matches(name, _presets, n=5, cutoff=0.5)
    hint = f"Did you mean {' or '.join(map(repr, nearest))}? " if nearest else ""
    if os.path.isfile(name):  # noqa: PTH113  # False for what can be no path.
        hint = "The name of a task file ends in .jsonl or .parquet. "
    return (
        f"No preset is named {name!r}. {hint}`webtraj presets` lists all {len(_presets)}; to use a "
        "preset of your own, import the module that registers it (--import)."
    )


def _first_line(factory: Callable[..., Any] | str) -> str:
    return "" if isinstance(factory, str) else (inspect.getdoc(factory) or "").partition("\n")[0]


def _load_builtin() -> None:
    global _builtin_loaded
    with _lock:
        if not _builtin_loaded:
            _builtin_loaded = True  # First, because the calls below register.
            try:
                _all_or_none(_register_ours)
            except BaseException:
                _builtin_loaded = False
                raise


def _load_all() -> None:
    global _plugins_loaded
    _load_builtin()
    with _lock:
        if not _plugins_loaded:
            _plugins_loaded = True
            try:
                _all_or_none(_load_plugins)
            except BaseException:
                _plugins_loaded = False
                raise


def _all_or_none(load: Callable[[], None]) -> None:
    """Register all presets, or none if it is interrupted. Then the next call registers all."""
    before = dict(_presets)
    try:
        load()
    except BaseException:  # Such as Ctrl-C.
        _presets.clear()
        _presets.update(before)
        raise


def _choose(match: re.Match[str], tasks: Sequence[_T]) -> tuple[_T, ...]:
    if not tasks:
        raise errors.InvalidSelectorError(
            "The preset's list of tasks is empty: there is nothing to select from."
        )
    count = len(tasks)
    if match["index"] is not None:
        index = int(match["index"])
        if index >= count:
            raise errors.InvalidSelectorError(
                f"The selector ':{index}' selects task {index}, but the preset has {count}: give "
                f"an index from 0 to {count - 1}."
            )
        return (tasks[index],)
    if match["shard"] is not None:
        start, stop = _shard(int(match["shard"]), int(match["count"]), count)
    else:
        start = int(match["start"] or 0)
        stop = count if match["stop"] is None else int(match["stop"])
        said = f":{start}:{match['stop'] or ''}"
        if match["stop"] is not None and start >= stop:
            raise errors.InvalidSelectorError(
                f"The range {said!r} is empty: it must start before it stops."
            )
        if start >= count:
            raise errors.InvalidSelectorError(
                f"The range {said!r} starts at task {start}, but the preset has {count}: start "
                f"from 0 to {count - 1}."
            )
    return tuple(tasks[start:stop])


def _shard(index: int, shards: int, count: int) -> tuple[int, int]:
    """Return the start and stop of one of several even, consecutive shards of some tasks."""
    if index >= shards:
        valid = f"give one from 0 to {shards - 1}" if shards > 0 else "use 1 or more"
        raise errors.InvalidSelectorError(
            f"There is no shard {index} of {shards} ('@{index}/{shards}'): {valid}."
        )
    # Fail for every shard, even one that would get a task, so that a run over all fails as one.
    if shards > count:
        raise errors.InvalidSelectorError(
            f"The selector '@{index}/{shards}' divides {count} tasks among {shards} shards, which "
            f"leaves some empty: use at most {count} shards."
        )
    return index * count // shards, (index + 1) * count // shards


def _check_arguments(
    name: str, factory: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> None:
    """Check the arguments before the call, so that a TypeError from the factory is not hidden."""
    try:
        signature = inspect.signature(factory)
    except ValueError:  # Some builtins have no signature.
        return
    try:
        signature.bind(*args, **kwargs)
    except TypeError as error:
        from webtraj.settings.named import nearest  # Imports pydantic, which costs time.

        parameters = list(signature.parameters.values())[len(args) :]
        names = [parameter.name for parameter in parameters]
        takes = f"It takes: {', '.join(names) or 'no options'}."
        shown = credentials.conceal_data(kwargs)
        given = ", ".join(f"{key}={value!r:.60}" for key, value in shown.items()) or "none"
        unknown = [key for key in kwargs if key not in names]
        if unknown:
            raise errors.InvalidInputError(
                f"The preset {name!r} has no option {unknown[0]!r:.60}; got "
                f"{unknown[0]:.60}={shown[unknown[0]]!r:.60}. {nearest(unknown[0], names)}{takes}"
            ) from None
        raise errors.InvalidInputError(
            f"Cannot make the preset {name!r}: {error}. Given: {given}. {takes}"
        ) from None


def _load_plugins() -> None:
    """Let every installed package register its presets. A failure is only a warning."""
    from webtraj.settings import installed  # Built-in presets do without.

    for entry_point in installed.entry_points(ENTRY_POINT_GROUP).values():
        try:
            entry_point.load()()
        except Exception as error:  # Third-party code must not stop the rest.
            package = entry_point.dist.name if entry_point.dist else "an unknown package"
            warnings.warn(
                f"Could not load the presets of {package} ({entry_point.name} = "
                f"{entry_point.value}): {type(error).__name__}: {error}",
                PresetPluginWarning,
                stacklevel=2,
            )


_MINIWOB = "webtraj.environments.miniwob:MiniwobEnvironment"
_WEB = "webtraj.environments.browser.environment:make_web_environment"


def _register_ours() -> None:
    """Register the built-in presets without importing a browser."""
    from webtraj.environments.miniwob.tasks import SUBSETS, TASKS

    def ours(name: str, factory: str, description: str, tasks: Tasks | None = None) -> None:
        register(name, factory, description=description, tasks=tasks, uses_browser=True)

    for task in TASKS:
        ours(f"miniwob/{task}", _MINIWOB, f"The MiniWoB++ page {task}.", (task,))
    for subset, tasks in SUBSETS.items():
        described = f"The MiniWoB++ pages of the subset {subset!r}, one after the other."
        ours(f"miniwob/{subset}", _MINIWOB, described, tasks)
    described = "The MiniWoB++ pages that the oracle agent can play."
    ours("miniwob/solved", _MINIWOB, described, _list_solved_miniwob)
    ours("web", _WEB, "Any web site: make('web', task=WebTask(goal=..., start_url=...)).")


def _list_solved_miniwob() -> tuple[str, ...]:
    from webtraj.environments.miniwob import oracles

    return oracles.list_solved_tasks()
