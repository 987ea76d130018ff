"""Steps by name: built-in ones and a user's own.

The decorator `step` turns a function into a kind of step::

    @step("short-enough", version="1")
    def short_enough(trajectory, *, most=10):
        return trajectory if trajectory.num_steps <= most else Drop("too long")

    Pipeline([short_enough(most=5)])

The command line uses it by name. A user's module is imported on request (`--import`), never because
a file of a dataset names it. An installed package adds steps through the entry-point group
`webtraj.steps`.
"""

from __future__ import annotations

import dataclasses
import inspect
import json
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any

from webtraj import errors
from webtraj.agents.models.base import ModelClient
from webtraj.processing.base import OrderedStep, Result, Step
from webtraj.processing.steps import STEPS, step_class
from webtraj.settings.named import class_at, find_offered, nearest
from webtraj.trajectory import EpisodeTrajectory

__all__ = [
    "ENTRY_POINT_GROUP",
    "MAIN_OPTIONS",
    "FunctionStep",
    "StepKind",
    "make_step",
    "parse_step",
    "step",
    "step_names",
]

ENTRY_POINT_GROUP = "webtraj.steps"

MAIN_OPTIONS: Mapping[str, str] = {
    "judge": "by",
    "filter": "where",
    "filter-outcome": "outcomes",
    "filter-site": "sites",
    "filter-task": "tasks",
    "dedupe": "threshold",
    "clean": "min_steps",
}
"""The option that `NAME:VALUE` sets."""

_NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
_Function = Callable[..., "Result | Awaitable[Result]"]


@dataclasses.dataclass(frozen=True, slots=True)
class FunctionStep:
    """A step that calls a function."""

    function: _Function = dataclasses.field(repr=False)
    name: str
    version: str
    settings: Mapping[str, Any]
    client: ModelClient | None = dataclasses.field(default=None, repr=False)
    """The client of the model, if the function takes one."""

    def __call__(self, trajectory: EpisodeTrajectory) -> Result | Awaitable[Result]:
        """Call the function on a trajectory."""
        more = {} if self.client is None else {"client": self.client}
        return self.function(trajectory, **self.settings, **more)


@dataclasses.dataclass(frozen=True, slots=True)
class StepKind:
    """A kind of step based on a function; calling it with options makes a step."""

    function: _Function
    name: str
    version: str

    def __call__(self, *, client: ModelClient | None = None, **options: Any) -> FunctionStep:
        """Make a step.

        Args:
            client: The client of the model, if the function takes a `client`.
            options: Plain data. Missing options have the function's defaults.

        Raises:
            InvalidInputError: An option is unknown, or a required one is missing.
        """
        known = _options_of(self.function)
        wanted = [name for name in known if name != "client"]
        defaults = {name: known[name].default for name in wanted}
        settings = {n: v for n, v in defaults.items() if v is not inspect.Parameter.empty}
        settings |= options
        _check_options(self.name, settings, wanted, needed=wanted)
        if client is not None and "client" not in known:
            raise errors.InvalidInputError(f"The step {self.name!r} takes no client.")
        wants = known["client"].default if "client" in known else None
        if client is None and wants is inspect.Parameter.empty:
            raise errors.InvalidInputError(
                f"The step {self.name!r} needs a model; give one (--model)."
            )
        return FunctionStep(self.function, self.name, self.version, settings, client)


_kinds: dict[str, StepKind] = {}


def step(name: str, *, version: str) -> Callable[[_Function], StepKind]:
    """Return a decorator that makes a function a kind of step.

    >>> @step("example-nothing", version="1")
    ... def nothing(trajectory, *, option=1):
    ...     return trajectory
    >>> nothing(option=2).settings
    {'option': 2}

    Args:
        name: The name in reports, records and command lines: `short-enough`.
        version: The version; change it when the function's behaviour changes.

    Raises:
        InvalidInputError: The name is taken or invalid.
    """
    if not _NAME.fullmatch(name) or name == "pipeline":
        raise errors.InvalidInputError(
            f"{name!r:.100} is not a valid step name; expected words of a-z and 0-9 joined by -."
        )

    def register(function: _Function) -> StepKind:
        kind = StepKind(function, name, version)
        known = _kinds.get(name)
        if name in STEPS or (known is not None and _origin(known.function) != _origin(function)):
            raise errors.InvalidInputError(
                f"A step named {name!r} already exists; choose another name."
            )
        _kinds[name] = kind
        return kind

    return register


