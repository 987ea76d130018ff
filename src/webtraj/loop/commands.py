"""Build the command of one phase of one iteration from a loop's configuration."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from webtraj import errors
from webtraj.agents.catalog import AGENTS, shared_options
from webtraj.judging.configuration import JudgeConfig
from webtraj.loop import configuration
from webtraj.loop.configuration import (
    EvaluationConfig,
    ExportPhaseConfig,
    GroupsConfig,
    JudgePhaseConfig,
    LlamaFactoryConfig,
    LoopConfig,
    PhaseConfig,
    PostprocessPhaseConfig,
    PublishConfig,
    RolloutPhaseConfig,
    TrainPhaseConfig,
    given_settings,
    overrides_of,
)
from webtraj.loop.groups import rollout_settings, training_settings
from webtraj.loop.phases import Output, Phase, Policy, Slot, seed_of
from webtraj.loop.places import Places, version_name
from webtraj.processing.configuration import ProcessingConfig
from webtraj.runs.iterations import Split
from webtraj.runs.spec import MODEL, SAMPLING, RunSpec
from webtraj.settings.configuration import merge
from webtraj.training.export.configuration import ExportSettings
from webtraj.training.llamafactory.configuration import UpdateSettings

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
            outputs = [Output(path) for path in self._fill(self.extra.outputs)]
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
        settings = self._with_policy(rollout_settings(self.config, self.number), given)
        if self._agent_alone and given.played_by == "policy":
            settings = merge(settings, given_settings(self.config.first.rollout, RunSpec))
        return self._build_rollout(given, settings, "train", self.number)

    def _evaluate(self, given: EvaluationConfig) -> Phase:
        settings = self._with_policy(given_settings(given, RunSpec), given)
        return self._build_rollout(given, settings, "test", self.number + 1)

    def _build_rollout(
        self, given: RolloutPhaseConfig, settings: dict[str, Any], split: Split, number: int
    ) -> Phase:
        own = {"split": split, "number": number}
        settings = {
            "save_every_percent": 25.0,  # Its log says how far it is.
            **self._fill(settings),
            "out": self.config.out,
            "seed": self.seed,
            "iteration": {**(settings.get("iteration") or {}), **own},
        }
        command = self._webtraj("rollout", *_option("--ray", given.ray), settings=settings)
        dataset = self.places.played_dataset(number, split=split)
        return self._phase(
            command,
            Output(dataset, "dataset"),
            going_on=(*command, "--resume"),
            goes_on_in=dataset,
        )

    @property
    def _agent_alone(self) -> bool:
        """Return whether an agent without a model plays, because no model is trained yet."""
        return not self.policy.weights and self.config.first.agent is not None

    def _with_policy(self, settings: dict[str, Any], given: RolloutPhaseConfig) -> dict[str, Any]:
        """Return a rollout's settings, with the policy."""
        if given.played_by == "other":
            return settings
        first = self.config.first
        if self._agent_alone:
            # Settings of the model's agent do not apply to this one.
            options = {} if first.agent == "oracle" else dict(first.agent_options)
            kept = {key: settings[key] for key in settings.keys() - {*MODEL, *SAMPLING}}
            return {**kept, "agent": first.agent, "agent_options": options}
        agent, urls = settings.get("agent", "model"), list(self.policy.urls)
        if agent not in AGENTS and "model" not in shared_options(agent):
            # A custom agent takes the model in its options.
            asked = {"model": self.policy.model, "base_url": ",".join(urls[:1])}
            known = {name: value for name, value in asked.items() if value}
            options = {**known, **settings.get("agent_options", {})}
            return {**settings, "agent_options": options}
        served: dict[str, Any] = {"model": self.policy.model} if self.policy.model else {}
        if urls:
            served["base_url"] = urls[0] if len(urls) == 1 else urls
        asks = "model" in shared_options(agent)
        return {**settings, "agent": agent, **(served if asks else {})}

    def _judge(self, given: JudgePhaseConfig) -> Phase:
        settings = self._fill(given_settings(given, JudgeConfig))
        return self._phase(
            self._webtraj("judge run", self.places.rollout_dataset(self.number), settings=settings)
        )

    def _postprocess(self, given: PostprocessPhaseConfig) -> Phase:
        command = self._webtraj(
            "postprocess",
            *_option("--read", self.places.played_dataset(self.number)),
            *_option("--write", self.places.processed_dataset(self.number)),
            *_each("--import", given.imports),
            settings=self._fill(given_settings(given, ProcessingConfig)),
        )
        # If there is other data to train on, this may be empty.
        alone = (
            len(self.places.training_datasets(self.number)) == 1
            and self.config.algorithm(self.number) != "grpo"
        )
        processed = self.places.processed_dataset(self.number)
        return self._phase(command, Output(processed, "dataset" if alone else "kept"))

    def _export(self, given: ExportPhaseConfig) -> Phase:
        datasets = self.places.training_datasets(self.number)
        settings = given_settings(given, ExportSettings)
        return self._build_export(settings, datasets, self.places.export(self.number))

    def _groups(self, given: GroupsConfig) -> Phase:
        export = self.config.export
        settings = {"format": "tokens", "held_out": [] if export is None else export.held_out}
        datasets = self.places.groups_of(self.number)
        return self._build_export(settings, datasets, self.places.groups(self.number))

    def _build_export(self, settings: dict[str, Any], datasets: Sequence[str], out: str) -> Phase:
        first, *then = datasets
        command = self._webtraj(
            "train export",
            first,
            *_each("--then", then),
            *_option("--out", out),
            *_option("--seed", self.seed),
            "--overwrite",
            settings=self._fill(settings),
        )
        return self._phase(command, Output(out, "export"), at_once=True)

    def _train(self, given: TrainPhaseConfig) -> Phase:
        model = Output(self.places.model(self.number), "model")
        command = (
            self._by_ourselves()
            if given.llamafactory is None
            else self._by_llamafactory(given.llamafactory)
        )
        return self._phase(command, model, at_once=True, links=self._links(given))

    def _by_ourselves(self) -> tuple[str, ...]:
        training = self.places.training_folder(self.number)
        algorithm = self.config.algorithm(self.number)
        data = [self.places.groups(self.number)] if algorithm != "sft" else []
        data += [self.places.export(self.number)] if algorithm != "grpo" else []
        settings = self._fill(training_settings(self.config, self.number))
        return self._webtraj(
            "train",
            *_option("--model", self.places.base(self.number)),
            *_each("--data", data),
            *_option("--out", training),
            *_option("--publish", training),
            settings={"seed": self.seed, **settings},
        )

    def _by_llamafactory(self, given: LlamaFactoryConfig) -> tuple[str, ...]:
        begun = {"base_model": self.places.base(self.number), "init_model_from_hf": True}
        own = {
            "save_path": self.places.training_folder(self.number),
            "policy_config": begun,
            "algorithm_config": {"seed": self.seed},
        }
        settings = merge(own, self._fill(given_settings(given, UpdateSettings)))
        settings["policy_config"] |= begun
        python = self._fill(given.python)
        return self._webtraj("train update", "--python", python, "--train", settings=settings)

    def _links(self, given: TrainPhaseConfig) -> dict[str, str]:
        """Return the links by which LLaMA-Factory's update finds the datasets."""
        if given.llamafactory is None or given.command is not None:
            return {}
        folder = Path(self.places.training_folder(self.number)) / "train_trajectories"
        datasets = enumerate(reversed(self.places.training_datasets(self.number)))
        return {str(folder / version_name(self.number - age)): dataset for age, dataset in datasets}

    def _publish(self, given: PublishConfig) -> Phase:
        places = self.places
        command = (
            self.python, "-m", "webtraj.loop.model_link",
            places.model(self.number), str(places.latest_model), *_option("--copy-to", given.to),
        )  # fmt: skip
        return self._phase(command, Output(str(places.latest_model)))

    def _webtraj(
        self, command: str, *arguments: str, settings: Mapping[str, Any]
    ) -> tuple[str, ...]:
        own = (self.python, "-m", "webtraj", *command.split())
        return (*own, *arguments, *overrides_of(settings))

    def _own(self, given: Sequence[str]) -> tuple[str, ...]:
        program, *arguments = self._fill(list(given))
        if program == "webtraj":
            return (self.python, "-m", "webtraj", *arguments)
        return (program, *arguments)

    def _fill(self, value: Any) -> Any:
        return configuration.fill(value, self._values())

    def _values(self) -> dict[str, str | Sequence[str]]:
        places, number, policy = self.places, self.number, self.policy
        values: dict[str, str | Sequence[str]] = {
            "out": self.config.out,
            "iteration": str(number),
            "previous": str(number - 1),
            "seed": str(self.seed),
            "python": self.python,
            "evaluated": places.evaluation_dataset(number),
            "version": version_name(policy.version),
        }
        if number:
            values |= {name: place(places, number) for name, place in _PLACES.items()}
            values["datasets"] = places.training_datasets(number)
        if policy.weights:
            values["weights"] = policy.weights
        if policy.urls:
            values |= {"base_url": policy.urls[0], "served_model": policy.model}
        return values


