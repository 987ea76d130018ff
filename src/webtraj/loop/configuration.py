"""The configuration of a loop: its keys, read from a YAML file and `key=value`.

Placeholders stand for values that are known only later: `{latest}` in a command becomes the path of
the iteration's dataset.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, model_validator

from webtraj import errors
from webtraj.agents.catalog import agent_names, shared_options
from webtraj.runs.spec import WandbConfig
from webtraj.settings import configuration
from webtraj.settings.configuration import Section
from webtraj.settings.named import nearest
from webtraj.store.places import is_url

__all__ = [
    "Algorithm",
    "EvaluationConfig",
    "ExportConfig",
    "ExtraConfig",
    "FirstConfig",
    "GroupsConfig",
    "JudgeConfig",
    "LoopConfig",
    "NAMES",
    "OverlapConfig",
    "PhaseConfig",
    "PostprocessConfig",
    "PublishConfig",
    "RolloutPhaseConfig",
    "ServeConfig",
    "TrainPhaseConfig",
    "check",
    "fill",
    "load_loop_config",
    "overrides_of",
    "to_yaml",
]

_PACKAGE = "webtraj.loop"
"""Package with the recipes, in its folder `files`."""
_AtLeastOne = Annotated[int, Field(ge=1)]
_AtLeastZero = Annotated[int, Field(ge=0)]
_Values = dict[str, Any]
Algorithm = Literal["sft", "grpo", "mixed"]
"""`sft` imitates the rows of `export`; `grpo` is policy gradient on groups of attempts; `mixed`
does both."""
_Name = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,39}$")]


class PhaseConfig(Section):
    """A phase: a webtraj command with the options below, or a custom command."""

    command: list[str] | None = None
    """Custom command to run instead, with placeholders such as `{latest}`. The first word `webtraj`
    means webtraj's own commands. It must make the phase's outputs."""
    retries: _AtLeastZero | None = None
    """Retries after a failure; the loop's `retries` by default."""

    @model_validator(mode="after")
    def _one_or_the_other(self) -> Self:
        of_its_own = {"command", "retries", *self._BESIDE_COMMANDS}
        others = sorted(self.model_fields_set - of_its_own)
        if self.command is not None and others:
            raise ValueError(
                f"has both a command and {', '.join(others)}, which the command ignores; remove "
                "one of them"
            )
        if self.command is not None and not self.command:
            raise ValueError("has an empty command; give a program and its arguments, or null")
        return self

    _BESIDE_COMMANDS: ClassVar[frozenset[str]] = frozenset()


class RolloutPhaseConfig(PhaseConfig):
    """The rollout to train on: `webtraj rollout --config-name`."""

    config: str = "rollout_train"
    """Name of the rollout's configuration."""
    config_dir: str | None = None
    """Folder of that configuration, unless it ships with webtraj."""
    overrides: _Values = Field(default_factory=dict)
    """Keys to override in it: `{env_config: {server_size: 8}}`."""
    ray: str | None = None
    """Address of a Ray cluster to play on."""
    played_by: Literal["policy", "other"] = "policy"
    """`policy` if the loop's server plays; `other` for the agent in the rollout's configuration."""

    _BESIDE_COMMANDS: ClassVar[frozenset[str]] = frozenset({"played_by"})


class EvaluationConfig(RolloutPhaseConfig):
    """The evaluation of the policy: the same episodes each time, which are not trained on."""

    config: str = "rollout_test"
    """Name of the rollout's configuration."""
    every: _AtLeastOne = 1
    """Iterations between evaluations; also before the first and after the last one."""

    _BESIDE_COMMANDS: ClassVar[frozenset[str]] = frozenset({"played_by", "every"})


class JudgeConfig(PhaseConfig):
    """The judging of the recorded episodes: `webtraj judge run`."""

    by: str = "environment"
    """The judge: `environment`, `rules:FILE` or `model`."""
    when: Literal["unknown", "always"] = "unknown"
    """Episodes to judge: those with an unknown outcome, or all."""
    model: str | None = None
    """The model that judges."""
    base_url: str | None = None
    """URL of its server, `/v1` included."""
    provider: str | None = None
    """Protocol of its server."""
    options: _Values = Field(default_factory=dict)
    """Options of the judge, such as `votes: 3`."""


