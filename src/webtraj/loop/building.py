"""Build the command of one phase of one iteration from a loop's configuration."""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from webtraj import errors
from webtraj.agents.catalog import AGENTS, shared_options
from webtraj.loop import configuration
from webtraj.loop.configuration import (
    EvaluationConfig,
    ExportConfig,
    GroupsConfig,
    JudgeConfig,
    LoopConfig,
    PhaseConfig,
    PostprocessConfig,
    PublishConfig,
    RolloutPhaseConfig,
    TrainPhaseConfig,
    overrides_of,
)
from webtraj.loop.groups import rollout_overrides, train_overrides
from webtraj.loop.phases import Output, Phase, Policy, Slot, seed_of
from webtraj.loop.places import Places, version_name
from webtraj.settings.configuration import merged

__all__ = ["check_first", "check_phases", "make_phase"]


def make_phase(config: LoopConfig, slot: Slot, policy: Policy) -> Phase:
    """Return a phase, ready to run.

    Args:
        config: The loop's configuration.
        slot: The phase's place in the loop.
        policy: The policy that plays; ignored by phases that do not play.

    Raises:
        InvalidInputError: A placeholder has no value.
    """
    build = _Build(config, slot, policy)
    made = build.make()
    return dataclasses.replace(made, seed=build.seed, retries=build.retries)