def step_names() -> tuple[str, ...]:
    """Return the names of all known steps."""
    return (*STEPS, *sorted({*_kinds, *find_offered(ENTRY_POINT_GROUP, STEPS)}))


def make_step(
    name: str, options: Mapping[str, Any] | None = None, *, client: ModelClient | None = None
) -> Step | OrderedStep:
    """Make a step by name.

    >>> make_step("clean", {"min_steps": 3}).settings
    {'min_steps': 3}

    Args:
        name: One of `step_names()`.
        options: Its options, as plain data.
        client: The model, for steps that ask one. It is not closed.

    Raises:
        InvalidInputError: The step or an option is unknown, or the step needs a model.
    """
    given = dict(options or {})
    maker: Any = _kinds.get(name) or (step_class(name) if name in STEPS else None)
    if maker is None and name in (others := find_offered(ENTRY_POINT_GROUP, STEPS)):
        maker = class_at(others[name])
    if maker is None:
        known_names = step_names()
        raise errors.InvalidInputError(
            f"No step is named {name!r:.100}. {nearest(name, known_names)}Choose one of: "
            f"{', '.join(known_names)}; to use your own step, import its module (--import)."
        )
    takes_client = "client" in _options_of(maker.function if isinstance(maker, StepKind) else maker)
    if not isinstance(maker, StepKind):
        known = {n: p for n, p in _options_of(maker).items() if n not in ("client", "judge")}
        needed = [n for n, p in known.items() if p.default is inspect.Parameter.empty]
        _check_options(name, given, known, needed)
    if client is not None and takes_client:
        given["client"] = client
    try:
        made: Step | OrderedStep = maker(**given)
    except TypeError as error:
        raise errors.InvalidInputError(f"The step {name!r} cannot be made: {error}.") from error
    return made


def parse_step(text: str) -> tuple[str, dict[str, Any]]:
    """Parse `NAME`, `NAME:VALUE` or `NAME:KEY=VALUE` into a name and options.

    A value is parsed as JSON. If it is not JSON, it is a text.

    >>> parse_step("judge:environment"), parse_step("dedupe:threshold=0.8")
    (('judge', {'by': 'environment'}), ('dedupe', {'threshold': 0.8}))

    Raises:
        InvalidInputError: The text has another form.
    """
    name, separator, rest = text.partition(":")
    name = name.strip()
    if not separator:
        return name, {}
    key, equals, value = rest.partition("=")
    if equals and key.isidentifier() and not value.startswith("="):
        return name, {key: _value(value)}
    if name not in MAIN_OPTIONS:
        raise errors.InvalidInputError(
            f"{text!r:.100} is not a step; expected NAME or NAME:KEY=VALUE, such as "
            f"dedupe:threshold=0.8. These steps take a bare value: {', '.join(MAIN_OPTIONS)}."
        )
    return name, {MAIN_OPTIONS[name]: _value(rest)}


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def _options_of(maker: Callable[..., Any]) -> dict[str, inspect.Parameter]:
    """Return the options of a class, or the parameters of a function except the trajectory."""
    parameters = list(inspect.signature(maker).parameters.values())
    return {
        parameter.name: parameter
        for parameter in (parameters if inspect.isclass(maker) else parameters[1:])
        if parameter.kind in (parameter.KEYWORD_ONLY, parameter.POSITIONAL_OR_KEYWORD)
    }


def _check_options(
    name: str, given: Mapping[str, Any], known: Iterable[str], needed: Iterable[str] = ()
) -> None:
    known = list(known)
    unknown = [option for option in given if option not in known]
    missing = [option for option in needed if option not in given]
    if unknown or missing:
        problem = f"does not take {unknown[0]!r:.60}" if unknown else f"needs {missing[0]!r}"
        hint = f" {nearest(unknown[0], known)}".rstrip() if unknown else ""
        raise errors.InvalidInputError(
            f"The step {name!r} {problem}; its options: {', '.join(known) or 'none'}.{hint}"
        )


def _origin(function: Callable[..., Any]) -> tuple[str, str]:
    return function.__module__, function.__qualname__