class PostprocessConfig(PhaseConfig):
    """The post-processing of the recorded dataset: `webtraj postprocess`."""

    config: str | None = None
    """YAML file of a pipeline."""
    steps: list[str] = Field(default_factory=list)
    """Steps of a pipeline instead, as in `--step`: `clean:min_steps=1`."""
    options: dict[str, _Values] = Field(default_factory=dict)
    """Further options of steps: `{clean: {min_steps: 1}}`."""
    imports: list[str] = Field(default_factory=list)
    """Modules to import, which register your own steps."""
    model: str | None = None
    """The model that steps ask."""
    base_url: str | None = None
    """URL of its server, `/v1` included."""
    provider: str | None = None
    """Protocol of its server."""
    where: str | None = None
    """Condition that selects the episodes."""
    parallel: _AtLeastOne | None = None
    """Episodes to process at a time."""


class ExportConfig(PhaseConfig):
    """The export of training data: `webtraj train export` of the last iterations' datasets."""

    format: str = "tokens"
    """Format of the samples: tokens, sharegpt, openai, ..."""
    iterations: _AtLeastOne | None = None
    """Number of last iterations to export; null for all."""
    filters: _Values = Field(default_factory=dict)
    """Filters of the samples: `{filter_successful_only: true, min_steps: 1}`."""
    where: str | None = None
    """Condition that selects the episodes."""
    held_out: list[str] = Field(default_factory=list)
    """Tasks, patterns or task files to exclude."""
    loss_weights: Literal["success", "reward", "uniform", "advantage", "rare"] | None = None
    """Weight of each sample in the loss."""
    samples: _AtLeastOne | None = None
    """Number of samples to draw; null for all."""
    recency_bias_power: Annotated[float, Field(ge=0)] | None = None
    """With `samples`: how strongly to prefer later iterations."""
    val_split: Annotated[float, Field(gt=0, lt=1)] | None = None
    """Share of the samples for validation."""
    split_by: Literal["episode", "group", "task", "site"] | None = None
    """Unit that is not split between training and validation."""
    render: bool = False
    """Whether to also make samples without a model call, such as from an oracle's decisions."""
    options: _Values = Field(default_factory=dict)
    """Options of the format."""

    _BESIDE_COMMANDS: ClassVar[frozenset[str]] = frozenset({"iterations"})


class GroupsConfig(PhaseConfig):
    """The groups of attempts that `train.algorithm` grpo and mixed train on, exported as tokens."""

    iterations: _AtLeastOne = 1
    """Number of last iterations to train on: 1 takes only replies of the weights that the training
    starts from (with `overlap`, of weights as many trainings older)."""
    rollout: _Values = Field(default_factory=dict)
    """Keys to override in such iterations' rollouts: `{env_config: {attempts_per_task: 8,
    groups_per_task: 4}}`. The attempts of a group always share a seed."""
    train: _Values = Field(default_factory=dict)
    """Keys to override in their trainings: `{learning_rate: 1e-3, policy: {clip_high: 0.28}}`."""

    _BESIDE_COMMANDS: ClassVar[frozenset[str]] = frozenset({"iterations", "rollout", "train"})


class TrainPhaseConfig(PhaseConfig):
    """The training: `webtraj train`, or `webtraj train update --train` with LLaMA-Factory."""

    algorithm: Algorithm | Annotated[list[Algorithm], Field(min_length=1)] = "sft"
    """`sft`, `grpo` or `mixed`; or a list by iteration, whose last entry is for all later ones:
    `[sft, grpo]` starts from imitation."""
    engine: Literal["builtin", "llamafactory"] = "builtin"
    """The trainer."""
    config: str | None = None
    """`builtin`: a YAML file. `llamafactory`: a configuration's name; update_online if null."""
    config_dir: str | None = None
    """`llamafactory`: the folder of that configuration."""
    overrides: _Values = Field(default_factory=dict)
    """Keys of the training to override: `{learning_rate: 1e-4}`."""
    model: str | None = None
    """The initial model, a folder or a name on the Hub; `first.policy` by default."""
    begin: Literal["previous", "base"] = "previous"
    """Start of each iteration: the previous iteration's weights, or `model` again."""
    python: str | None = None
    """`llamafactory`: the Python of its environment."""

    _BESIDE_COMMANDS: ClassVar[frozenset[str]] = frozenset({"algorithm", "model", "begin"})

    @model_validator(mode="after")
    def _check_engine(self) -> Self:
        if self.engine == "llamafactory" and self.command is None and self.python is None:
            raise ValueError("with engine llamafactory needs python, the Python of its environment")
        for name in ("python", "config_dir"):
            if self.engine == "builtin" and getattr(self, name) is not None:
                raise ValueError(
                    f"with engine builtin takes no {name}; set interpreters.train for its Python"
                )
        return self


