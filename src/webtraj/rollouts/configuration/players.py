"""Agents, ranks and proposers of a configured rollout, built from its keys."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from webtraj import errors
from webtraj.agents import base as agents_lib
from webtraj.agents import catalog
from webtraj.closing import aclose
from webtraj.runs.plan import PlannedEpisode
from webtraj.runs.spec import RunSpec
from webtraj.store.places import is_url

if TYPE_CHECKING:
    from webtraj.exploring.checking import Proposer
    from webtraj.exploring.proposing import Proposed
    from webtraj.rollouts.configuration.rollout import EnvConfig, RolloutConfig

__all__ = [
    "NOT_ON_RAY",
    "Player",
    "Proposing",
    "Rank",
    "player_of",
    "proposing_of",
    "rank_of",
    "refuse_ranks_on_ray",
]

# Ranks: several processes that each play a share of one plan, without communicating.
#
# All make the same plan from the same configuration. The first one writes it for the others
# (`Iterations.share_plan`), in case their files or blocklists differ. Each then takes its share of
# tasks by weight, with every attempt at them, so that a group of attempts is never split.

NOT_ON_RAY = (
    "env_config.multinode_rank is for several processes without a cluster. On a Ray cluster one "
    "process plays the whole plan on all machines: remove multinode_rank and the weights."
)
"""Why ranks are rejected on Ray: each would distribute its share over the same machines."""


@dataclasses.dataclass(frozen=True, slots=True)
class Rank:
    """One of several processes that share a plan."""

    number: int
    """Its rank, from 0."""
    weights: tuple[float, ...]
    """Weights of all ranks."""
    suffix: str
    """Suffix of its run ids."""

    @property
    def share(self) -> float:
        """Its share of the whole, from 0 to 1."""
        return self.weights[self.number] / sum(self.weights)

    def scaled(self, size: int) -> int:
        """Return its share of a total, at least 1.

        >>> Rank(0, (2.0, 1.0), "_rank_0").scaled(64)
        42
        """
        return max(1, int(size * self.weights[self.number] / sum(self.weights)))

    def rows(self, plan: Sequence[PlannedEpisode]) -> tuple[PlannedEpisode, ...]:
        """Return its share of a plan, renumbered; episodes keep their seeds and attempts."""
        owners: dict[str, int] = {}
        given = [0.0] * len(self.weights)
        for planned in plan:
            if planned.task not in owners:
                # The rank with the least for its weight, so any start of the plan is fair too.
                owner = min(range(len(given)), key=lambda i: ((given[i] + 1) / self.weights[i], i))
                given[owner] += 1
                owners[planned.task] = owner
        mine = (planned for planned in plan if owners[planned.task] == self.number)
        return tuple(dataclasses.replace(planned, row=row) for row, planned in enumerate(mine))


def rank_of(config: EnvConfig) -> Rank | None:
    """Return this process's rank; None if it is the only process.

    Raises:
        InvalidInputError: The keys contradict each other or are incomplete.
    """
    number, total = config.multinode_rank, config.multinode_total_workers
    weights = _weights(config)
    if number is None:
        if total in (None, 1) and weights is None and config.rank_load_weight is None:
            return None
        raise errors.InvalidInputError(
            "env_config.multinode_rank is missing, although a worker count or weights are set. Set "
            "it to the rank of this process, from 0."
        )
    if weights is None:
        weights = _derived(config, number, total)
    if total not in (None, len(weights)) or number >= len(weights):
        raise errors.InvalidInputError(
            f"env_config.multinode_rank is {number} of "
            f"{len(weights) if total is None else total} with {len(weights)} weights; expected a "
            "rank from 0 and below multinode_total_workers, and one weight for each rank."
        )
    for name, given, expected in (
        ("rank_load_weight", config.rank_load_weight, weights[number]),
        ("total_load_weight", config.total_load_weight, sum(weights)),
    ):
        if given is not None and abs(given - expected) > 1e-9 * expected:
            raise errors.InvalidInputError(
                f"env_config.{name} is {given:g}, but the weights of all ranks give {expected:g}. "
                "Give every rank the same env_config.all_rank_weights."
            )
    return Rank(number, weights, config.multinode_rank_suffix or f"_rank_{number}")


def refuse_ranks_on_ray(config: RolloutConfig | RunSpec) -> None:
    """Reject a configuration with a rank on a Ray cluster.

    Raises:
        InvalidInputError: The configuration has a rank.
    """
    if not isinstance(config, RunSpec) and rank_of(config.env_config) is not None:
        raise errors.InvalidInputError(NOT_ON_RAY)


def _weights(config: EnvConfig) -> tuple[float, ...] | None:
    given = config.all_rank_weights
    if given is None:
        return None
    try:
        parts = given.split(",") if isinstance(given, str) else given
        weights = tuple(float(part) for part in parts)
    except ValueError:
        weights = ()
    if not weights or not all(0 < weight < float("inf") for weight in weights):
        raise errors.InvalidInputError(
            f"env_config.all_rank_weights is {given!r:.100}; expected numbers above 0, such as "
            "[2, 1, 1] or '2,1,1'."
        )
    return weights


def _derived(config: EnvConfig, number: int, total: int | None) -> tuple[float, ...]:
    """Return all weights, if one rank's keys determine them."""
    own, every = config.rank_load_weight, config.total_load_weight
    if total is None:
        raise errors.InvalidInputError(
            f"env_config.multinode_rank is {number} without a worker count; set "
            "env_config.multinode_total_workers or env_config.all_rank_weights."
        )
    if own is None and every is None:
        return (1.0,) * total
    if own is not None and every is not None:
        if abs(own * total - every) <= 1e-9 * every:
            return (own,) * total
        if total == 2 and own < every:
            return (own, every - own) if number == 0 else (every - own, own)
    raise errors.InvalidInputError(
        f"env_config.rank_load_weight is {own} and total_load_weight is {every}, which does not "
        f"determine the shares of all {total} ranks. Give every rank the same "
        "env_config.all_rank_weights, the weights of all ranks in order, such as [2, 1, 1]."
    )


