"""`RunSpec`: the settings of a run, for all ways to start one.

Its fields are the settings of `webtraj rollout` (`webtraj.cli.flags` makes flags of the most
used), the keys of a configuration of the kind `run`, the settings that `collect` takes, and the
record beside the plan of every run, from which `--resume` reads them.
`webtraj.rollouts.configuration.dialects` has the names that WebGym and Orby have for them.

This module must stay light to import, since `webtraj rollout --help` reads it.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from webtraj.settings.configuration import Section

__all__ = [
    "DifficultyBand",
    "DifficultySteps",
    "EpisodeFormat",
    "ForkConfig",
    "IterationConfig",
    "MODEL",
    "MetricsConfig",
    "RankConfig",
    "RunSpec",
    "SAMPLING",
    "TaskOrder",
    "WandbConfig",
    "When",
]

EpisodeFormat = Literal["json", "pb", "pb.zst"]
"""Format of recorded episodes: JSON, or Protobuf, plain or compressed (`webtraj.store`)."""
When = Literal["unknown", "always"]
TaskOrder = Literal["given", "longest", "fair"]
"""`given`: as planned. `longest`: hardest first, so that no long episode is left to the end.
`fair`: one of each site in turn."""
_Operation = Literal[
    "metadata", "navigate", "allocate", "release", "screenshot", "ac_tree", "page_metadata",
    "execute", "requests_per_minute",
]  # fmt: skip

MODEL = ("model", "base_url", "api_key_variable", "provider", "requests_per_minute")
"""What an agent and a proposer need to know of one model."""
SAMPLING = ("temperature", "max_tokens")
"""Settings of an agent's model that have fields of their own."""
_WITHOUT_MODEL = ("curious", "oracle", "random", "replay", "scripted")
_Positive = Annotated[int, Field(ge=1)]
_Natural = Annotated[int, Field(ge=0)]
_Seconds = Annotated[float, Field(gt=0, le=2_000_000)]
"""At most 23 days: a browser counts milliseconds in 32 bits."""


class WandbConfig(Section):
    """A Weights & Biases run."""

    project: Annotated[str, Field(min_length=1)]
    """Name of the project."""
    entity: str | None = None
    """User or team that owns the project; the account's default if null."""
    run_name: str | None = None
    """The run's name in W&B; the rollout's run id by default."""
    mode: Literal["online", "offline", "disabled"] | None = None
    """`offline` keeps the run on this machine for `wandb sync`; by default WANDB_MODE, or else
    `online`."""
    folder: str | None = None
    """Folder for W&B's files; the current folder by default."""


class MetricsConfig(Section):
    """Destinations of live metrics, if any. `metrics.json` is always written."""

    tensorboard: Annotated[str, Field(min_length=1)] | None = None
    """Folder for TensorBoard, with a subfolder for each run."""
    wandb: WandbConfig | None = None
    """Weights & Biases."""

    def __bool__(self) -> bool:
        """Whether there is any."""
        return self.tensorboard is not None or self.wandb is not None


def _as_list(value: Any) -> Any:
    if isinstance(value, str):
        return [value]
    return list(value) if isinstance(value, tuple) else value


def _as_place(value: Any) -> Any:
    """Return a URL unchanged, and a folder as an absolute path, which a resumed run still finds."""
    text = _as_text(value)
    if not isinstance(text, str) or not text or "://" in text:
        return text
    return str(Path(text).absolute())


def _as_text(value: Any) -> Any:
    return os.fspath(value) if isinstance(value, os.PathLike) else value


class ForkConfig(Section):
    """Recorded episodes to repeat up to a step, at which the agent takes over."""

    dataset: Annotated[str, Field(min_length=1), BeforeValidator(_as_place)]
    """The dataset of the episodes, a folder or s3://bucket/prefix."""
    episodes: Annotated[list[str], BeforeValidator(_as_list)] = Field(default_factory=list)
    """Ids of the episodes; by default all that ended, have a seed and are not forks."""
    at: list[_Natural | Literal["last-good", "most-open", "cut-off"]] = Field(default_factory=list)
    """Steps to fork at, as numbers of actions to repeat. By default each step before the end.
    `last-good` is the step before the action that lost the most, and `most-open` the step at which
    outcomes differ most, both by the forks in the dataset (`webtraj.metrics.forks`). `cut-off` is
    after the last action of an episode that was cut off."""