class PublishConfig(PhaseConfig):
    """The publishing of the trained model: the link `<out>/model.pt` points to it."""

    to: str | None = None
    """Folder for a complete copy of the model, for example one that other machines can read."""
    keep: Annotated[int, Field(ge=2)] | None = None
    """Number of iterations whose trainings are kept; null for all."""


class ServeConfig(Section):
    """The server of the policy."""

    engine: Literal["vllm", "external", "none"] = "none"
    """`vllm`: a server that the loop runs. `external`: a running server. `none`: no server; the
    agent loads the model itself or needs none."""
    update: Literal["reload", "lora", "restart"] = "restart"
    """`vllm`: how to update its weights: it reads a model or an adapter while it runs, or it is
    restarted. An adapter needs training with `method: lora` that starts from the base."""
    name: Annotated[str, Field(min_length=1)] = "policy"
    """`vllm` and `external`: the model's name in requests."""
    url: str | None = None
    """`external`: its URL, `/v1` included."""
    update_command: list[str] | None = None
    """`external`: command that gives it weights, `{weights}`, of version `{version}`; null if they
    are never updated."""
    options: _Values = Field(default_factory=dict)
    """`vllm`: options of `webtraj.serving.VllmLaunch`, such as `{max_model_len: 8192}`."""
    host: str = "127.0.0.1"
    """`vllm`: the address to listen on."""
    port: _AtLeastZero = 0
    """`vllm`: the port; 0 for any free one."""
    start_timeout: Annotated[float, Field(gt=0)] = 900.0
    """`vllm`: time limit of a start in seconds."""
    while_training: Literal["keep", "pause", "sleep", "drop", "stop"] = "keep"
    """`vllm`: what it keeps during training: everything, or it rests as in
    `webtraj.serving.vllm.Rest` and lends a GPU's memory to the training."""

    @model_validator(mode="after")
    def _check_engine(self) -> Self:
        if self.engine == "external" and self.url is None:
            raise ValueError("with engine external needs url, such as http://127.0.0.1:8000/v1")
        for name in ("url", "update_command"):
            if self.engine != "external" and getattr(self, name) is not None:
                raise ValueError(f"takes {name} only with engine external")
        return self


class FirstConfig(Section):
    """The policy before there is a trained model."""

    policy: str = "random"
    """An agent without a model, such as `random` or `oracle`; or a model: a folder, or a name on
    the Hub, which contains a slash."""
    iterations: _AtLeastOne = 1
    """Number of iterations that such an agent plays, before a trained model takes over."""
    agent_options: _Values = Field(default_factory=dict)
    """Options of such an agent; the oracle has none."""
    rollout: _Values = Field(default_factory=dict)
    """Keys to override in such an agent's rollouts: it is fast, and may play more."""

    @property
    def agent(self) -> str | None:
        """The agent, if it needs no model; else None."""
        name = self.policy
        needs_none = name in agent_names() and "model" not in shared_options(name)
        return name if needs_none else None


class OverlapConfig(Section):
    """Playing while training."""

    enabled: bool = False
    """Whether to play an iteration while training on the previous one."""
    max_staleness: _AtLeastOne = 1
    """Number of trainings that the playing weights are behind."""


