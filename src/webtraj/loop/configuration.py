"""The configuration of a loop: its keys. `config_file` reads it.

Placeholders stand for values that are known only later: `{latest}` in a command becomes the path of
the iteration's dataset.
"""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, model_validator

from webtraj import errors
from webtraj.agents.catalog import agent_names, shared_options
from webtraj.judging.configuration import JudgeConfig
from webtraj.processing.configuration import ProcessingConfig
from webtraj.runs.spec import RunSpec, WandbConfig
from webtraj.settings import configuration
from webtraj.settings.configuration import Section
from webtraj.settings.named import nearest
from webtraj.training.export.configuration import ExportSettings
from webtraj.training.llamafactory.configuration import UpdateSettings
from webtraj.training.sft.settings import TrainingSettings

__all__ = [
    "Algorithm",
    "EvaluationConfig",
    "ExportPhaseConfig",
    "ExtraConfig",
    "FirstConfig",
    "GroupsConfig",
    "JudgePhaseConfig",
    "LlamaFactoryConfig",
    "LoopConfig",
    "NAMES",
    "OverlapConfig",
    "PhaseConfig",
    "PostprocessPhaseConfig",
    "PublishConfig",
    "RolloutPhaseConfig",
    "ServeConfig",
    "TrainPhaseConfig",
    "check_placeholders",
    "fill",
    "given_settings",
    "overrides_of",
    "to_data",
    "to_yaml",
]

_AtLeastOne = Annotated[int, Field(ge=1)]
_AtLeastZero = Annotated[int, Field(ge=0)]
_Values = dict[str, Any]
Algorithm = Literal["sft", "grpo", "mixed"]
"""`sft` imitates the rows of `export`; `grpo` is policy gradient on groups of attempts; `mixed`
does both."""
_Name = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,39}$")]


def given_settings(section: Section, model: type[Section]) -> dict[str, Any]:
    """Return the command settings that a section sets, without defaults."""
    return section.model_dump(mode="json", include={*model.model_fields}, exclude_unset=True)


def _check_taken(section: Section, *names: str, prefix: str = "") -> None:
    """Check that settings that the loop sets are not given."""
    for name in names:
        if name in section.model_fields_set:
            raise ValueError(f"takes no {prefix}{name}, which the loop sets; remove it")


def _check_rollout(spec: RunSpec, prefix: str = "") -> None:
    _check_taken(spec, "out", "seed", "fork", "episodes", prefix=prefix)
    if spec.iteration is not None:
        _check_taken(spec.iteration, "split", "number", "rank", prefix=f"{prefix}iteration.")


class PhaseConfig(Section):
    """A phase: a webtraj command with its own settings, or a custom command."""

    command: list[str] | None = None
    """Custom command to run instead, with placeholders such as `{latest}`. The first word `webtraj`
    means webtraj's own commands. It must make the phase's outputs."""
    retries: _AtLeastZero | None = None
    """Retries after a failure; the loop's `retries` by default."""

    @model_validator(mode="after")
    def _one_or_the_other(self) -> Self:
        of_its_own = {"command", "retries", *self._BESIDE_COMMANDS}
        usual = type(self).model_construct()
        others = sorted(
            name
            for name in self.model_fields_set - of_its_own
            if getattr(self, name) != getattr(usual, name)  # Printed ones have every key.
        )
        if self.command is not None and others:
            raise ValueError(
                f"has both a command and {', '.join(others)}, which the command ignores; remove "
                "one of them"
            )
        if self.command is not None and not self.command:
            raise ValueError("has an empty command; give a program and its arguments, or null")
        return self

    _BESIDE_COMMANDS: ClassVar[frozenset[str]] = frozenset()


class RolloutPhaseConfig(PhaseConfig, RunSpec):
    """The rollout to train on: settings of `webtraj rollout`."""

    ray: str | None = None
    """Address of a Ray cluster to play on."""
    played_by: Literal["policy", "other"] = "policy"
    """`policy` if the loop's server plays; `other` for the agent of these settings."""

    _BESIDE_COMMANDS: ClassVar[frozenset[str]] = frozenset({"played_by"})

    @model_validator(mode="after")
    def _check_taken(self) -> Self:
        _check_rollout(self)
        return self


class EvaluationConfig(RolloutPhaseConfig):
    """The evaluation of the policy: the same episodes each time, which are not trained on."""

    every: _AtLeastOne = 1
    """Iterations between evaluations; also before the first and after the last one."""

    _BESIDE_COMMANDS: ClassVar[frozenset[str]] = frozenset({"played_by", "every"})


class JudgePhaseConfig(PhaseConfig, JudgeConfig):
    """The judging of the recorded episodes: settings of `webtraj judge run`."""


class PostprocessPhaseConfig(PhaseConfig, ProcessingConfig):
    """The post-processing of the recorded dataset: settings of `webtraj postprocess`."""

    @model_validator(mode="after")
    def _check_taken(self) -> Self:
        _check_taken(self, "read", "write")
        return self


class ExportPhaseConfig(PhaseConfig, ExportSettings):
    """The export of training data: settings of `webtraj train export`."""

    iterations: _AtLeastOne | None = None
    """Number of last iterations to export; null for all."""

    _BESIDE_COMMANDS: ClassVar[frozenset[str]] = frozenset({"iterations"})


