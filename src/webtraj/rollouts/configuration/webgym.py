"""A rollout's configuration as a `RunSpec`: what WebGym's keys mean, and ranks.

`openai_config` is WebGym's section about the judging model. Its question kinds are these stages of
the judge `model`:

* `keypoint_detection`: which screenshots matter;
* `blocking_detection`: whether the site blocked the agent;
* `evaluation`: the answer, each fact, the goal, the reference answer.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from webtraj import errors
from webtraj.agents.catalog import shared_options
from webtraj.rollouts.recipes import ASKING
from webtraj.runs.plan import PlannedEpisode
from webtraj.runs.spec import Patience, RunSpec
from webtraj.settings.configuration import validate
from webtraj.store.places import is_url

if TYPE_CHECKING:
    from webtraj.rollouts.configuration.rollout import (
        EnvConfig,
        OpenAIConfig,
        QuestionConfig,
        RolloutConfig,
    )

__all__ = [
    "NOT_ON_RAY",
    "TASK_FILES",
    "Rank",
    "rank_of",
    "refuse_ranks_on_ray",
    "sources_of",
    "spec_of",
]

TASK_FILES = (".jsonl", ".parquet")
"""How names of task files end."""

_MODES = {"coordinates": "coordinates", "set_of_marks": "marks", "text": "text", "aria": "aria"}
_PROMPTS = {"vanilla": "webgym_vanilla", "complete": "webgym_complete"}
_SAME_ENV = {
    *Patience.model_fields, "max_steps", "max_repetitive_actions", "max_retries",
    "environment_options", "verbose",
}  # fmt: skip
"""Keys of `env_config` that are fields of `RunSpec` by the same names."""
_SAME = {"seed", "storage_options", "format", "metrics"}
"""Keys at the top that are."""
_OPTIONS = {"top_p", "top_k", "min_p", "enforce_actions", "max_invalid_actions"}
"""Keys of `policy_config` that are options of the agent by the same names."""
_STAGES = {
    "keypoint_detection": ("screenshots",),
    "blocking_detection": ("blocked",),
    "evaluation": ("answer", "facts", "goal", "reference"),
}
_RENAMED = {"openai_api_key_env_var": "api_key_variable"}


def spec_of(config: RolloutConfig, rank: Rank | None) -> RunSpec:
    """Return the settings of a rollout, but for how it samples tasks and where it records.

    Args:
        config: The configuration.
        rank: The process whose share of the limits to return, if several share the iteration.

    Raises:
        InvalidInputError: A model's name is missing, or keys contradict each other.
    """
    env, scaled = config.env_config, (lambda size: size) if rank is None else rank.scaled
    grouped = env.group == "same-seed"
    pools: dict[Any, int] = {name: scaled(size) for name, size in env.http_pools if size}
    same = {name: getattr(env, name) for name in _SAME_ENV}
    if env.blocklist_path is not None:
        same["blocklist_path"] = _place(env.blocklist_path, config.save_path)
    fields = {
        **{name: getattr(config, name) for name in _SAME},
        **same,
        **_agent(config, rank),
        "preset": _places(config),
        "attempts": env.groups_per_task if grouped else env.attempts_per_task,
        "group_size": env.attempts_per_task if grouped else 1,
        **_judge(config),
        "parallel": env.server_size if env.server_size == "auto" else scaled(env.server_size),
        "operation_limits": pools,
        "timeout": _seconds(env.task_timeout_minutes),
        "run_timeout": _seconds(env.run_timeout_minutes),
        "retry_pause": env.retry_policy.pause,
        "max_retry_pause": env.retry_policy.max_pause,
    }
    return validate(fields, RunSpec, config.kind)  # An option of the agent may be wrong.


def sources_of(env: EnvConfig) -> list[str]:
    """Return the task files and presets of the split, as they are given."""
    given = env.train_tasks if env.split == "train" else env.test_tasks
    return [given] if isinstance(given, str) else given


def _places(config: RolloutConfig) -> list[str]:
    """Return the paths of the split's task files, and its presets."""
    return [
        _place(source, config.data_path) if source.endswith(TASK_FILES) else source
        for source in sources_of(config.env_config)
        if source
    ]


