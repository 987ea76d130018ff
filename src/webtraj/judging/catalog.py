"""Judges by name, as the command line takes them.

Installed packages add judges through the entry-point group `webtraj.judges`, which maps a name to a
dataclass that is a judge. Its fields are the options. `register` gives a judge of a program or of
an imported module a name.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from webtraj import errors
from webtraj.judging.base import NamedJudge, name_judge
from webtraj.judging.environment import EnvironmentJudge
from webtraj.settings.named import find_offered, make_of, nearest, register_as

if TYPE_CHECKING:
    from webtraj.agents.models.base import ModelClient

__all__ = [
    "ENTRY_POINT_GROUP",
    "JUDGES",
    "JudgeKind",
    "judge_names",
    "make_judge",
    "make_judge_of",
    "register",
]

ENTRY_POINT_GROUP = "webtraj.judges"

_Made = TypeVar("_Made")

_CLIENT = (
    "model",
    "base_url",
    "provider",
    "api_key_variable",
    "max_concurrency",
    "requests_per_minute",
    "tokens_per_minute",
)
_ENVIRONMENT = ("success_reward",)


@dataclasses.dataclass(frozen=True, slots=True)
class JudgeKind:
    """A kind of judge."""

    summary: str
    """A one-line summary."""
    make: Callable[[str, Mapping[str, Any], ModelClient | None], NamedJudge]
    """Makes a judge from the text after `NAME:`, the options, and a client if given. Raises
    InvalidInputError for anything that the judge does not take."""
    takes: str = ""
    """Its options, in one line; empty if it has none."""


def register(name: str) -> Callable[[_Made], _Made]:
    """Return a decorator that gives a judge a name, for `--judge` and wherever judges have names.

    It takes a dataclass, whose fields are the options, another class, or a judge.

    Raises:
        InvalidInputError: The name is built in.
    """
    return register_as(ENTRY_POINT_GROUP, name, JUDGES)


def make_judge(
    spec: str, *, client: ModelClient | None = None, options: Mapping[str, Any] | None = None
) -> NamedJudge:
    """Make a judge by name.

    A judge with an `aclose` method holds connections; the caller closes it.

    >>> make_judge("environment", options={"success_reward": 1})
    EnvironmentJudge(success_reward=1.0, name='environment')

    Args:
        spec: A key of `JUDGES` or the name of a judge from an installed package, with an optional
            argument: `rules:shop.yaml`.
        client: The model, for judges that ask one. Options can name it instead: `model`, `base_url`
            and the others of `webtraj.agents.options.ModelOptions`.
        options: Settings of the judge; see `JudgeKind.takes`.

    Raises:
        InvalidInputError: The name is unknown, or the judge does not take the options.
    """
    name, _, argument = spec.partition(":")
    if name in JUDGES:
        return JUDGES[name].make(argument, options or {}, client)
    others = find_offered(ENTRY_POINT_GROUP, JUDGES)
    if name in others:
        _refuse_argument(name, argument)
        return name_judge(make_of(others[name], name, options, kind="judge"), name)
    known = judge_names()
    raise errors.InvalidInputError(
        f"No judge is named {name!r}. {nearest(name, known)}Choose one of: {', '.join(known)}; "
        "to use a judge of your own, import the module that registers it (--import)."
    )


def judge_names() -> tuple[str, ...]:
    """Return the names of the judges that are built in, registered or installed."""
    return (*JUDGES, *find_offered(ENTRY_POINT_GROUP, JUDGES))


def make_judge_of(
    specs: Sequence[str],
    *,
    client: ModelClient | None = None,
    options: Mapping[str, Any] | None = None,
) -> NamedJudge:
    """Make one judge from one or more specs; with several, the first with an opinion decides.

    >>> make_judge_of(["environment", "rules"]).name
    'environment+rules'

    Args:
        specs: Specs as `make_judge` takes them, in the order to ask them.
        client: The model that the judge `model` asks.
        options: Settings; each goes to the judge that takes it.

    Raises:
        InvalidInputError: `specs` is empty, or a spec or an option is wrong.
    """
    if len(specs) == 1:
        return make_judge(specs[0], client=client, options=options)
    from webtraj.judging.base import FirstKnown

    names = [spec.partition(":")[0] for spec in specs]
    return FirstKnown(
        [
            make_judge(spec, client=client, options=_options_of(name, names, options or {}))
            for spec, name in zip(specs, names, strict=True)
        ]
    )


def _options_of(name: str, names: Sequence[str], options: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the options of one of several judges."""
    own = {key: value for key, value in options.items() if key in _ENVIRONMENT}
    takes_rest = next((kind for kind in ("model", "environment") if kind in names), names[0])
    rest = {key: value for key, value in options.items() if key not in own}
    return {
        **(own if name == "environment" or "environment" not in names else {}),
        **(rest if name == takes_rest else {}),
    }