class ExtraConfig(Section):
    """A custom phase."""

    name: _Name
    """Name of the phase."""
    command: Annotated[list[str], Field(min_length=1)]
    """Command of the phase, with placeholders."""
    after: Literal["rollout", "judge", "postprocess", "export", "train", "publish"]
    """Phase that it follows, whether or not that one is configured."""
    iterations: Literal["first", "every"] = "every"
    """Whether to run it in the first iteration or in every one."""
    outputs: list[str] = Field(default_factory=list)
    """Files and folders that it must make, with placeholders."""
    at_once: bool = False
    """Whether its outputs appear only when complete. Then outputs left by a killed try count, and
    it is not run again. Set this for a command that refuses to overwrite them."""
    retries: _AtLeastZero | None = None
    """Retries after a failure; the loop's `retries` by default."""


class LoopConfig(Section):
    """A loop."""

    out: Annotated[str, Field(min_length=1)]
    """Folder of everything that the loop makes."""
    iterations: _AtLeastOne = 3
    """Number of iterations."""
    seed: _AtLeastZero = 0
    """Seed from which the seeds of all phases are derived."""
    retries: _AtLeastZero = 1
    """Retries of a failed phase, unless its input is invalid."""
    patience: Annotated[float, Field(gt=0)] = 120.0
    """Seconds that a phase has to end in good order when the loop is ended."""
    interpreters: dict[str, str] = Field(default_factory=dict)
    """Python of a phase, by the phase's name: `{train: .venv-train/bin/python}`."""
    first: FirstConfig = FirstConfig()
    """The policy before there is a trained model."""
    rollout: RolloutPhaseConfig = RolloutPhaseConfig()
    """The rollout to train on."""
    evaluation: EvaluationConfig | None = None
    """The evaluation of the policy; null for none."""
    judge: JudgeConfig | None = None
    """The judging; null for none."""
    postprocess: PostprocessConfig | None = None
    """The post-processing; null for none."""
    export: ExportConfig | None = ExportConfig()
    """The export for training; null if the training reads datasets."""
    groups: GroupsConfig = GroupsConfig()
    """The groups of attempts for policy-gradient training."""
    train: TrainPhaseConfig = TrainPhaseConfig()
    """The training."""
    publish: PublishConfig = PublishConfig()
    """The publishing of the trained model."""
    serve: ServeConfig = ServeConfig()
    """The server of the policy."""
    overlap: OverlapConfig = OverlapConfig()
    """Playing while training."""
    extra: list[ExtraConfig] = Field(default_factory=list)
    """Custom phases."""
    wandb: WandbConfig | None = None
    """Weights & Biases, for the metrics of each iteration."""

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        names = [extra.name for extra in self.extra]
        taken = sorted({name for name in names if names.count(name) > 1 or name in PHASES})
        if taken:
            raise ValueError(f"extra has the name {taken[0]!r} twice, or for a built-in phase")
        for name in self.interpreters:
            if name not in (*PHASES, *names):
                raise ValueError(
                    f"interpreters names {name!r}; expected one of {', '.join((*PHASES, *names))}"
                )
        builtin = self.train.engine == "builtin" and self.train.command is None
        used = {self.algorithm(number) for number in range(1, self.iterations + 1)}
        if builtin and self.export is None and used != {"grpo"}:
            raise ValueError("train with engine builtin needs an export; set export, such as {}")
        base = self.train.model or self.first.policy
        if self.train.command is None and self.first.agent is not None and self.train.model is None:
            raise ValueError(
                f"train has no initial model, since first.policy is {base!r}; set train.model to a "
                "folder or a name on the Hub"
            )
        if self.overlap.max_staleness != 1 and not self.overlap.enabled:
            raise ValueError(
                "overlap.max_staleness has no effect without overlap; set overlap.enabled=true, or "
                "leave it out"
            )
        if self.overlap.enabled and self.serve.while_training != "keep":
            raise ValueError(
                "overlap plays while training, but serve.while_training="
                f"{self.serve.while_training} takes the server away; use keep, or no overlap"
            )
        if self.serve.update == "lora" and self.train.begin != "base":
            raise ValueError(
                "serve.update=lora serves adapters of the loop's initial model; set "
                "train.begin=base, and method: lora in train.overrides"
            )
        if used != {"sft"}:
            self._check_gradient(used)
        return self

    def algorithm(self, iteration: int) -> Algorithm:
        """Return the algorithm of an iteration."""
        given = self.train.algorithm
        return given if isinstance(given, str) else given[min(iteration, len(given)) - 1]

    def _check_gradient(self, used: set[Algorithm]) -> None:
        """Check what policy-gradient training needs of other keys."""
        name = "mixed" if "grpo" not in used else "grpo"
        if self.train.command is None and self.train.engine != "builtin":
            raise ValueError(
                f"train.algorithm {name} needs the built-in trainer; set train.engine=builtin"
            )
        if self.train.command is None and self.train.begin == "base":
            raise ValueError(
                f"train.algorithm {name} trains the weights that sampled the replies; set "
                "train.begin=previous"
            )
        export = self.export
        if "mixed" in used and (
            export is None or (export.command is None and export.format == "tokens")
        ):
            raise ValueError(
                "train.algorithm mixed also imitates the rows of export, and those of the format "
                "tokens have log-probabilities, which are not imitated; set export.format to "
                "another one, such as sharegpt"
            )
        alone = self.first.iterations
        if self.overlap.enabled:
            alone = max(alone, 1 + self.overlap.max_staleness)
        early = [n for n in range(1, alone + 1) if self.algorithm(n) != "sft"]
        if self.first.agent is not None and early and early[0] <= self.iterations:
            raise ValueError(
                f"train.algorithm is {self.algorithm(early[0])} in iteration {early[0]}, which the "
                f"agent {self.first.agent} plays without a model; set sft for the first {alone}: "
                f"train.algorithm=[{', '.join([*['sft'] * alone, name])}]"
            )


