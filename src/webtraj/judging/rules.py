"""The rule judge: it checks the end of an episode against rules written as data.

A rules file, YAML or JSON (predicates: `webtraj.judging.predicates`)::

    rules:
      - tasks: shop/log-in                 # one or more task names; * matches any characters
        goal: Log in as "{user}" with the password "{password}".
        success:
          all:
            - {element: {role: button, name: Log out}}
            - {text: {contains: "{user}"}}

The first rule whose `tasks` match an episode judges it. `goal` names the words of the goal that
differ between episodes; the names may be used in the texts of predicates, except in regexes.

* `blocked` is true: BLOCKED.
* Otherwise, `success` is true: SUCCESS; false: FAILURE. If the rule has `failure`, exactly one of
  the two must be true; otherwise JUDGE_ERROR.
* Something is unknown (a channel was not observed, the goal does not match the rule's): JUDGE_ERROR
  with what is missing, unless the rest decides without it.
* No rule matches: UNKNOWN.

A task with its own rule in `metadata["rule"]` is judged by that rule.
"""

from __future__ import annotations

import asyncio
import fnmatch
import hashlib
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Self

import pydantic

from webtraj import errors
from webtraj.judging import predicates
from webtraj.judging.base import make_judgement
from webtraj.judging.evaluation import Evaluation
from webtraj.judging.final_state import FinalState
from webtraj.judging.predicates import Predicate
from webtraj.trajectory import EpisodeTrajectory, Judgement, Outcome

__all__ = ["Rule", "RuleJudge", "make_rules", "read_data", "read_rules"]

# Strict reading of YAML and JSON: no duplicate keys, no aliases.


def read_data(path: str | os.PathLike[str], *, what: str, max_size: int) -> Any:
    """Return the data of a `.json`, `.yaml` or `.yml` file.

    Args:
        path: The file.
        what: The expected content, for error messages.
        max_size: The maximum size in bytes.

    Raises:
        InvalidInputError: The file cannot be read, or a mapping has a duplicate key.
        MissingDependencyError: The file is YAML and PyYAML is not installed.
    """
    name = os.fspath(path)
    if not name.endswith((".json", ".yaml", ".yml")):
        raise errors.InvalidInputError(
            f"{name!r} is not a file of {what}; expected a name ending in .json, .yaml or .yml."
        )
    if not Path(name).is_file():
        raise errors.InvalidInputError(
            f"No file of {what} at {name!r}; give a .json, .yaml or .yml file that exists."
        )
    try:
        with Path(name).open("rb") as file:
            content = file.read(max_size + 1)
        if len(content) > max_size:
            raise ValueError(f"it has more than {max_size} bytes")
        text = content.decode()
        return _of_json(text) if name.endswith(".json") else _of_yaml(text, name)
    except (OSError, ValueError, RecursionError) as error:
        if isinstance(error, errors.WebtrajError):
            raise
        raise errors.InvalidInputError(
            f"{name!r} cannot be read as {what}: {' '.join(str(error).split())}."
        ) from error


def _of_json(text: str) -> Any:
    return json.loads(text, object_pairs_hook=_mapping)


def _mapping(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) < len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise ValueError(f"the key {twice!r:.80} is duplicated in a mapping")
    return made


def _of_yaml(text: str, name: str) -> Any:
    try:
        import yaml  # type: ignore[import-untyped]
    except ImportError as error:
        raise errors.missing_dependency(
            f"Reading {name!r} as YAML needs PyYAML (JSON does not)", "config"
        ) from error

    class StrictLoader(yaml.SafeLoader):  # type: ignore[misc]
        def compose_node(self, parent: Any, index: Any) -> Any:
            if self.check_event(yaml.AliasEvent):
                raise ValueError("aliases are not supported; write the value out")
            return super().compose_node(parent, index)

        def construct_mapping(self, node: Any, deep: bool = False) -> Any:
            keys = [self.construct_object(key, deep=True) for key, _ in node.value]
            _mapping([(str(key), None) for key in keys])
            return super().construct_mapping(node, deep=deep)

    try:
        return yaml.load(text, Loader=StrictLoader)
    except yaml.YAMLError as error:
        raise ValueError(str(error)) from error