def _place(source: str, data_path: str) -> str:
    """Return the path or URL of a file that may be relative to a folder or bucket."""
    if is_url(source) or Path(source).is_absolute():
        return source
    if is_url(data_path):
        return f"{data_path.rstrip('/')}/{source}"
    return os.path.join(data_path, source)  # noqa: PTH118  (stays text, for messages)


def _seconds(minutes: float | None) -> float | None:
    return None if minutes is None else minutes * 60.0


def _agent(config: RolloutConfig, rank: Rank | None) -> dict[str, Any]:
    """Return the fields of the agent and its model."""
    policy, env, context = config.policy_config, config.env_config, config.context_config
    shared = shared_options(policy.agent)
    if not shared:
        return {"agent": policy.agent, "agent_options": policy.agent_options}
    rate, version = env.request_per_minute, config.model_settings.prompt_version
    sessions = env.max_vllm_sessions
    fields = {
        "model": _model_name(config),
        "base_url": _urls(env.vllm_server_url),
        "provider": policy.provider,
        "api_key_variable": policy.api_key_env_var,
        "requests_per_minute": rate if rank is None or rate is None else rank.share * rate,
        "temperature": policy.temperature,
        "max_tokens": policy.max_new_tokens,
    }
    options = {
        **context.model_dump(exclude={"interaction_mode"}),
        **policy.model_dump(include=_OPTIONS),
        "max_concurrency": sessions if rank is None else rank.scaled(sessions),
        "timeout": env.vllm_timeout,
        "mode": _MODES[context.interaction_mode],
        "keep_thinking": config.model_settings.model_type == "qwen3-instruct",
        "prompt": _PROMPTS.get(version or "", version),
        "seed": policy.sampling_seed,
    }
    fields = {name: value for name, value in fields.items() if name in shared}
    given = {name: options[name] for name in shared if options.get(name) is not None}
    return {"agent": policy.agent, "agent_options": {**given, **policy.agent_options}, **fields}


def _model_name(config: RolloutConfig) -> str:
    policy = config.policy_config
    checkpoint = policy.checkpoint_path
    # A bucket has no model, but a path of its own may lead to one.
    if checkpoint and (os.path.isabs(checkpoint) or not is_url(config.save_path)):  # noqa: PTH117
        path = os.path.join(config.save_path, checkpoint)  # noqa: PTH118
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


def _judge(config: RolloutConfig) -> dict[str, Any]:
    """Return the fields of the judge."""
    asked, judge = config.openai_config, config.judge
    if judge is None and asked.model is not None:
        judge = "model"
    fields = {"judge": judge, "judge_parallel": config.env_config.evaluation_workers}
    if judge is not None:
        fields["judge_when"] = config.judge_when
    if judge != "model":
        if given := asked.model_dump(exclude_defaults=True):
            raise errors.InvalidInputError(
                f"openai_config.{next(iter(given))} applies only to the judge 'model', but "
                + (f"judge is {judge!r:.60}." if judge else "openai_config.model is not set.")
            )
        return fields
    if asked.model is None:
        raise errors.InvalidInputError(
            "The judge 'model' needs a model; set openai_config.model to its name on the server."
        )
    if taken := sorted(set(asked.judge_settings) & set(ASKING)):
        raise errors.InvalidInputError(
            f"openai_config.judge_settings does not accept {taken[0]!r}; set it in openai_config "
            "itself."
        )
    stages = {
        stage: own
        for kind, names in _STAGES.items()
        if (question := getattr(asked, kind)) is not None and (own := _options(question))
        for stage in names
    }
    # Without a temperature the server chooses it.
    options = {**_options(asked), "temperature": asked.temperature, **asked.judge_settings}
    return {**fields, "judge_options": {**options, "stages": stages} if stages else options}


def _options(config: OpenAIConfig | QuestionConfig) -> dict[str, Any]:
    """Return the given keys as a judge's options."""
    keys = config.model_dump(exclude={*_STAGES, "judge_settings"}, exclude_none=True)
    return {_RENAMED.get(key, key): value for key, value in keys.items()}


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
                # The rank with the least for its weight, so any start of the plan is fair too; of
                # equals, the one with less, so that none is left without.
                owner = min(
                    range(len(given)), key=lambda i: ((given[i] + 1) / self.weights[i], given[i], i)
                )
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
    """Reject a configuration with a rank on a Ray cluster, before it claims an iteration.

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