_SECTIONS = {"evaluate": "evaluation"}
_PLACES: dict[str, Callable[[Places, int], str]] = {
    "recorded": Places.rollout_dataset,
    "processed": Places.processed_dataset,
    "latest": Places.latest,
    "export": Places.export,
    "groups": Places.groups,
    "training": Places.training_folder,
    "model": Places.model,
    "base": Places.base,
}
"""The places that placeholders stand for, by name."""


def _option(flag: str, value: Any) -> tuple[str, ...]:
    return () if value is None else (flag, str(value))


def _each(flag: str, values: Sequence[str]) -> Iterator[str]:
    for value in values:
        yield from (flag, value)


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
    """Check the settings of later phases in advance: tasks, judges, steps, formats.

    Raises:
        InvalidInputError: Something is missing, or has an unknown name.
    """
    from webtraj.judging.catalog import judge_names, make_judge
    from webtraj.processing.registry import make_step, step_names
    from webtraj.training.export.export_folder import all_formats, make_format

    for name in ("rollout", "evaluation"):
        played = getattr(config, name)
        if played is not None and played.command is None and not played.preset:
            raise errors.InvalidInputError(
                f"{name} has no tasks; set {name}.preset, such as [miniwob/click-test]."
            )
    judge, export, processing = config.judge, config.export, config.postprocess
    if judge is not None and judge.command is None:
        for spec in judge.names():
            if spec.partition(":")[0] not in judge_names():
                make_judge(spec)
    if export is not None and export.command is None and export.format not in all_formats():
        make_format(export.format)
    if processing is not None and processing.command is None and not processing.imports:
        for step, _ in processing.choices():
            if step not in step_names():
                make_step(step)