_VERSION = "4"
_MAX_PROBLEMS = 10
_MAX_SHOWN = 5
_MAX_FILE = 4 * 2**20


class Rule(pydantic.BaseModel):
    """A rule: what must hold at the end of episodes of some tasks."""

    model_config = pydantic.ConfigDict(extra="forbid", frozen=True, strict=True)

    tasks: str | list[str] = "*"
    """Task names or patterns: `miniwob/click-*`."""
    goal: str | None = None
    """The template of their goals (see `webtraj.judging.predicates`); None for any goal."""
    success: Predicate
    failure: Predicate | None = None
    blocked: Predicate | None = None

    @pydantic.field_validator("tasks")
    @classmethod
    def _some_task_fits(cls, value: str | list[str]) -> str | list[str]:
        if not value or (not isinstance(value, str) and not all(value)):
            raise ValueError("names no task; expected names or patterns, such as *")
        return value

    @pydantic.model_validator(mode="after")
    def _names_are_known(self) -> Self:
        known = set(() if self.goal is None else predicates.names_in(self.goal))
        if self.goal is not None:
            predicates.match_goal(self.goal, "")
        for predicate in filter(None, (self.success, self.failure, self.blocked)):
            for key, text in predicate.texts():
                for name in predicates.names_in(text) if key != "matches" else ():
                    if name not in known:
                        raise ValueError(
                            f"{{{name}}} is not a name in the goal; the goal has "
                            f"{', '.join(sorted(known)) or 'none'}"
                        )
        return self

    def fits(self, task: str) -> bool:
        """Return whether the rule applies to a task."""
        patterns = [self.tasks] if isinstance(self.tasks, str) else self.tasks
        return any(fnmatch.fnmatchcase(task, pattern) for pattern in patterns)


class RuleJudge:
    """A judge that checks rules.

    Args:
        rules: The rules, or a `.json` or `.yaml` file of them. The first that matches a task
            applies.

    Raises:
        InvalidInputError: The file cannot be read, or does not contain rules.
    """

    def __init__(self, rules: Iterable[Rule] | str | os.PathLike[str] = ()) -> None:
        if isinstance(rules, (str, os.PathLike)):
            rules = read_rules(rules)
        self.rules = tuple(rules)
        data = [rule.model_dump(by_alias=True, exclude_none=True) for rule in self.rules]
        digest = hashlib.sha256(json.dumps(data, sort_keys=True).encode())
        self._version = f"{_VERSION}/{digest.hexdigest()[:16]}"

    @property
    def name(self) -> str:
        """See `NamedJudge.name`."""
        return "rules"

    @property
    def version(self) -> str:
        """See `NamedJudge.version`. It changes with the rules."""
        return self._version

    async def judge(self, trajectory: EpisodeTrajectory) -> Judgement:
        """See `Judge.judge`."""
        # In a thread: regexes run in another process and may take seconds.
        return await asyncio.to_thread(self._judge, trajectory)

    def _judge(self, trajectory: EpisodeTrajectory) -> Judgement:
        task = trajectory.info.task
        try:
            rule = self._rule_of(trajectory)
        except errors.InvalidInputError as error:
            return make_judgement(
                self, Outcome.JUDGE_ERROR, f"The task's own rule is wrong: {error}"
            )
        if rule is None:
            return make_judgement(self, Outcome.UNKNOWN, f"There is no rule for the task {task!r}.")
        goal = _goal_of(trajectory)
        values = {} if rule.goal is None else predicates.match_goal(rule.goal, goal)
        if values is None:
            return make_judgement(
                self,
                Outcome.JUDGE_ERROR,
                f"The goal {goal!r:.200} is not like that of the rule, {rule.goal!r:.200}.",
            )
        evaluation = Evaluation(FinalState(trajectory), values)
        truths = {
            name: evaluation.holds(predicate)
            for name in ("blocked", "success", "failure")
            if (predicate := getattr(rule, name)) is not None
        }
        outcome, reason = _decide(truths, evaluation.problems)
        findings = {"rule": self._name_of(rule), "holds": truths, "goal": values}
        return make_judgement(self, outcome, reason, findings)

    def _rule_of(self, trajectory: EpisodeTrajectory) -> Rule | None:
        own = _own_rule(trajectory)
        if own is not None:
            return make_rules([own], "the task's metadata")[0]
        return next((rule for rule in self.rules if rule.fits(trajectory.info.task)), None)

    def _name_of(self, rule: Rule) -> str:
        place = next((n for n, known in enumerate(self.rules) if known is rule), None)
        return "the task's own" if place is None else f"rules.{place}"


