"""A loop's configuration: its keys, what they mean and may be, from a YAML file and `key=value`.

Placeholders stand for what is known only then: `{latest}` in a command means where the iteration's
dataset lies.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, model_validator

from webtraj import configuration, errors
from webtraj.configuration import Section
from webtraj.named import nearest
from webtraj.rollouts.configuration.rollout import WandbConfig
from webtraj.store.places import is_url

__all__ = [
    "EvaluationConfig",
    "ExportConfig",
    "ExtraConfig",
    "FirstConfig",
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
    "fill_all",
    "load_loop_config",
    "to_yaml",
]

_PACKAGE = "webtraj.loop"
"""Has the recipes in its folder `files`."""
_AtLeastOne = Annotated[int, Field(ge=1)]
_AtLeastZero = Annotated[int, Field(ge=0)]
_Values = dict[str, Any]
_Name = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,39}$")]


class PhaseConfig(Section):
    """A phase: a webtraj command with the options below, or a command of one's own."""

    command: list[str] | None = None
    """A command of one's own instead, its placeholders such as `{latest}` filled in; the first
    word `webtraj` means webtraj's own commands. It must make what the phase promises."""
    retries: _AtLeastZero | None = None
    """How often it is tried again after it failed; by default the loop's `retries`."""

    @model_validator(mode="after")
    def _one_or_the_other(self) -> Self:
        of_its_own = {"command", "retries", *self._BESIDE_COMMANDS}
        others = sorted(self.model_fields_set - of_its_own)
        if self.command is not None and others:
            raise ValueError(
                f"has a command of its own, which {', '.join(others)} would say nothing to; give "
                "one or the other"
            )
        if self.command is not None and not self.command:
            raise ValueError("has an empty command; give a program and its arguments, or null")
        return self

    _BESIDE_COMMANDS: ClassVar[frozenset[str]] = frozenset()


class RolloutPhaseConfig(PhaseConfig):
    """What is played to train on: `webtraj rollout --config-name`."""

    config: str = "rollout_train"
    """The rollout's configuration by name."""
    config_dir: str | None = None
    """The folder that it is in, if it is none of those that ship."""
    overrides: _Values = Field(default_factory=dict)
    """Its keys that are said here: `{env_config: {server_size: 8}}`."""
    ray: str | None = None
    """The address of a Ray cluster to play on."""
    played_by: Literal["policy", "other"] = "policy"
    """Whether the loop's server plays; `other`: whoever the rollout's own configuration names."""

    _BESIDE_COMMANDS: ClassVar[frozenset[str]] = frozenset({"played_by"})


class EvaluationConfig(RolloutPhaseConfig):
    """What the policy is measured by: the same episodes each time, which are not trained on."""

    config: str = "rollout_test"
    """The rollout's configuration by name."""
    every: _AtLeastOne = 1
    """After how many iterations; also before the first and after the last one."""

    _BESIDE_COMMANDS: ClassVar[frozenset[str]] = frozenset({"played_by", "every"})


class JudgeConfig(PhaseConfig):
    """Who says what was recorded was worth: a dataset beside the recorded one."""

    by: str = "environment"
    """`environment`, `rules:FILE` or `model`."""
    when: Literal["unknown", "always"] = "unknown"
    """Which episodes: those whose outcome is not known, or all."""
    model: str | None = None
    """The model that judges,"""
    model_url: str | None = None
    """and where its server is, `/v1` included."""
    model_provider: str | None = None
    """What its server speaks."""
    options: _Values = Field(default_factory=dict)
    """More options of the step `judge`."""