class _Build:
    """Builds one phase."""

    def __init__(self, config: LoopConfig, slot: Slot, policy: Policy) -> None:
        self.config, self.slot, self.policy = config, slot, policy
        self.places = Places(config)
        self.number = slot.iteration
        self.seed = seed_of(config.seed, slot.name, slot.iteration)
        self.python = config.interpreters.get(slot.name, sys.executable)
        self.extra = next((extra for extra in config.extra if extra.name == slot.name), None)
        given: Any = self.extra or getattr(config, _SECTIONS.get(slot.name, slot.name))
        self.given = given
        self.retries = config.retries if given.retries is None else given.retries

    def make(self) -> Phase:
        if self.extra is not None:
            outputs = [Output(path) for path in self._filled(self.extra.outputs)]
            command = self._own(self.extra.command)
            return self._phase(command, *outputs, at_once=self.extra.at_once)
        given = self.given
        assert isinstance(given, PhaseConfig)
        made: Phase = getattr(self, f"_{self.slot.name}")(given)
        if given.command is None:
            return made
        # A custom command promises the same outputs, of any kind. Where it publishes is unknown.
        promised = () if self.slot.name == "publish" else made.outputs
        outputs = [Output(output.path) for output in promised]
        return self._phase(self._own(given.command), *outputs)

    def _phase(self, command: Sequence[str], *outputs: Output, **more: Any) -> Phase:
        return Phase(slot=self.slot, command=tuple(command), outputs=outputs, **more)

    def _rollout(self, given: RolloutPhaseConfig) -> Phase:
        return self._played(given, "train", self.number, self.places.recorded(self.number))

    def _evaluate(self, given: EvaluationConfig) -> Phase:
        return self._played(given, "test", self.number + 1, self.places.evaluated(self.number))

    def _played(self, given: RolloutPhaseConfig, split: str, number: int, dataset: str) -> Phase:
        overrides = self._filled(self._with_policy(given))
        overrides = {
            **overrides,
            "save_path": self.config.out,
            "iteration": number,
            "seed": self.seed,
            "env_config": {**overrides.get("env_config", {}), "split": split},
        }
        command = self._webtraj(
            "rollout",
            *_option("--config-name", given.config),
            *_option("--config-dir", given.config_dir),
            *_option("--ray", given.ray),
            *overrides_of(overrides),
        )
        return self._phase(
            command,
            Output(dataset, "dataset"),
            going_on=(*command, "--resume"),
            goes_on_in=dataset,
        )

    def _with_policy(self, given: RolloutPhaseConfig) -> dict[str, Any]:
        """Return the rollout's overrides, with the policy."""
        overrides = dict(given.overrides)
        if given is self.config.rollout:
            overrides = rollout_overrides(self.config, self.number)
        if given.played_by == "other":
            return overrides
        first = self.config.first
        if not self.policy.weights and first.agent is not None:
            # Settings of the model's agent do not apply to this one.
            options = {} if first.agent == "oracle" else dict(first.agent_options)
            overrides["policy_config"] = {"agent": first.agent, "agent_options": options}
            played = given is self.config.rollout
            return merged(overrides, first.rollout) if played else overrides
        policy = dict(overrides.get("policy_config", {}))
        policy["checkpoint_path"] = None
        agent = policy.get("agent", "model")
        if agent not in AGENTS and "model" not in shared_options(agent):
            # A custom agent takes the model in its options.
            asked = {"model": self.policy.model, "base_url": ",".join(self.policy.urls[:1])}
            known = {name: value for name, value in asked.items() if value}
            policy["agent_options"] = {**known, **policy.get("agent_options", {})}
        elif self.policy.model:
            policy["base_model"] = self.policy.model
        overrides["policy_config"] = policy
        if self.policy.urls:
            urls = self.policy.urls
            overrides["env_config"] = {
                **overrides.get("env_config", {}),
                "vllm_server_url": urls[0] if len(urls) == 1 else list(urls),
            }
        return overrides

    def _judge(self, given: JudgeConfig) -> Phase:
        command = self._webtraj(
            "judge",
            "run",
            self.places.recorded(self.number),
            *_option("--judge", self._filled(given.by)),
            *_option("--when", given.when),
            *_each("--set", _key_values(self._filled(given.options))),
            *self._model(given),
        )
        return self._phase(command)

    def _postprocess(self, given: PostprocessConfig) -> Phase:
        command = self._webtraj(
            "postprocess",
            *_option("--read", self.places.played(self.number)),
            *_option("--write", self.places.processed(self.number)),
            *_option("--config", self._filled(given.config)),
            *_each("--import", given.imports),
            *_each("--step", self._filled(given.steps)),
            *_settings(self._filled(given.options)),
            *_option("--where", given.where),
            *_option("--parallel", given.parallel),
            *self._model(given),
        )
        # If there is other data to train on, this may be empty.
        alone = (
            len(self.places.trained_on(self.number)) == 1
            and self.config.algorithm(self.number) != "grpo"
        )
        processed = self.places.processed(self.number)
        return self._phase(command, Output(processed, "dataset" if alone else "kept"))

    def _model(self, given: JudgeConfig | PostprocessConfig) -> Iterator[str]:
        yield from _option("--model", self._filled(given.model))
        yield from _option("--base-url", self._filled(given.base_url))
        yield from _option("--provider", given.provider)

    def _export(self, given: ExportConfig) -> Phase:
        datasets = self.places.trained_on(self.number)
        return self._exported(given, datasets, self.places.export(self.number))

    def _groups(self, given: GroupsConfig) -> Phase:
        export = self.config.export
        held_out = [] if export is None else export.held_out
        tokens = ExportConfig(format="tokens", held_out=held_out)
        datasets = self.places.groups_of(self.number)
        return self._exported(tokens, datasets, self.places.groups(self.number))

    def _exported(self, given: ExportConfig, datasets: Sequence[str], out: str) -> Phase:
        first, *then = datasets
        command = self._webtraj(
            "train",
            "export",
            first,
            *_each("--then", then),
            *_option("--format", given.format),
            *_option("--out", out),
            *_each("--filter", _key_values(given.filters)),
            *_option("--where", given.where),
            *_each("--held-out", self._filled(given.held_out)),
            *_option("--loss-weights", given.loss_weights),
            *_option("--samples", given.samples),
            *_option("--recency-bias-power", given.recency_bias_power),
            *_option("--val-split", given.val_split),
            *_option("--split-by", given.split_by if given.val_split else None),
            *_each("--set", _key_values(self._filled(given.options))),
            *(("--render",) if given.render else ()),
            *_option("--seed", self.seed),
            "--overwrite",
        )
        return self._phase(command, Output(out, "export"), at_once=True)

    def _train(self, given: TrainPhaseConfig) -> Phase:
        model = Output(self.places.model(self.number), "model")
        build = self._by_llamafactory if given.engine == "llamafactory" else self._by_ourselves
        return self._phase(build(given), model, at_once=True, links=self._links(given))

    def _by_ourselves(self, given: TrainPhaseConfig) -> tuple[str, ...]:
        training = self.places.training(self.number)
        overrides = {"seed": self.seed, **self._filled(train_overrides(self.config, self.number))}
        algorithm = self.config.algorithm(self.number)
        data = [self.places.groups(self.number)] if algorithm != "sft" else []
        data += [self.places.export(self.number)] if algorithm != "grpo" else []
        return self._webtraj(
            "train",
            *_option("--config", self._filled(given.config)),
            *_option("--model", self.places.base(self.number)),
            *_each("--data", data),
            *_option("--out", training),
            *_option("--publish", training),
            *overrides_of(overrides),
        )

    def _by_llamafactory(self, given: TrainPhaseConfig) -> tuple[str, ...]:
        training = self.places.training(self.number)
        overrides = self._filled(given.overrides)
        policy = {
            **overrides.get("policy_config", {}),
            "base_model": self.places.base(self.number),
            "init_model_from_hf": True,
        }
        algorithm = {"seed": self.seed, **overrides.get("algorithm_config", {})}
        overrides = {
            **overrides, "save_path": training, "policy_config": policy,
            "algorithm_config": algorithm,
        }  # fmt: skip
        assert given.python is not None
        return self._webtraj(
            "train",
            "update",
            *_option("--config-name", given.config),
            *_option("--config-dir", given.config_dir),
            *overrides_of(overrides),
            *_option("--python", given.python),
            "--train",
        )

    def _links(self, given: TrainPhaseConfig) -> dict[str, str]:
        """Return links that put the datasets where LLaMA-Factory's update looks for them."""
        if given.engine != "llamafactory" or given.command is not None:
            return {}
        folder = Path(self.places.training(self.number)) / "train_trajectories"
        datasets = enumerate(reversed(self.places.trained_on(self.number)))
        return {str(folder / version_name(self.number - age)): dataset for age, dataset in datasets}

    def _publish(self, given: PublishConfig) -> Phase:
        places = self.places
        command = (
            self.python, "-m", "webtraj.loop.publishing",
            places.model(self.number), str(places.latest_model), *_option("--copy-to", given.to),
        )  # fmt: skip
        return self._phase(command, Output(str(places.latest_model)))

    def _webtraj(self, command: str, *arguments: str) -> tuple[str, ...]:
        return (self.python, "-m", "webtraj", command, *arguments)

    def _own(self, given: Sequence[str]) -> tuple[str, ...]:
        program, *arguments = self._filled(list(given))
        if program == "webtraj":
            return (self.python, "-m", "webtraj", *arguments)
        return (program, *arguments)

    def _filled(self, value: Any) -> Any:
        return configuration.fill(value, self._values())

    def _values(self) -> dict[str, str | Sequence[str]]:
        places, number, policy = self.places, self.number, self.policy
        values: dict[str, str | Sequence[str]] = {
            "out": self.config.out,
            "iteration": str(number),
            "previous": str(number - 1),
            "seed": str(self.seed),
            "python": self.python,
            "evaluated": places.evaluated(number),
            "version": version_name(policy.version),
        }
        if number:
            values |= {name: getattr(places, name)(number) for name in _PLACES}
            values["datasets"] = places.trained_on(number)
        if policy.weights:
            values["weights"] = policy.weights
        if policy.urls:
            values |= {"base_url": policy.urls[0], "served_model": policy.model}
        return values