def read_rules(path: str | os.PathLike[str]) -> tuple[Rule, ...]:
    """Return the rules of a file. Nothing in it is executed.

    Raises:
        InvalidInputError: The file does not exist or does not contain rules; the message lists each
            mistake with its place.
        MissingDependencyError: The file is YAML and PyYAML is not installed.
    """
    data = read_data(path, what="rules", max_size=_MAX_FILE)
    if not isinstance(data, dict) or data.keys() != {"rules"}:
        held = f"the keys {', '.join(map(str, data))}" if isinstance(data, dict) else "no mapping"
        raise errors.InvalidInputError(
            f"{os.fspath(path)!r} does not hold rules; expected a mapping with the one key "
            f"'rules', a list; it holds {held:.200}."
        )
    return make_rules(data["rules"], repr(os.fspath(path)))


def make_rules(data: Sequence[Any], where: str = "the rules") -> tuple[Rule, ...]:
    """Return the rules written as data.

    >>> make_rules([{"tasks": "a/*", "success": {"answer": "12"}}])[0].fits("a/b")
    True

    Raises:
        InvalidInputError: The data are not rules; the message lists each mistake's place in
            `where`.
    """
    try:
        return tuple(_RULES.validate_python(data))
    except pydantic.ValidationError as error:
        problems = predicates.describe_errors(error, Rule)
        more = f"\n  and {len(problems) - _MAX_PROBLEMS} more" if len(problems) > 10 else ""
        raise errors.InvalidInputError(
            f"{where} are not valid rules:\n  " + "\n  ".join(problems[:_MAX_PROBLEMS]) + more
        ) from None
    except RecursionError:
        raise errors.InvalidInputError(f"{where} are not valid rules: too deep.") from None


_RULES = pydantic.TypeAdapter(Annotated[list[Rule], pydantic.Field(min_length=1)])


def _decide(truths: Mapping[str, bool | None], problems: Sequence[str]) -> tuple[Outcome, str]:
    """Return the verdict, given whether `blocked`, `success` and `failure` hold."""
    blocked, success = truths.get("blocked", False), truths["success"]
    failure = truths.get("failure", None if success is None else not success)
    if blocked:
        return Outcome.BLOCKED, "The rule's `blocked` holds."
    unknown = [name for name in truths if truths[name] is None]
    if blocked is None or success is None or failure is None:
        told = "; ".join(dict.fromkeys(problems[:_MAX_SHOWN]))
        return Outcome.JUDGE_ERROR, f"It is not known whether {' and '.join(unknown)} hold: {told}."
    if success and failure:
        return Outcome.JUDGE_ERROR, "The rule's `success` and `failure` both hold."
    if not success and not failure:
        return Outcome.JUDGE_ERROR, "Neither the rule's `success` nor its `failure` holds."
    if success:
        return Outcome.SUCCESS, "The rule's `success` holds."
    return Outcome.FAILURE, (
        "The rule's `failure` holds."
        if "failure" in truths
        else "The rule's `success` does not hold."
    )


def _own_rule(trajectory: EpisodeTrajectory) -> Any:
    task = trajectory.info.metadata.get("task")
    metadata = task.get("metadata") if isinstance(task, Mapping) else None
    return metadata.get("rule") if isinstance(metadata, Mapping) else None


def _goal_of(trajectory: EpisodeTrajectory) -> str:
    if trajectory.info.goal or not trajectory.steps:
        return trajectory.info.goal
    observation: Any = trajectory.steps[-1].observation
    goal = observation.get("goal") if isinstance(observation, Mapping) else None
    return goal if isinstance(goal, str) else ""