class DifficultyBand(Section):
    """A range of difficulty and its share of the sample."""

    range: Annotated[list[_Natural], Field(min_length=2, max_length=2)]
    """Lowest and highest difficulty, both inclusive."""
    weight: Annotated[float, Field(gt=0)]
    """Share of the sample, relative to the other bands' weights."""


class DifficultySteps(Section):
    """Step limits by level: easy up to difficulty 3, medium up to 6, then hard."""

    easy: _Positive
    """Limit up to difficulty 3."""
    medium: _Positive
    """Limit from difficulty 4 to 6."""
    hard: _Positive
    """Limit from difficulty 7."""


class RankConfig(Section):
    """One of several processes that play one iteration without a cluster."""

    number: _Natural
    """Number of this process, from 0."""
    weights: Annotated[list[Annotated[float, Field(gt=0)]], Field(min_length=1)]
    """Shares of all processes in order, of episodes, browsers and requests."""
    suffix: str = ""
    """Suffix of this process's run id; `_rank_` and the number by default."""

    @model_validator(mode="after")
    def _is_one_of_them(self) -> Self:
        if self.number >= len(self.weights):
            raise ValueError(
                f"number is {self.number}, and there are {len(self.weights)} weights; give one "
                "weight for each process, and numbers from 0"
            )
        return self


class IterationConfig(Section):
    """A run that is one of several iterations. It samples tasks and has a dataset of its own.

    The datasets are below `out`, such as `train_trajectories/iteration_0001`.
    """

    split: Literal["train", "test"] = "train"
    """`train` samples other tasks in each iteration and skips blocked sites; `test` plays the same
    ones in each."""
    number: _Natural | None = None
    """Number of the iteration; by default the next one, from 1, or the last one on `--resume`."""
    sampler: Literal["uniform", "ratio", "sequential", "curriculum"] | None = None
    """How to sample: uniform, by `bands` (`ratio`), the first tasks in order (`sequential`), or a
    `curriculum`, which repeats tasks that succeeded sometimes, but not always, in the iteration
    before. Default: uniform for `train`, sequential for `test`."""
    size: _Positive | None = None
    """Number of tasks to sample, a curriculum's repetitions included; default: all."""
    repeat: _Positive = 1
    """Number of times that `sequential` plays its tasks."""
    bands: dict[str, DifficultyBand] | None = None
    """Bands of difficulty for the sampler `ratio`, by name."""
    unseen: bool = False
    """Whether to leave out tasks played in earlier iterations."""
    steps: DifficultySteps | list[_Positive] | None = None
    """Step limits by difficulty: easy, medium and hard, or a list whose first entry is for
    difficulty 1 and whose last is for all higher ones. Null for `max_steps`."""
    rank: RankConfig | None = None
    """The share of this process, if several play the iteration."""

    @property
    def samples_by(self) -> str:
        """The name of the sampler."""
        return self.sampler or ("uniform" if self.split == "train" else "sequential")

    @model_validator(mode="after")
    def _check_sampling(self) -> Self:
        if self.sampler == "ratio" and not self.bands:
            raise ValueError(
                "the sampler 'ratio' needs iteration.bands, such as "
                "{easy: {range: [1, 3], weight: 2}, hard: {range: [4, 99], weight: 1}}"
            )
        if self.sampler == "ratio" and self.size is None:
            raise ValueError("the sampler 'ratio' needs iteration.size, 1 or more")
        if self.bands and self.sampler != "ratio":
            raise ValueError(
                "iteration.bands applies only to the sampler 'ratio'; set iteration.sampler=ratio "
                "or iteration.bands=null"
            )
        if self.repeat > 1 and self.samples_by != "sequential":
            raise ValueError(
                "iteration.repeat applies only to the sampler 'sequential'; set "
                "iteration.sampler=sequential or iteration.repeat=1"
            )
        if self.rank is not None and self.number is None:
            raise ValueError(
                "ranks share an iteration; give every rank its number, such as iteration.number=1"
            )
        return self


