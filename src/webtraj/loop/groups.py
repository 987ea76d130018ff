"""Iterations that train by policy gradient: what their rollouts must be like.

The trainer computes log-probabilities of sampled replies anew and compares them with the recorded
ones. So replies must be sampled from the model's whole distribution. Their temperature is recorded,
and the trainer takes it from there.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from webtraj import errors
from webtraj.agents.catalog import shared_options
from webtraj.loop.configuration import LoopConfig, overrides_of
from webtraj.settings import configuration as configuration_lib

__all__ = ["check_groups", "rollout_overrides", "train_overrides"]

_WHOLE: Mapping[str, tuple[Any, ...]] = {
    "top_p": (None, 1), "top_k": (None, -1, 0), "min_p": (None, 0),
}  # fmt: skip
"""Sampling settings, and their values that leave the distribution whole."""
_SAMPLING = ("temperature", "enforce_actions", *_WHOLE)


def rollout_overrides(config: LoopConfig, iteration: int) -> dict[str, Any]:
    """Return the keys to override in an iteration's rollout."""
    given = dict(config.rollout.overrides)
    if config.algorithm(iteration) == "sft":
        return given
    grouped = configuration_lib.merged(given, config.groups.rollout)
    return configuration_lib.merged(grouped, {"env_config": {"group": "same-seed"}})


def train_overrides(config: LoopConfig, iteration: int) -> dict[str, Any]:
    """Return the keys to override in an iteration's training."""
    given = dict(config.train.overrides)
    if config.algorithm(iteration) == "sft":
        return given
    settings = {"no_samples": "keep", "policy": {}}
    given = configuration_lib.merged(settings, given)
    return configuration_lib.merged(given, config.groups.train)


def check_groups(config: LoopConfig) -> None:
    """Check the rollouts of all iterations that train by policy gradient.

    Raises:
        InvalidInputError: A rollout does not play groups, or its replies would not have the
            log-probabilities that the trainer computes.
    """
    wanted = (n for n in range(1, config.iterations + 1) if config.algorithm(n) != "sft")
    first = next(wanted, None)
    if first is None or config.rollout.command is not None:
        return
    name = config.algorithm(first)
    sampling = _sampling_of(config, first)
    where = f"train.algorithm {name}: the rollout "
    remedy = "in rollout.overrides or groups.rollout"
    if not sampling["sampled"]:
        raise errors.InvalidInputError(
            f"{where}plays with the agent {sampling['agent']!r}, whose decisions have no "
            "log-probabilities. Set policy_config.agent to model, or another agent that asks one."
        )
    if sampling["attempts"] < 2:
        raise errors.InvalidInputError(
            f"{where}plays each task once, and attempts are compared with each other. Set the size "
            f"of a group {remedy}, such as env_config.attempts_per_task=8."
        )
    if not sampling["temperature"]:
        raise errors.InvalidInputError(
            f"{where}has the temperature {sampling['temperature']}, and the attempts of a group "
            f"must differ. Set policy_config.temperature above 0 {remedy}, such as 1.0."
        )
    if sampling["enforce_actions"]:
        raise errors.InvalidInputError(
            f"{where}has enforce_actions, which samples under a grammar, and the trainer cannot "
            f"compute such log-probabilities. Set policy_config.enforce_actions=false {remedy}."
        )
    for option, values in _WHOLE.items():
        if sampling[option] not in values:
            raise errors.InvalidInputError(
                f"{where}has {option}={sampling[option]}, which cuts unlikely tokens off, and the "
                "trainer compares log-probabilities of the whole distribution. Set "
                f"policy_config.{option}={values[1]} {remedy}."
            )


def _sampling_of(config: LoopConfig, iteration: int) -> dict[str, Any]:
    """Return the settings of an iteration's rollout that decide how replies are sampled."""
    from webtraj.rollouts.configuration import load_configuration
    from webtraj.rollouts.configuration.rollout import RolloutConfig

    overrides = {**rollout_overrides(config, iteration), "save_path": config.out}
    loaded = load_configuration(
        config.rollout.config,
        tuple(overrides_of(overrides)),
        config_dir=config.rollout.config_dir,
    ).values
    assert isinstance(loaded, RolloutConfig)  # Other kinds have no save_path.
    policy = loaded.policy_config
    shared = shared_options(policy.agent)
    told = {
        name: policy.agent_options.get(name, getattr(policy, name))
        for name in _SAMPLING
        if name in shared
    }
    return {
        **dict.fromkeys(_SAMPLING),
        **told,
        "agent": policy.agent,
        "sampled": "temperature" in shared,
        "attempts": loaded.env_config.attempts_per_task,
    }