class PostprocessConfig(PhaseConfig):
    """What is made of the recorded dataset: `webtraj postprocess`."""

    config: str | None = None
    """A pipeline's YAML file."""
    steps: list[str] = Field(default_factory=list)
    """Or its steps, as `--step` takes them: `clean:min_steps=1`."""
    options: dict[str, _Values] = Field(default_factory=dict)
    """More options of steps: `{clean: {min_steps: 1}}`."""
    imports: list[str] = Field(default_factory=list)
    """Modules of one's own that make steps; they are run."""
    model: str | None = None
    """The model that steps ask,"""
    model_url: str | None = None
    """and where its server is, `/v1` included."""
    model_provider: str | None = None
    """What its server speaks."""
    where: str | None = None
    """Which episodes, as a condition."""
    parallel: _AtLeastOne | None = None
    """How many at a time."""


class ExportConfig(PhaseConfig):
    """Replay and export: `webtraj export` of the last iterations' datasets."""

    format: str = "tokens"
    """A format of samples: tokens, sharegpt, openai, ..."""
    iterations: _AtLeastOne | None = None
    """How many of the last iterations; null for all."""
    filters: _Values = Field(default_factory=dict)
    """What is let in: `{filter_successful_only: true, min_steps: 1}`."""
    where: str | None = None
    """Which episodes, as a condition."""
    held_out: list[str] = Field(default_factory=list)
    """Tasks, patterns or task files that must not be in it."""
    loss_weights: Literal["reward", "uniform", "advantage"] | None = None
    """What a sample counts."""
    samples: _AtLeastOne | None = None
    """How many are drawn; null for all."""
    recency_bias_power: Annotated[float, Field(ge=0)] | None = None
    """With `samples`: how much likelier later iterations are."""
    val_split: Annotated[float, Field(gt=0, lt=1)] | None = None
    """The share for validation."""
    split_by: Literal["episode", "group", "task", "site"] | None = None
    """What stays in one part."""
    render: bool = False
    """Samples also of what no model was asked for, such as an oracle's decisions."""
    options: _Values = Field(default_factory=dict)
    """Options of the format."""

    _BESIDE_COMMANDS: ClassVar[frozenset[str]] = frozenset({"iterations"})


class TrainPhaseConfig(PhaseConfig):
    """The training: `webtraj train`, or `webtraj update --train` by LLaMA-Factory."""

    engine: Literal["builtin", "llamafactory"] = "builtin"
    """Who trains."""
    config: str | None = None
    """`builtin`: a YAML file; `llamafactory`: the configuration's name, update_online if null."""
    config_dir: str | None = None
    """`llamafactory`: the folder that it is in."""
    overrides: _Values = Field(default_factory=dict)
    """The training's keys that are said here: `{learning_rate: 1e-4}`."""
    model: str | None = None
    """The model to begin with, a folder or a name on the Hub; by default `first.policy`."""
    begin: Literal["previous", "base"] = "previous"
    """What each iteration begins with: the weights of the one before, or `model` again."""
    python: str | None = None
    """`llamafactory`: the Python of its environment."""

    _BESIDE_COMMANDS: ClassVar[frozenset[str]] = frozenset({"model", "begin"})

    @model_validator(mode="after")
    def _check_engine(self) -> Self:
        if self.engine == "llamafactory" and self.command is None and self.python is None:
            raise ValueError("of the engine llamafactory needs python: that of its environment")
        for name in ("python", "config_dir"):
            if self.engine == "builtin" and getattr(self, name) is not None:
                raise ValueError(
                    f"of the engine builtin takes no {name}; interpreters.train says which Python"
                )
        return self


class PublishConfig(PhaseConfig):
    """The trained model becomes the latest: `<out>/model.pt` leads to it."""

    to: str | None = None
    """A folder that gets a copy of it, whole or not at all, such as one that other machines see."""
    keep: Annotated[int, Field(ge=2)] | None = None
    """How many iterations' trainings are kept; null for all."""