class RunSpec(Section):
    """The settings of a run."""

    kind: Literal["run", "crawl"] = "run"
    """`crawl` plays the tasks in rounds, each task before any again, records screenshots, and
    writes `pb` by default."""
    preset: Annotated[list[str], BeforeValidator(_as_list)] = Field(default_factory=list)
    """What to play: a preset, such as miniwob/all:0:10, or a task file. A file is `.jsonl` or
    `.parquet`, a path or bucket URL."""
    fork: ForkConfig | None = None
    """Instead of presets: recorded episodes to fork. Forks at one step are a group."""
    iteration: IterationConfig | None = None
    """Make the run one of several iterations below `out`, with sampled tasks."""
    agent: str = ""
    """oracle, random, curious, model, explorer, scripted, replay or broken. Default: model if a
    model is given, else oracle."""
    model: str | None = None
    """The model to ask, by its server's name."""
    base_url: str | list[str] | None = None
    """The model's server, such as http://127.0.0.1:8000/v1. Several share the work; default: the
    vendor's."""
    api_key_variable: str | None = None
    """The environment variable with the API key for that server. Default: OPENAI_API_KEY or
    ANTHROPIC_API_KEY for those vendors' own servers, none for others."""
    provider: str | None = None
    """The server's API: vllm, openai, responses, anthropic, azure, bedrock, vertex or auto. `auto`
    asks an OpenAI-compatible server whether it is vLLM."""
    requests_per_minute: Annotated[float, Field(gt=0)] | None = None
    """Limit on model requests per minute; unlimited by default."""
    temperature: Annotated[float, Field(ge=0)] | None = None
    """The model's sampling temperature; default: the agent's own."""
    max_tokens: _Positive | None = None
    """Most tokens in a reply; default: the agent's own limit."""
    agent_options: dict[str, Any] = Field(default_factory=dict)
    """An option of the agent, such as mode=marks or script=FILE. It overrides the other settings of
    the agent."""
    episodes: _Positive | None = None
    """Episodes in all, spread over the tasks; default: one per task."""
    attempts: _Positive = 1
    """Episodes, or groups, per task instead of in all; each has its own seed."""
    group_size: _Positive = 1
    """Episodes that share a task and a seed, for policy gradient. They differ only in the agent's
    sampling; the number of episodes counts all of them."""
    parallel: _Positive | Literal["auto"] | None = None
    """Episodes at a time; auto: 4 for each processor, or one for each 256 MiB of memory if that is
    less. Default: 1; on a cluster: auto, for each machine."""
    max_steps: _Positive | None = None
    """Truncate episodes after this many steps. A task's own limit takes precedence."""
    max_repetitive_actions: _Positive | None = None
    """Truncate an episode when the agent repeats an action more often than this in a row."""
    max_retries: _Natural = 0
    """Retries of an episode after an infrastructure failure. A job of `webtraj rollout submit`
    has 3."""
    retry_pause: Annotated[float, Field(ge=0)] = 1.0
    """Longest pause in seconds before the first retry of an episode; doubled before each further
    one."""
    max_retry_pause: Annotated[float, Field(ge=0)] = 60.0
    """Upper limit of that pause, in seconds."""
    timeout: _Seconds | None = None
    """Time limit in seconds of one try at an episode."""
    run_timeout: _Seconds | None = None
    """Time limit in seconds of the run; a resumed run plays what is left."""
    max_consecutive_errors: _Positive | None = None
    """Stop after this many infrastructure failures in a row; by default 10, or twice the number of
    episodes at a time."""
    step_timeout: _Seconds | None = None
    """Time limit in seconds of an environment's reset or step, or an agent's decision."""
    completion_threshold: Annotated[float, Field(gt=0, le=1)] = 1.0
    """Share of episodes that must be done before the rest get only a grace period."""
    completion_grace_period: Annotated[float, Field(ge=0)] = 30.0
    """Grace period in seconds. Episodes cut off keep their steps and are played when resumed."""
    task_order: TaskOrder = "given"
    """Order of the episodes: given (as planned), longest (hardest first) or fair (one of each site
    in turn)."""
    episodes_per_site: _Positive | None = None
    """Episodes to play on one site at a time; unlimited by default."""
    site_interval: Annotated[float, Field(ge=0)] = 0.0
    """Seconds between the starts of two episodes on one site."""
    blocklist_path: str | None = None
    """A file of sites that refused the agent: a new plan leaves them out, and others are added;
    default: none."""
    blocklist_ttl_hours: Annotated[float, Field(gt=0)] = 12.0
    """Hours that a site stays blocked."""
    save_every_percent: Annotated[float, Field(gt=0, le=100)] | None = None
    """Log progress each time that this many more percent of the episodes are recorded."""
    observe: list[str] | None = None
    """The channels to observe; default: those that the agent needs, timings and info."""
    contexts_per_browser: _Positive = 16
    """Episodes that share a browser, each in its own context."""
    browser_endpoint: str = ""
    """Running browsers: a CDP endpoint or a Playwright server; default: our own."""
    wait_timeout: _Seconds = 120.0
    """Seconds to wait for a free browser page."""
    operation_timeout: _Seconds = 30.0
    """Time limit in seconds of one browser call, once started."""
    seed: int = 0
    """The same seed gives the same episodes."""
    environment_options: dict[str, Any] = Field(default_factory=dict)
    """An option of the preset, such as max_steps=20 or 'observe=["axtree"]'."""
    operation_limits: dict[_Operation, _Natural] = Field(default_factory=dict)
    """Limits on concurrent browser operations by kind, over all episodes, such as navigate: 32. The
    kinds are metadata, navigate, allocate, release, screenshot, ac_tree, page_metadata and execute;
    0 is no limit. requests_per_minute limits the pages opened on each site in a minute."""
    out: Annotated[Annotated[str, Field(min_length=1)] | None, BeforeValidator(_as_text)] = None
    """The dataset to write or add to: a folder or s3://bucket/prefix. Default of the command:
    runs/<date and time>. With `iteration`, the folder of all iterations."""
    storage_options: dict[str, Any] = Field(default_factory=dict)
    """For a bucket: endpoint=http://host:9000, region=..., profile=..., and so on. Credentials come
    from the environment, a profile or the machine."""
    format: EpisodeFormat | None = None
    """The episodes' file format: json, pb or pb.zst; default: the dataset's own."""
    metrics: MetricsConfig = MetricsConfig()
    """Destinations of live metrics."""
    judge: str | None = None
    """Judge the episodes afterwards: environment, rules:FILE or model. Default: model if a judging
    model is given, else no judge."""
    judge_options: dict[str, Any] = Field(default_factory=dict)
    """An option of the judge, such as votes=3. The judge model also takes stages: options of single
    stages, such as 'stages={"blocked": {"model": "small"}}'."""
    judge_when: When = "unknown"
    """Which episodes to judge: unknown or always. `unknown`: those whose outcome the environment
    does not know."""
    judge_parallel: _Positive | None = None
    """Episodes to judge at a time; default: 8."""
    proposer: str | None = None
    """Propose tasks from pages seen in coarse ones: model or hindsight. `model` asks the agent's
    model by default; `hindsight` needs none. Default: no proposer."""
    proposer_options: dict[str, Any] = Field(default_factory=dict)
    """An option of the proposer, such as max_tokens=2000."""
    proposals: Annotated[int, Field(ge=1, le=100)] = 3
    """Most tasks to propose for one episode."""
    verbose: bool = False
    """Whether the command prints details."""

    @model_validator(mode="after")
    def _settle(self) -> Self:
        """Fill in the agent and the judge that a model implies. They do not count as given."""
        if self.fork is not None and (self.preset or self.episodes or self.attempts > 1):
            raise ValueError(
                "a fork plays the tasks of its episodes: leave out preset, episodes and attempts"
            )
        if self.iteration is not None and (self.fork or self.episodes):
            raise ValueError(
                "an iteration samples its tasks: leave out fork and episodes, and give "
                "iteration.size and attempts"
            )
        if self.episodes is not None and self.attempts > 1:
            raise ValueError("give either episodes, for all tasks, or attempts, for each")
        if not self.agent:
            object.__setattr__(self, "agent", "oracle" if self.model is None else "model")
        if self.judge is None and "model" in self.judge_options:
            object.__setattr__(self, "judge", "model")
        return self

    def given_fields(self) -> dict[str, Any]:
        """Return the fields that were given, without the place of the record."""
        return {name: getattr(self, name) for name in self.model_fields_set & _RECORDED}

    @property
    def agents_options(self) -> dict[str, Any]:
        """All options of the agent. They lack a model that only the proposer uses."""
        proposers = self.proposer == "model" and self.agent in _WITHOUT_MODEL
        asked = {} if proposers else self._collect_given(*MODEL)
        return {**asked, **self._collect_given(*SAMPLING), **self.agent_options}

    @property
    def proposers_options(self) -> dict[str, Any]:
        """All options of the proposer."""
        asked = self._collect_given(*MODEL) if self.proposer == "model" else {}
        return {**asked, **self.proposer_options}

    def _collect_given(self, *names: str) -> dict[str, Any]:
        values = {name: getattr(self, name) for name in names}
        return {name: value for name, value in values.items() if value is not None}

    def record(self) -> dict[str, Any]:
        """Return the record that is kept beside the plan, from which the run can be resumed."""
        return self.model_dump(include=_RECORDED)


_RECORDED = RunSpec.model_fields.keys() - {"out", "storage_options", "iteration"}
"""Fields of the record, which is in the dataset."""