class GroupsConfig(PhaseConfig):
    """The groups of attempts that `train.algorithm` grpo and mixed train on, exported as tokens."""

    iterations: _AtLeastOne = 1
    """Number of last iterations to train on: 1 takes only replies of the weights that the training
    starts from (with `overlap`, of weights as many trainings older)."""
    rollout: RunSpec = RunSpec()
    """Settings that override those of `rollout` in such iterations: `{group_size: 8, attempts:
    4}`."""
    train: TrainingSettings = TrainingSettings()
    """Settings that override those of `train`: `{learning_rate: 1e-3, policy: {clip_high:
    0.28}}`."""

    _BESIDE_COMMANDS: ClassVar[frozenset[str]] = frozenset({"iterations", "rollout", "train"})

    @model_validator(mode="after")
    def _check_taken(self) -> Self:
        _check_rollout(self.rollout, "rollout.")
        return self


class LlamaFactoryConfig(UpdateSettings):
    """The training by LLaMA-Factory: settings of `webtraj train update`."""

    python: str
    """The Python of LLaMA-Factory's environment."""


class TrainPhaseConfig(PhaseConfig, TrainingSettings):
    """The training: settings of `webtraj train`."""

    algorithm: Algorithm | Annotated[list[Algorithm], Field(min_length=1)] = "sft"
    """`sft`, `grpo` or `mixed`; or a list by iteration, whose last entry is for all later ones:
    `[sft, grpo]` starts from imitation."""
    model: str | None = None
    """The initial model, a folder or a name on the Hub; `first.policy` by default."""
    begin: Literal["previous", "base"] = "previous"
    """Start of each iteration: the previous iteration's weights, or `model` again."""
    llamafactory: LlamaFactoryConfig | None = None
    """Train with LLaMA-Factory instead of the built-in trainer."""

    _BESIDE_COMMANDS: ClassVar[frozenset[str]] = frozenset({"algorithm", "model", "begin"})

    @model_validator(mode="after")
    def _check_trainer(self) -> Self:
        if self.llamafactory is not None and (given := given_settings(self, TrainingSettings)):
            raise ValueError(
                f"with llamafactory takes no {next(iter(given))}, a setting of the built-in "
                "trainer; set llamafactory.algorithm_config"
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
    rollout: RunSpec = RunSpec()
    """Settings that override those of `rollout` for such an agent: it is fast, and may play
    more."""

    @model_validator(mode="after")
    def _check_taken(self) -> Self:
        _check_rollout(self.rollout, "rollout.")
        return self

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
    judge: JudgePhaseConfig | None = None
    """The judging; null for none."""
    postprocess: PostprocessPhaseConfig | None = None
    """The post-processing; null for none."""
    export: ExportPhaseConfig | None = ExportPhaseConfig()
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
        builtin = self.train.llamafactory is None and self.train.command is None
        used = {self.algorithm(number) for number in range(1, self.iterations + 1)}
        if builtin and self.export is None and used != {"grpo"}:
            raise ValueError("train needs an export; set export, such as {}")
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
                "train.begin=base and train.method=lora"
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
        if self.train.command is None and self.train.llamafactory is not None:
            raise ValueError(
                f"train.algorithm {name} needs the built-in trainer; remove train.llamafactory"
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


def check_placeholders(value: Any, key: str) -> None:
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
    """Return a list's item, filled in. A placeholder with several values gives several items."""
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


def overrides_of(settings: Mapping[str, Any]) -> list[str]:
    """Return settings as `key=value`, with values in JSON, which is valid YAML.

    >>> overrides_of({"lora": {"rank": 4}, "packing": True})
    ['lora={"rank": 4}', 'packing=true']
    """
    data = configuration.escape(settings)
    return [f"{key}={_to_json(value)}" for key, value in data.items()]


_NOT_IN_YAML = re.compile(r"[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")


def _to_json(value: Any) -> str:
    # YAML has no pairs of escapes, in which JSON can write an emoji.
    text = json.dumps(value, ensure_ascii=False)
    return _NOT_IN_YAML.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


# Writing a configuration as data and as YAML.


def to_data(section: Section) -> dict[str, Any]:
    """Return a configuration as data, from which it can be loaded again.

    It has all of the loop's own keys, and those settings of commands that are given.
    """
    plain = section.model_dump(mode="json")
    data: dict[str, Any] = {}
    for name in type(section).model_fields:
        if name in section.model_fields_set or _is_own(type(section), name):
            value = getattr(section, name)
            data[name] = to_data(value) if isinstance(value, Section) else plain[name]
    return data


def _is_own(model: type[Section], name: str) -> bool:
    """Return whether a key is the loop's, not one of a command's settings."""
    own = (base for base in model.__mro__ if base.__module__ == __name__)
    return any(name in inspect.get_annotations(base) for base in own)


def to_yaml(config: LoopConfig) -> str:
    """Return the configuration as YAML, without secrets; see `to_data`."""
    return configuration.to_yaml(configuration.escape(to_data(config)))
