"""Requirements for the rollouts of iterations that train by policy gradient.

The trainer computes log-probabilities of sampled replies again and compares them with the recorded
ones. So replies must be sampled from the model's whole distribution. Their temperature is recorded,
and the trainer takes it from there.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from webtraj import errors
from webtraj.agents.catalog import shared_options
from webtraj.loop.configuration import LoopConfig, given_settings
from webtraj.runs.spec import RunSpec
from webtraj.settings import configuration
from webtraj.training.sft.settings import TrainingSettings

__all__ = ["check_groups", "rollout_settings", "training_settings"]

_WHOLE: Mapping[str, tuple[Any, ...]] = {
    "top_p": (None, 1), "top_k": (None, -1, 0), "min_p": (None, 0),
}  # fmt: skip
"""Sampling settings, and their values that leave the distribution whole."""


def rollout_settings(config: LoopConfig, iteration: int) -> dict[str, Any]:
    """Return the settings that an iteration's rollout gives."""
    given = given_settings(config.rollout, RunSpec)
    if config.algorithm(iteration) == "sft":
        return given
    return configuration.merge(given, given_settings(config.groups.rollout, RunSpec))


def training_settings(config: LoopConfig, iteration: int) -> dict[str, Any]:
    """Return the settings that an iteration's training gives."""
    given = given_settings(config.train, TrainingSettings)
    if config.algorithm(iteration) == "sft":
        return given
    given = configuration.merge({"no_samples": "keep", "policy": {}}, given)
    return configuration.merge(given, given_settings(config.groups.train, TrainingSettings))


def check_groups(config: LoopConfig) -> None:
    """Check the rollouts of all iterations that train by policy gradient.

    Raises:
        InvalidInputError: A rollout does not play groups, or its replies would not have the
            log-probabilities that the trainer computes.
    """
    wanted = [n for n in range(1, config.iterations + 1) if config.algorithm(n) != "sft"]
    if not wanted:
        return
    name = config.algorithm(wanted[0])
    if config.train.command is None:
        settings = training_settings(config, wanted[0])
        configuration.validate(settings, TrainingSettings, f"groups.train of algorithm {name}")
    if config.rollout.command is not None:
        return
    settings = {"agent": "model", **rollout_settings(config, wanted[0])}
    spec = configuration.validate(settings, RunSpec, f"groups.rollout of algorithm {name}")
    where = f"train.algorithm {name}: the rollout "
    remedy = "in rollout or groups.rollout"
    shared, sampling = shared_options(spec.agent), spec.agents_options
    if "temperature" not in shared:
        raise errors.InvalidInputError(
            f"{where}plays with the agent {spec.agent!r}, whose decisions have no "
            "log-probabilities. Set rollout.agent to model, or another agent that asks one."
        )
    if spec.group_size < 2:
        raise errors.InvalidInputError(
            f"{where}plays each task once, and attempts are compared with each other. Set the size "
            f"of a group {remedy}, such as group_size=8."
        )
    if not sampling.get("temperature"):
        raise errors.InvalidInputError(
            f"{where}has the temperature {sampling.get('temperature')}, and the attempts of a "
            f"group must differ. Set temperature above 0 {remedy}, such as 1.0."
        )
    if sampling.get("enforce_actions"):
        raise errors.InvalidInputError(
            f"{where}has enforce_actions, which samples under a grammar, and the trainer cannot "
            f"compute such log-probabilities. Set agent_options.enforce_actions=false {remedy}."
        )
    for option, values in _WHOLE.items():
        if option in shared and sampling.get(option) not in values:
            raise errors.InvalidInputError(
                f"{where}has {option}={sampling[option]}, which cuts unlikely tokens off, and the "
                "trainer compares log-probabilities of the whole distribution. Set "
                f"agent_options.{option}={values[1]} {remedy}."
            )