PHASES = (
    "rollout", "judge", "postprocess", "export", "groups", "train", "publish", "evaluate"
)  # fmt: skip
"""Names of the phases that ship, in order."""


# Placeholders: `{latest}` in a command becomes the path of the iteration's dataset.
#
# A name in braces is replaced by its value. `{{latest}}` stands for the text `{latest}`; other
# braces, such as JSON's, stay as they are. A list item that consists of a placeholder with several
# values, such as `{datasets}`, becomes that many items.

NAMES: Mapping[str, str] = {
    "out": "the loop's folder",
    "iteration": "the iteration's number",
    "previous": "the previous iteration's number",
    "seed": "the phase's seed",
    "python": "the phase's Python",
    "recorded": "the dataset of the iteration's rollout",
    "evaluated": "the dataset of the iteration's evaluation",
    "processed": "the post-processed dataset",
    "latest": "the last of these that has a phase",
    "datasets": "the latest datasets of all iterations to train on, the oldest first",
    "export": "the folder of the iteration's export",
    "groups": "the folder of the iteration's groups of attempts, exported as tokens",
    "training": "the folder of the iteration's training",
    "model": "the folder of the iteration's trained model",
    "base": "the model that the training starts from",
    "weights": "the model that plays",
    "version": "the name of these weights",
    "base_url": "the URL of that model's server",
    "served_model": "that model's name on its server",
}
"""Placeholders that a command may use."""

Values = Mapping[str, str | Sequence[str]]

_PLACEHOLDER = re.compile(r"\{\{([a-z_][a-z0-9_]*)\}\}|\{([a-z_][a-z0-9_]*)\}")


def _check_placeholders(value: Any, key: str) -> None:
    """Check that all placeholders in a value are known.

    Raises:
        InvalidInputError: A placeholder is unknown; the message names the nearest.
    """
    for text in _texts(value):
        for match in _PLACEHOLDER.finditer(text):
            name = match[2]
            if name is not None and name not in NAMES:
                raise errors.InvalidInputError(
                    f"{key} has the unknown placeholder {{{name}}}. "
                    f"{nearest(name, tuple(NAMES))}Expected one of {', '.join(NAMES)}; write "
                    f"{{{{{name}}}}} for the text itself."
                )