_SECTIONS = {"evaluate": "evaluation"}
_PLACES = ("recorded", "processed", "latest", "export", "groups", "training", "model", "base")
"""Placeholders that are called like their place."""


def _option(flag: str, value: Any) -> tuple[str, ...]:
    return () if value is None else (flag, str(value))


def _each(flag: str, values: Sequence[str]) -> Iterator[str]:
    for value in values:
        yield from (flag, value)


def _key_values(values: Mapping[str, Any]) -> list[str]:
    return [f"{key}={_said(value)}" for key, value in values.items()]


def _settings(options: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    for step, values in options.items():
        yield from _each("--set", [f"{step}.{item}" for item in _key_values(values)])


def _said(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def check_first(config: LoopConfig) -> None:
    """Check that the first policy is an agent or a model.

    Raises:
        InvalidInputError: It is neither a model nor an agent without one.
    """
    policy = config.first.policy
    if config.first.agent is None and "/" not in policy and not Path(policy).is_dir():
        raise errors.InvalidInputError(
            f"first.policy is {policy!r}; expected an agent without a model, such as random or "
            "oracle, a model's folder, or a model's name on the Hub, which contains a slash."
        )


def check_phases(config: LoopConfig) -> None:
    """Check the names that later phases would refuse: of a format, of steps, of the trainer's keys.

    Raises:
        InvalidInputError: One of them is unknown.
    """
    from webtraj.processing.registry import make_step, parse_step, step_names
    from webtraj.training.export.running import all_formats, make_format
    from webtraj.training.sft.settings import load_train_config

    export, processing, train = config.export, config.postprocess, config.train
    if export is not None and export.command is None and export.format not in all_formats():
        make_format(export.format)
    if processing is not None and processing.command is None and not processing.imports:
        for name in [parse_step(text)[0] for text in processing.steps]:
            if name not in step_names():
                make_step(name)
    if train.command is not None or train.engine != "builtin" or "train" in config.interpreters:
        return
    path = None if train.config is None or "{" in train.config else Path(train.config)
    needed = {"model": "model", "data": ["data"], "out": "out"}
    algorithms = {config.algorithm(n): n for n in range(config.iterations, 0, -1)}
    for number in algorithms.values():
        load_train_config(path, overrides_of(train_overrides(config, number)), needed)