def _environment(
    argument: str, options: Mapping[str, Any], client: ModelClient | None
) -> EnvironmentJudge:
    _refuse_argument("environment", argument)
    _refuse_unknown("environment", options, _ENVIRONMENT)
    wanted = options.get("success_reward")
    if wanted is not None and (isinstance(wanted, bool) or not isinstance(wanted, (int, float))):
        raise errors.InvalidInputError(f"success_reward is {wanted!r:.60}; expected a number.")
    return EnvironmentJudge(success_reward=None if wanted is None else float(wanted))


def _rules(argument: str, options: Mapping[str, Any], client: ModelClient | None) -> NamedJudge:
    from webtraj.judging.rules import RuleJudge

    _refuse_unknown("rules", options, ())
    return RuleJudge(argument) if argument else RuleJudge()


def _model(argument: str, options: Mapping[str, Any], client: ModelClient | None) -> NamedJudge:
    from webtraj.judging.model import JudgeSettings, ModelJudge

    _refuse_argument("model", argument)
    settings = tuple(field.name for field in dataclasses.fields(JudgeSettings))
    known = settings if client is not None else (*_CLIENT, *settings)
    _refuse_unknown("model", options, known)
    told = {name: value for name, value in options.items() if name in settings}
    _check_types(JudgeSettings, told)
    if client is None:
        from webtraj.agents.options import read_options

        told.pop("max_concurrency", None)
        if "model" not in options:
            raise errors.InvalidInputError(
                "The judge 'model' needs a model. Give --model NAME (for `webtraj rollout`, "
                "--judge-model NAME), or the options model and base_url."
            )
        asked = {name: value for name, value in options.items() if name in _CLIENT}
        client = read_options(asked, who="the judge 'model'").make_client()
    return ModelJudge(client, settings=JudgeSettings(**told))


def _check_types(cls: type, given: Mapping[str, Any]) -> None:
    """Raise InvalidInputError if a value has the wrong type."""
    import typing

    import pydantic

    hints = typing.get_type_hints(cls)
    for name, value in given.items():
        try:
            pydantic.TypeAdapter(hints[name]).validate_python(value, strict=True)
        except pydantic.ValidationError as error:
            expected = " or ".join(str(problem["msg"]) for problem in error.errors())
            raise errors.InvalidInputError(
                f"The judge 'model' does not take {name}={value!r:.60}: {expected}."
            ) from None


def _refuse_argument(name: str, argument: str) -> None:
    if argument:
        raise errors.InvalidInputError(
            f"The judge {name!r} takes no argument after a colon; got {argument!r:.100}."
        )


def _refuse_unknown(name: str, options: Mapping[str, Any], known: Iterable[str]) -> None:
    unknown = sorted(set(options) - set(known))
    if unknown:
        raise errors.InvalidInputError(
            f"The judge {name!r} does not take {unknown[0]!r}; its options: "
            f"{', '.join(known) or 'none'}."
        )


JUDGES: Mapping[str, JudgeKind] = {
    "environment": JudgeKind(
        "Use the environment's own verdict.", _environment, "success_reward (a total reward)"
    ),
    "rules": JudgeKind("Check the final state against rules: rules:FILE.", _rules),
    "model": JudgeKind(
        "Ask a model.",
        _model,
        "model, base_url, provider and those of webtraj.judging.model.JudgeSettings",
    ),
}
"""Every kind of judge by name."""