def fill(value: Any, values: Values) -> Any:
    """Fill in the placeholders of a text, or of a list or mapping of texts.

    >>> fill({"command": ["cat", "{datasets}", "{{seed}}"]}, {"datasets": ["a", "b"]})
    {'command': ['cat', 'a', 'b', '{seed}']}

    Raises:
        InvalidInputError: A placeholder has no value here.
    """
    if isinstance(value, str):
        return _PLACEHOLDER.sub(lambda match: _one(match, values), value)
    if isinstance(value, Mapping):
        return {key: fill(item, values) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [filled for item in value for filled in _items(item, values)]
    return value


def _items(item: Any, values: Values) -> Sequence[Any]:
    """Return a list's item, filled in: several if it is a placeholder with several values."""
    match = _PLACEHOLDER.fullmatch(item) if isinstance(item, str) else None
    several = values.get(match[2]) if match else None
    return [fill(item, values)] if several is None or isinstance(several, str) else several


def _one(match: re.Match[str], values: Values) -> str:
    if match[1] is not None:
        return f"{{{match[1]}}}"
    value = values.get(match[2])
    if value is None:
        raise errors.InvalidInputError(
            f"The placeholder {{{match[2]}}} has no value here: {NAMES.get(match[2], 'unknown')}."
        )
    return value if isinstance(value, str) else " ".join(value)


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping | list | tuple):
        for item in value.values() if isinstance(value, Mapping) else value:
            yield from _texts(item)


def overrides_of(data: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    """Yield `key=value` of a nested mapping, with values in JSON, which is valid YAML.

    >>> list(overrides_of({"lora": {"rank": 4}, "packing": True}))
    ['lora.rank=4', 'packing=true']
    """
    for key, value in data.items():
        if isinstance(value, Mapping) and value:
            yield from overrides_of(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}={json.dumps(value)}"


# Loading: a YAML file, and `key=value` on top.


def load_loop_config(
    path: str | os.PathLike[str] | None = None,
    overrides: Iterable[str] = (),
    given: Mapping[str, Any] | None = None,
) -> LoopConfig:
    """Return a loop's configuration.

    Args:
        path: A YAML file, or the name of a recipe that ships, such as `one_gpu`. References such
            as `${out}` and `${oc.env:HOME}` are resolved.
        overrides: Items of `key=value`, with a dotted key and a YAML value: `iterations=5`.
        given: Values that override all others.

    Raises:
        InvalidInputError: The file cannot be read, a recipe or key is unknown, or a value is
            missing or invalid. The message names the nearest known name.
        MissingDependencyError: OmegaConf is needed and not installed.
    """
    name = "loop" if path is None else os.fspath(path)
    if path is None:
        data = {}
    elif _names_recipe(name):
        data = configuration.read_named(name, config_dir=None, package=_PACKAGE)
    else:
        data = configuration.read_file(path)
    data = configuration.with_overrides(data, overrides, example="iterations=5")
    data = configuration.merged(data, given or {})
    return check(configuration.checked(data, LoopConfig, name))


def _names_recipe(name: str) -> bool:
    """Return whether it is a bare name without a file."""
    path = Path(name)
    return path.name == name and path.suffix not in (".yaml", ".yml") and not path.is_file()


def check(config: LoopConfig) -> LoopConfig:
    """Check what spans several keys: placeholders, the folder, names, and rollouts in groups.

    Raises:
        InvalidInputError: A placeholder, format, step or key of the trainer is unknown, `out` is a
            bucket, or a rollout does not fit the algorithm.
    """
    if is_url(config.out):
        raise errors.InvalidInputError(
            f"out is {config.out!r}; expected a folder, since a loop's state and models need a "
            "disk. To copy results elsewhere, use `webtraj push` and publish.command."
        )
    for key in (*PHASES[:-1], "evaluation", "serve"):
        if (value := getattr(config, key)) is not None:
            _check_placeholders(value.model_dump(), key)
    for extra in config.extra:
        _check_placeholders([extra.command, extra.outputs], f"extra.{extra.name}")
    from webtraj.loop.building import check_phases
    from webtraj.loop.groups import check_groups

    check_groups(config)
    check_phases(config)
    return config


def to_yaml(config: LoopConfig) -> str:
    """Return the whole configuration as YAML, with defaults and without secrets."""
    return configuration.to_yaml(configuration.escaped(config.model_dump(mode="json")))
