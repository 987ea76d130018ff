"""Recipes for the agent, the judge and the proposer of a run, from the fields of its `RunSpec`.

A recipe is data: the object can be made here or on another machine, when it is needed.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

from webtraj import errors
from webtraj.agents import base as agents_lib
from webtraj.agents import catalog
from webtraj.judging.base import PARALLEL
from webtraj.runs.plan import PlannedEpisode
from webtraj.runs.spec import RunSpec, When
from webtraj.settings.named import class_at, nearest, offered

if TYPE_CHECKING:
    from webtraj.judging.base import Judge

__all__ = ["ASKING", "Judging", "Player", "Proposing", "judging_of", "player_of", "proposing_of"]

_FLAGS = {"proposer_options": "proposer-set", "proposals": "proposals"}

PROPOSERS = "webtraj.proposers"
"""The entry-point group of proposers. Each names a class that is made as a `Proposing`."""

ASKING = ("model", "base_url", "provider", "api_key_variable", "max_concurrency",
          "requests_per_minute")  # fmt: skip
"""Options of a judge that say which model is asked, and how."""


@dataclasses.dataclass(frozen=True, slots=True)
class Player:
    """Recipe for an agent."""

    name: str
    """Name of an agent in `webtraj.agents.catalog`."""
    options: Mapping[str, Any] = dataclasses.field(default_factory=dict, repr=False)
    """Options of the agent."""
    seed: int = 0
    """Seed for agents that act at random."""

    def make(self) -> agents_lib.Agent:
        """Return a new agent. If it has an `aclose`, the caller must call it.

        Raises:
            InvalidInputError: The agent does not accept the options.
        """
        return catalog.make_agent(self.name, seed=self.seed, options=self.options)

    __call__ = make


def player_of(spec: RunSpec) -> Player:
    """Return the agent's recipe."""
    return Player(spec.agent, spec.agents_options, spec.seed)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Judging:
    """Recipe for a judge, and which episodes it judges."""

    spec: str
    """Name of the judge in `webtraj.judging.catalog`: `environment`, `rules:FILE`, `model`."""
    options: Mapping[str, Any] = dataclasses.field(default_factory=dict, repr=False)
    """Options of the judge."""
    stages: Mapping[str, Mapping[str, Any]] = dataclasses.field(default_factory=dict)
    """For `model`: options of single stages that differ from `options`."""
    when: When = "unknown"
    """Episodes to judge; see `webtraj.judging.judged.WHEN`."""
    parallel: int = PARALLEL
    """Episodes to judge at a time."""

    def make(self) -> Judge:
        """Return a new judge. If it has an `aclose`, the caller must call it.

        Raises:
            InvalidInputError: No judge has that name, or it does not accept the options.
        """
        from webtraj.judging.catalog import make_judge

        judge = make_judge(self.spec, options=self.options)
        if not self.stages:
            return judge
        from webtraj.agents.options import read_options
        from webtraj.judging.model import ModelJudge, Routing

        if not isinstance(judge, ModelJudge):
            raise errors.InvalidInputError(
                f"The judge {self.spec!r:.60} has no stages; leave the judge option stages out."
            )
        asked = {name: value for name, value in self.options.items() if name in ASKING}
        # Stages with the same client share its limits.
        clients = {repr(sorted(asked.items())): judge.routing.default}
        stages = {}
        for stage, own in self.stages.items():
            options = {**asked, **own}
            key = repr(sorted(options.items()))
            if key not in clients:
                clients[key] = read_options(options, who="the judge 'model'").make_client()
            stages[stage] = clients[key]
        return ModelJudge(Routing(judge.routing.default, stages), settings=judge.settings)


def judging_of(spec: RunSpec) -> Judging | None:
    """Return the judge's recipe; None if there is no judge.

    Raises:
        InvalidInputError: Options are given without a judge, or its stages are malformed.
    """
    if spec.judge is None:
        if spec.judge_options or spec.judge_when != "unknown":
            raise errors.InvalidInputError(
                "Judge options were given without a judge. Add --judge environment, rules:FILE or "
                "model."
            )
        return None
    options = dict(spec.judge_options)
    stages = options.pop("stages", {})
    if not isinstance(stages, Mapping) or not all(
        isinstance(stage, Mapping) for stage in stages.values()
    ):
        raise errors.InvalidInputError(
            f"The judge option stages is {stages!r:.100}; expected the options of single stages, "
            'such as {"blocked": {"model": "small"}}.'
        )
    return Judging(
        spec=spec.judge,
        options=options,
        stages=stages,
        when=spec.judge_when,
        parallel=spec.judge_parallel or PARALLEL,
    )


class Proposing(Protocol):
    """Recipe for a proposer of tasks for what was seen: what an entry point makes of its options.

    `webtraj.exploring` has the built-in ones.
    """

    def channels(self, channels: Iterable[str]) -> list[str]:
        """Return what to observe: those channels and what the proposer reads."""

    def check(self, plan: Iterable[PlannedEpisode]) -> None:
        """Check that there is something to propose for.

        Raises:
            InvalidInputError: A task is of the wrong kind.
        """

    def make(self) -> object:
        """Return a new proposer. If it has an `aclose`, the caller must call it.

        Raises:
            InvalidInputError: The proposer does not accept the options.
        """

    async def propose(
        self, out: str, run_id: str | None, *, storage_options: Mapping[str, Any] | None
    ) -> Any:
        """Propose tasks for the episodes of a run, by default the latest, without proposals yet.

        Raises:
            Exception: See `webtraj.exploring.propose`.
        """


def proposing_of(spec: RunSpec) -> Proposing | None:
    """Return the proposer's recipe; None if there is no proposer.

    Raises:
        InvalidInputError: Options are given without a proposer, or none has that name.
    """
    if spec.proposer is None:
        default = RunSpec.model_fields["proposals"].default
        idle = "proposer_options" if spec.proposer_options else "proposals"
        if spec.proposer_options or spec.proposals != default:
            raise errors.InvalidInputError(
                f"{idle} (--{_FLAGS[idle]}) has no effect without a proposer; set proposer=model "
                "or proposer=hindsight."
            )
        return None
    known = offered(PROPOSERS)
    if spec.proposer not in known:
        raise errors.InvalidInputError(
            f"No proposer is named {spec.proposer!r:.60}. {nearest(spec.proposer, known)}Choose "
            f"one of: {', '.join(known)}."
        )
    made: Proposing = class_at(known[spec.proposer])(
        name=spec.proposer,
        options=spec.proposers_options,
        proposals=spec.proposals,
        parallel=spec.parallel if isinstance(spec.parallel, int) else 1,
    )
    return made