# The player: an agent by name, with options.

_MODES = {"coordinates": "coordinates", "set_of_marks": "marks", "text": "text", "aria": "aria"}
_PROMPTS = {"vanilla": "webgym_vanilla", "complete": "webgym_complete"}
_SAME = {
    "provider", "temperature", "top_p", "top_k", "min_p", "enforce_actions", "max_invalid_actions",
}  # fmt: skip
"""Keys of `policy_config` that are options of the agent by the same names."""


@dataclasses.dataclass(frozen=True, slots=True)
class Player:
    """Recipe for an agent, which may be made on another machine."""

    name: str
    """Name of an agent in `webtraj.agents.catalog`, or `explorer`."""
    options: Mapping[str, Any] = dataclasses.field(default_factory=dict, repr=False)
    """Options of the agent."""
    seed: int = 0
    """Seed for agents that act at random."""

    def make(self) -> agents_lib.Agent:
        """Return a new agent. If it has an `aclose`, the caller must call it.

        Raises:
            InvalidInputError: The agent does not accept the options.
        """
        if self.name == "explorer":
            from webtraj.exploring.crawling import make_explorer

            return make_explorer("model", seed=self.seed, options=self.options)
        return catalog.make_agent(self.name, seed=self.seed, options=self.options)

    __call__ = make


def player_of(config: RolloutConfig, rank: Rank | None) -> Player:
    """Return the player of a rollout.

    Raises:
        InvalidInputError: The model's name is missing.
    """
    policy, env, context = config.policy_config, config.env_config, config.context_config
    shared = catalog.shared_options(policy.agent)
    if not shared:
        return Player(policy.agent, policy.agent_options, config.seed)
    rate = env.request_per_minute
    version = config.model_settings.prompt_version
    options: dict[str, Any] = {
        **context.model_dump(exclude={"interaction_mode"}),
        **policy.model_dump(include=_SAME),
        "model": _model_name(config),
        "base_url": _urls(env.vllm_server_url),
        "api_key_variable": policy.api_key_env_var,
        "max_concurrency": env.max_vllm_sessions
        if rank is None
        else rank.scaled(env.max_vllm_sessions),
        "requests_per_minute": rate if rank is None or rate is None else rank.share * rate,
        "timeout": env.vllm_timeout,
        "mode": _MODES[context.interaction_mode],
        "keep_thinking": config.model_settings.model_type == "qwen3-instruct",
        "prompt": _PROMPTS.get(version or "", version),
        "max_tokens": policy.max_new_tokens,
        "seed": policy.sampling_seed,
    }
    given = {name: options[name] for name in shared if options.get(name) is not None}
    return Player(policy.agent, {**given, **policy.agent_options}, config.seed)


def _model_name(config: RolloutConfig) -> str:
    policy = config.policy_config
    if policy.checkpoint_path and not is_url(config.save_path):
        path = os.path.join(config.save_path, policy.checkpoint_path)  # noqa: PTH118
        if os.path.exists(path):  # noqa: PTH110  (the server names it as it was given)
            return path
    if not policy.base_model:
        raise errors.InvalidInputError(
            "The agent 'model' needs a model; set policy_config.base_model to its name on the "
            "server."
        )
    return policy.base_model


def _urls(given: str | list[str]) -> str | list[str] | None:
    if isinstance(given, list):
        return [_url(url) for url in given]
    return _url(given) if given else None


def _url(given: str) -> str:
    """Return a server's URL with the API version, which WebGym leaves out."""
    url = given.rstrip("/")
    return url if url.endswith("/v1") else f"{url}/v1"


# The proposer of tasks for what a crawl has seen.


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Proposing:
    """Recipe for a proposer, and how to ask it."""

    name: str
    """A key of `webtraj.exploring.crawling.PROPOSERS`."""
    options: Mapping[str, Any] = dataclasses.field(default_factory=dict, repr=False)
    """Options of the proposer."""
    proposals: int = 3
    """Most tasks to propose for one episode."""
    parallel: int = 1
    """Episodes to ask about at a time."""

    def make(self) -> Proposer:
        """Return a new proposer. If it has an `aclose`, the caller must call it.

        Raises:
            InvalidInputError: The proposer does not accept the options.
        """
        from webtraj.exploring.crawling import make_proposer

        return make_proposer(self.name, options=self.options)

    async def propose(
        self, out: str, run_id: str | None, *, storage_options: Mapping[str, Any] | None
    ) -> Proposed:
        """Propose tasks for the episodes of a run, by default the latest, without proposals yet.

        Raises:
            Exception: See `webtraj.exploring.propose`.
        """
        from webtraj.exploring.proposing import propose

        proposer = self.make()
        try:
            return await propose(
                out,
                proposer,
                run=run_id,
                proposals=self.proposals,
                parallel=self.parallel,
                storage_options=storage_options,
            )
        finally:
            await aclose(proposer)


def proposing_of(spec: RunSpec) -> Proposing | None:
    """Return the proposer; None if there is none.

    Raises:
        InvalidInputError: Options are given without a proposer.
    """
    if spec.proposer is None:
        if spec.proposer_options:
            raise errors.InvalidInputError(
                "proposer_options are set without a proposer; set proposer=model."
            )
        return None
    return Proposing(
        name=spec.proposer,
        options=spec.proposers_options,
        proposals=spec.proposals,
        parallel=spec.parallel if isinstance(spec.parallel, int) else 1,
    )