class ServeConfig(Section):
    """Who answers as the policy."""

    engine: Literal["vllm", "external", "none"] = "none"
    """`vllm`: a server that the loop runs; `external`: one that is there; `none`: no server, the
    agent has the model in its own process, or needs none."""
    update: Literal["reload", "lora", "restart"] = "restart"
    """`vllm`: how it gets new weights: it reads them, or an adapter, while it runs; or it is
    started with them. An adapter needs a training by `method: lora` that begins with the base."""
    name: Annotated[str, Field(min_length=1)] = "policy"
    """`vllm`: the model's name in requests. `external`: likewise."""
    url: str | None = None
    """`external`: where it is, `/v1` included."""
    update_command: list[str] | None = None
    """`external`: gives it weights, `{weights}`, of version `{version}`; null: it gets none."""
    options: _Values = Field(default_factory=dict)
    """`vllm`: options of `webtraj.serving.VllmLaunch`, such as `{max_model_len: 8192}`."""
    host: str = "127.0.0.1"
    """`vllm`: the address to listen at,"""
    port: _AtLeastZero = 0
    """and the port; 0 for one that is free."""
    start_timeout: Annotated[float, Field(gt=0)] = 900.0
    """`vllm`: seconds that a start may take."""
    while_training: Literal["keep", "pause", "sleep", "drop", "stop"] = "keep"
    """`vllm`: what it keeps while a model is trained: all; or it rests, as
    `webtraj.serving.vllm.Rest` says, and leaves a GPU's memory to the training."""

    @model_validator(mode="after")
    def _check_engine(self) -> Self:
        if self.engine == "external" and self.url is None:
            raise ValueError("of the engine external needs url, such as http://127.0.0.1:8000/v1")
        for name in ("url", "update_command"):
            if self.engine != "external" and getattr(self, name) is not None:
                raise ValueError(f"takes {name} with the engine external alone")
        return self


class FirstConfig(Section):
    """Who plays before there is a trained model."""

    policy: str = "random"
    """An agent that needs no model, `random` or `oracle`; or a model: a folder, or a name on the
    Hub that has a slash."""
    iterations: _AtLeastOne = 1
    """How many iterations such an agent plays; a trained model plays those after them."""
    agent_options: _Values = Field(default_factory=dict)
    """Options of such an agent."""

    @property
    def agent(self) -> str | None:
        """The agent, if it is one that needs no model."""
        return self.policy if self.policy in ("random", "oracle") else None


class OverlapConfig(Section):
    """Playing while training."""

    enabled: bool = False
    """Whether an iteration is played while the one before is trained on."""
    max_staleness: _AtLeastOne = 1
    """How many trainings the weights that play are behind those of turn by turn."""


class ExtraConfig(Section):
    """A phase of one's own."""

    name: _Name
    """What it is called."""
    command: Annotated[list[str], Field(min_length=1)]
    """Its command, with placeholders."""
    after: Literal["rollout", "judge", "postprocess", "export", "train", "publish"]
    """The phase that it comes after, or where that would be."""
    iterations: Literal["first", "every"] = "every"
    """Whether it is run in the first iteration, or in each."""
    outputs: list[str] = Field(default_factory=list)
    """Files and folders that it must make, with placeholders."""
    at_once: bool = False
    """Whether its outputs are there whole or not at all. Then those of a try that was killed are
    its outputs, and it is not run again: say so of a command that refuses to make them twice."""
    retries: _AtLeastZero | None = None
    """How often it is tried again; by default the loop's `retries`."""


