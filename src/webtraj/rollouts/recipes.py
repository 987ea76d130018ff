"""Make the agent and the judge that a `RunSpec` names, and the recipe for its proposer."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

from webtraj import errors
from webtraj.agents import catalog
from webtraj.runs.plan import PlannedEpisode
from webtraj.runs.spec import RunSpec
from webtraj.settings.named import class_at, find_offered, nearest

if TYPE_CHECKING:
    from webtraj.agents.base import Agent
    from webtraj.judging.base import Judge

__all__ = [
    "ASKING",
    "Proposing",
    "make_agent",
    "make_judge",
    "make_proposing",
    "with_forks",
]

PROPOSERS = "webtraj.proposers"
"""The entry-point group of proposers. Each names a class that is made as a `Proposing`."""

ASKING = ("model", "base_url", "provider", "api_key_variable", "max_concurrency",
          "requests_per_minute")  # fmt: skip
"""Options of a judge that say which model is asked, and how."""


def make_agent(spec: RunSpec) -> Agent:
    """Return a new agent. If it has an `aclose`, the caller must call it.

    Raises:
        InvalidInputError: The agent does not accept the options.
        NotADatasetError: There are no episodes to fork.
        StorageError: They cannot be read.
    """
    return with_forks(
        spec, catalog.make_agent(spec.agent, seed=spec.seed, options=spec.agents_options)
    )


def with_forks(spec: RunSpec, agent: Agent) -> Agent:
    """Return the agent of a run. If the run forks episodes, the agent repeats them first."""
    if spec.fork is None:
        return agent
    from webtraj.datasets.dataset import open_dataset
    from webtraj.rollouts.forks import ForkAgent

    return ForkAgent(agent, open_dataset(spec.fork.dataset, storage_options=spec.storage_options))


def make_judge(spec: RunSpec) -> Judge | None:
    """Return a new judge; None if there is none. If it has an `aclose`, the caller must call it.

    Raises:
        InvalidInputError: No judge has that name, it does not accept the options, or options are
            given without a judge.
    """
    if spec.judge is None:
        if spec.judge_options or spec.judge_when != "unknown":
            raise errors.InvalidInputError(
                "Judge options were given without a judge. Add --judge environment, rules:FILE or "
                "model."
            )
        return None
    from webtraj.judging.catalog import make_judge

    options = dict(spec.judge_options)
    stages = options.pop("stages", {})
    if not isinstance(stages, Mapping) or not all(
        isinstance(stage, Mapping) for stage in stages.values()
    ):
        raise errors.InvalidInputError(
            f"The judge option stages is {stages!r:.100}; expected the options of single stages, "
            'such as {"blocked": {"model": "small"}}.'
        )
    judge = make_judge(spec.judge, options=options)
    return _with_stages(spec.judge, judge, options, stages) if stages else judge


def _with_stages(
    name: str, judge: Judge, options: Mapping[str, Any], stages: Mapping[str, Mapping[str, Any]]
) -> Judge:
    """Return the judge `model` with other models for single stages."""
    from webtraj.agents.options import read_options
    from webtraj.judging.model import ModelJudge, Routing

    if not isinstance(judge, ModelJudge):
        raise errors.InvalidInputError(
            f"The judge {name!r:.60} has no stages; leave the judge option stages out."
        )
    asked = {key: value for key, value in options.items() if key in ASKING}
    # Stages with the same client share its limits.
    clients = {repr(sorted(asked.items())): judge.routing.default}
    routes = {}
    for stage, own in stages.items():
        settings = {**asked, **own}
        key = repr(sorted(settings.items()))
        if key not in clients:
            clients[key] = read_options(settings, who="the judge 'model'").make_client()
        routes[stage] = clients[key]
    return ModelJudge(Routing(judge.routing.default, routes), settings=judge.settings)


class Proposing(Protocol):
    """The recipe for a proposer of tasks, made from the options of its entry point.

    `webtraj.exploring` has the built-in ones.
    """

    def channels(self, channels: Iterable[str]) -> list[str]:
        """Return the channels to observe: the given ones, and those that the proposer reads."""

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
        """Propose tasks for a run's episodes that have no proposals yet. Default: the latest run.

        Raises:
            Exception: See `webtraj.exploring.propose`.
        """


def make_proposing(spec: RunSpec) -> Proposing | None:
    """Return the proposer's recipe; None if there is no proposer.

    Raises:
        InvalidInputError: Options are given without a proposer, or none has that name.
    """
    if spec.proposer is None:
        default = RunSpec.model_fields["proposals"].default
        idle = "proposer_options" if spec.proposer_options else "proposals"
        if spec.proposer_options or spec.proposals != default:
            raise errors.InvalidInputError(
                f"{idle} has no effect without a proposer; set proposer=model or "
                "proposer=hindsight."
            )
        return None
    known = find_offered(PROPOSERS)
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