class LoopConfig(Section):
    """A loop."""

    out: Annotated[str, Field(min_length=1)]
    """The folder of all that the loop makes."""
    iterations: _AtLeastOne = 3
    """How many there are."""
    seed: _AtLeastZero = 0
    """What the seeds of all phases follow from."""
    retries: _AtLeastZero = 1
    """How often a phase that failed is tried again, unless its input is wrong."""
    patience: Annotated[float, Field(gt=0)] = 120.0
    """Seconds that a phase has to end in good order when the loop is ended."""
    interpreters: dict[str, str] = Field(default_factory=dict)
    """The Python of a phase, by its name: `{train: .venv-train/bin/python}`."""
    first: FirstConfig = FirstConfig()
    """Who plays before there is a trained model."""
    rollout: RolloutPhaseConfig = RolloutPhaseConfig()
    """What is played to train on."""
    evaluation: EvaluationConfig | None = None
    """What the policy is measured by; null for nothing."""
    judge: JudgeConfig | None = None
    """Who judges; null for nobody."""
    postprocess: PostprocessConfig | None = None
    """What is made of what was recorded; null for nothing."""
    export: ExportConfig | None = ExportConfig()
    """What is exported for training; null where the training reads datasets."""
    train: TrainPhaseConfig = TrainPhaseConfig()
    """The training."""
    publish: PublishConfig = PublishConfig()
    """Where the trained model goes."""
    serve: ServeConfig = ServeConfig()
    """Who answers as the policy."""
    overlap: OverlapConfig = OverlapConfig()
    """Playing while training."""
    extra: list[ExtraConfig] = Field(default_factory=list)
    """Phases of one's own."""
    wandb: WandbConfig | None = None
    """Weights & Biases, for the metrics of iterations."""

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        names = [extra.name for extra in self.extra]
        taken = sorted({name for name in names if names.count(name) > 1 or name in PHASES})
        if taken:
            raise ValueError(f"extra has the name {taken[0]!r} twice, or it is another phase's")
        for name in self.interpreters:
            if name not in (*PHASES, *names):
                raise ValueError(
                    f"interpreters names {name!r}; there are {', '.join((*PHASES, *names))}"
                )
        builtin = self.train.engine == "builtin" and self.train.command is None
        if builtin and self.export is None:
            raise ValueError("train of the engine builtin needs an export; give export, or {}")
        base = self.train.model or self.first.policy
        if self.train.command is None and self.first.agent is not None and self.train.model is None:
            raise ValueError(
                f"train has no model to begin with, as first.policy is {base!r}; give train.model, "
                "a folder or a name on the Hub"
            )
        if self.overlap.enabled and self.serve.while_training != "keep":
            raise ValueError(
                "overlap plays while training, and serve.while_training="
                f"{self.serve.while_training} leaves nobody to play"
            )
        if self.serve.update == "lora" and self.train.begin != "base":
            raise ValueError(
                "serve.update=lora serves adapters of the model that the loop began with; give "
                "train.begin=base and method: lora in train.overrides"
            )
        return self


PHASES = (
    "rollout", "judge", "postprocess", "export", "train", "publish", "evaluate"
)  # fmt: skip
"""The names of the phases that ship, in their order."""


# Placeholders: `{latest}` in a command means where the iteration's dataset lies.
#
# A name in braces is replaced by its value; `{{latest}}` stands for the text `{latest}`, and other
# braces, as JSON has them, for themselves. An item of a list that is a placeholder of several
# values, `{datasets}`, becomes as many items.

NAMES: Mapping[str, str] = {
    "out": "the loop's folder",
    "iteration": "the iteration's number",
    "previous": "the number before",
    "seed": "the phase's seed",
    "python": "the phase's Python",
    "recorded": "the dataset that the iteration's rollout makes",
    "evaluated": "the dataset that the iteration's evaluation makes",
    "judged": "the dataset that judges make of it",
    "processed": "the dataset that post-processing makes of it",
    "latest": "the last of these, of the phases that there are",
    "datasets": "the latest datasets of all iterations that are trained on, the oldest first",
    "export": "the folder of the iteration's export",
    "training": "the folder of the iteration's training",
    "model": "the folder that the training puts the model in",
    "base": "the model that the training begins with",
    "weights": "the model that plays",
    "version": "the name of these weights",
    "base_url": "the server of the model that plays",
    "served_model": "the name of the model that plays, as its server knows it",
}
"""What a command can name."""

Values = Mapping[str, str | Sequence[str]]

_PLACEHOLDER = re.compile(r"\{\{([a-z_][a-z0-9_]*)\}\}|\{([a-z_][a-z0-9_]*)\}")


def _check_placeholders(value: Any, key: str) -> None:
    """Checks that all placeholders in a value are known.

    Raises:
        InvalidInputError: One is not; the message names the nearest.
    """
    for text in _texts(value):
        for match in _PLACEHOLDER.finditer(text):
            name = match[2]
            if name is not None and name not in NAMES:
                raise errors.InvalidInputError(
                    f"{key} has the placeholder {{{name}}}, which is unknown. "
                    f"{nearest(name, tuple(NAMES))}There are {', '.join(NAMES)}; write "
                    f"{{{{{name}}}}} for the text itself."
                )


def fill(value: Any, values: Values) -> Any:
    """Returns a value with its placeholders filled in: a text, or a list or mapping of such.

    >>> fill({"command": ["cat", "{datasets}", "{{seed}}"]}, {"datasets": ["a", "b"]})
    {'command': ['cat', 'a', 'b', '{seed}']}

    Raises:
        InvalidInputError: One has no value here.
    """
    if isinstance(value, str):
        return _PLACEHOLDER.sub(lambda match: _one(match, values), value)
    if isinstance(value, Mapping):
        return {key: fill(item, values) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return list(fill_all(value, values))
    return value


def fill_all(items: Sequence[Any], values: Values) -> Iterator[Any]:
    """Yields the items of a list, filled in."""
    for item in items:
        several = values.get(item[1:-1]) if _is_one(item) else None
        if several is None or isinstance(several, str):
            yield fill(item, values)
        else:
            yield from several


def _is_one(item: Any) -> bool:
    if not isinstance(item, str):
        return False
    match = _PLACEHOLDER.fullmatch(item)
    return match is not None and match[2] is not None


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
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from _texts(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _texts(item)


# A loop's configuration: a YAML file, and `key=value` on top.


def load_loop_config(
    path: str | os.PathLike[str] | None = None,
    overrides: Iterable[str] = (),
    given: Mapping[str, Any] | None = None,
) -> LoopConfig:
    """Returns a loop's configuration.

    Args:
        path: A YAML file, or the name of a recipe that ships, such as `two_cores`. References such
            as `${out}` and `${oc.env:HOME}` are followed.
        overrides: `key=value` each, the key dotted, the value YAML: `iterations=5`.
        given: Values that go before all others.

    Raises:
        InvalidInputError: The file cannot be read; a recipe or key is unknown, or a key missing or
            wrong, and the message names the nearest that is known.
        MissingDependencyError: OmegaConf is not installed, and there is something to read.
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
    """Whether it is a bare name, and no file has it."""
    path = Path(name)
    return path.name == name and path.suffix not in (".yaml", ".yml") and not path.is_file()


def check(config: LoopConfig) -> LoopConfig:
    """Checks what a single key cannot tell: placeholders, and the folder.

    Raises:
        InvalidInputError: A placeholder is unknown, or `out` is a bucket.
    """
    if is_url(config.out):
        raise errors.InvalidInputError(
            f"out is {config.out!r}; expected a folder: a loop's state and models lie on a disk. "
            "`webtraj push` and publish.command send what is made elsewhere."
        )
    for key, value in (
        ("rollout", config.rollout), ("evaluation", config.evaluation), ("judge", config.judge),
        ("postprocess", config.postprocess), ("export", config.export), ("train", config.train),
        ("publish", config.publish), ("serve", config.serve),
    ):  # fmt: skip
        if value is not None:
            _check_placeholders(value.model_dump(), key)
    for extra in config.extra:
        _check_placeholders([extra.command, extra.outputs], f"extra.{extra.name}")
    return config


def to_yaml(config: LoopConfig) -> str:
    """Returns all of a configuration as YAML, defaults too. Secrets are left out."""
    return configuration.to_yaml(config.model_dump(mode="json"))
