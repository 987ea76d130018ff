"""Configuration keys of a rollout. Names are WebGym's where it has them.

This module defines the keys and their ranges; `building` applies them. Defaults are webtraj's; the
files in `files/` set WebGym's.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    BeforeValidator,
    ConfigDict,
    Field,
    field_validator,
    model_validator,
)

from webtraj import errors
from webtraj.agents import catalog
from webtraj.agents.contexts import ContextSettings
from webtraj.agents.models.base import Provider
from webtraj.judging.base import PARALLEL
from webtraj.runs.spec import MODEL, EpisodeFormat, MetricsConfig, Patience, RunSpec, When
from webtraj.settings.configuration import Section

__all__ = [
    "ContextConfig",
    "CrawlConfig",
    "DifficultyBand",
    "DifficultySteps",
    "EnvConfig",
    "HttpPools",
    "ModelConfig",
    "OpenAIConfig",
    "PolicyConfig",
    "QuestionConfig",
    "REFUSED",
    "RetryConfig",
    "RolloutConfig",
]

# Rejected keys of other systems, each with the reason and what to do instead.
#
# A key without effect is rejected, so that nobody relies on it.

_SERVERS = (
    "browsers run in the rollout's own process and need no server; to use running browsers, set "
    "env_config.browser_endpoint"
)
_RANK = "set env_config.multinode_rank and env_config.multinode_total_workers, for both splits"

REFUSED: Mapping[str, str] = {
    "env_config.cpu_cluster_token_env_var": _SERVERS,
    "env_config.host_ip": _SERVERS,
    "env_config.master_port": _SERVERS,
    "env_config.use_rich_actree": (
        "there is only one kind of tree; context_config.page_tokens limits how much of it is shown"
    ),
    "env_config.screenshot_comparison_workers": (
        "screenshots are stored by content, so equal ones share a file and are never compared"
    ),
    "env_config.instance_lifetime_max": (
        "browsers are replaced by number of contexts and by memory use, never during an episode; "
        "env_config.task_timeout_minutes limits an episode"
    ),
    "env_config.resume_checkpoint_path": ("to resume a run, use --resume, with its id or without"),
    "env_config.test_rank": _RANK,
    "env_config.test_total_workers": _RANK,
    "env_config.total_workers": _RANK,
    "policy_config.huggingface_token_env_var": (
        "a rollout does not download models; the model's server does"
    ),
    "algorithm_config": "it configures training, which a rollout does not do",
    "log_config": "it configures training, which a rollout does not do",
}
"""The reason for each key, by its full name."""


# Keys of a crawl: an agent explores coarse tasks and records to a bucket.
#
# Names are those of Orby's trajectory collector (its `ParallelComputingController`), or webtraj's
# where it has none.

_Steps = Annotated[int, Field(ge=1, le=100_000)]
_ANTHROPIC_MODEL = "claude-3-5-sonnet-20241022"
"""The default of Orby's trajectory collector."""


_ORBYS = {
    "preset": "source_parquet_path",
    "out": "s3_save_uri",
    "episodes": "num_raw_data",
    "parallel": "data_per_batch",
    "requests_per_minute": "request_per_minute",
    "agent": "agent_name",
    "provider": "agent_model_provider",
    "model": "agent_model_name",
    "base_url": "agent_model_url",
    "api_key_variable": "agent_model_api_key_env_var",
    "max_retries": "dp_max_retries",
    "proposals": "proposals_per_trajectory",
}
"""The names that Orby's controller has for fields of `RunSpec`."""


class CrawlConfig(RunSpec):
    """A crawl: `RunSpec` with the names and defaults of Orby's controller."""

    refused_keys = REFUSED

    model_config = ConfigDict(
        alias_generator=lambda name: _ORBYS.get(name, name),
        validate_by_alias=True,
        validate_by_name=True,
    )

    kind: Literal["crawl"] = "crawl"
    """Kind of configuration."""
    fork: None = None
    """A crawl forks nothing."""
    out: Annotated[str, Field(min_length=1)]
    """Bucket URL or folder for the episodes."""
    agent: Literal["basic", "model", "explorer", "curious", "oracle", "random"] = "basic"
    """The agent: `basic` asks a model, `explorer` asks a model to explore (`webtraj.exploring`),
    and `curious` explores without one."""
    model: str | None = None
    """The model's name on its server; for the provider anthropic, `claude-3-5-sonnet-20241022` by
    default."""
    provider: Provider = "anthropic"
    """API of the model's server; `auto` asks an OpenAI-compatible server whether it is vLLM."""
    parallel: Annotated[int, Field(ge=1)] = 16
    """Episodes to play at a time."""
    max_steps: _Steps = 15
    """Step limit of an episode. A task's own limit takes precedence."""
    max_repetitive_actions: Annotated[int, Field(ge=1)] | None = 3
    """Truncate an episode when the agent repeats an action more often than this in a row."""
    max_retries: Annotated[int, Field(ge=0)] = 3
    """Retries of an episode after an error of the environment or the model's server."""
    temperature: Annotated[float, Field(ge=0)] | None = 0.0
    """Sampling temperature of replies."""
    max_tokens: Annotated[int, Field(ge=1)] | None = 500
    """Most tokens in a reply."""

    def settled(self) -> RunSpec:
        """Return the crawl by the names and defaults of `RunSpec`.

        Raises:
            InvalidInputError: The agent's model is not named.
        """
        asks = self.agent in ("basic", "model", "explorer")
        model = self.model
        if model is None and self.provider == "anthropic":
            model = _ANTHROPIC_MODEL
        if asks and not model:
            raise errors.InvalidInputError(
                f"The agent {self.agent!r} needs a model; set agent_model_name."
            )
        values = {name: getattr(self, name) for name in RunSpec.model_fields}
        values["model"] = model
        values["agent"] = "model" if self.agent == "basic" else self.agent
        if not asks:  # The defaults are those of agents that ask a model.
            values["temperature"] = values["max_tokens"] = None
            if self.proposer != "model":
                values |= dict.fromkeys(MODEL)
        return RunSpec(**values)


_AtLeastOne = Annotated[int, Field(ge=1)]
_AtLeastZero = Annotated[int, Field(ge=0)]
_Seconds = Annotated[float, Field(gt=0)]
_SHOWN = ContextSettings()


def _underscored(value: Any) -> Any:
    return value.replace("-", "_") if isinstance(value, str) else value


class DifficultyBand(Section):
    """A range of difficulty and its share of the sample."""

    range: Annotated[list[_AtLeastZero], Field(min_length=2, max_length=2)]
    """Lowest and highest difficulty, both inclusive."""
    weight: Annotated[float, Field(gt=0)]
    """Share of the sample, relative to the other bands' weights."""


class DifficultySteps(Section):
    """Step limits by WebGym's levels: easy up to difficulty 3, medium up to 6, then hard."""

    easy: _Steps
    """Limit up to difficulty 3."""
    medium: _Steps
    """Limit from difficulty 4 to 6."""
    hard: _Steps
    """Limit from difficulty 7."""


class HttpPools(Section):
    """Limits on concurrent browser operations of each kind, over all episodes; 0 for no limit."""

    metadata: _AtLeastZero = 0
    """Reading the screen size."""
    navigate: _AtLeastZero = 0
    """Opening a page."""
    allocate: _AtLeastZero = 0
    """Taking a page from the browser pool."""
    release: _AtLeastZero = 0
    """Returning a page to the pool."""
    screenshot: _AtLeastZero = 0
    """Taking a screenshot."""
    ac_tree: _AtLeastZero = 0
    """Reading the accessibility tree."""
    page_metadata: _AtLeastZero = 0
    """Reading title and URL."""
    execute: _AtLeastZero = 0
    """Performing an action."""


class RetryConfig(Section):
    """Pauses before an episode is retried after an error."""

    pause: Annotated[float, Field(ge=0)] = 1.0
    """Longest pause before the first retry, in seconds; doubled before each further one."""
    max_pause: Annotated[float, Field(ge=0)] = 60.0
    """Upper limit of the pause, in seconds."""


class EnvConfig(Patience):
    """Settings of tasks, browsers, limits and servers."""

    split: Literal["train", "test"] = "train"
    """`train` samples tasks and skips blocked sites; `test` plays tasks in order, as a test."""
    train_tasks: str | list[str] = ""
    """Tasks of `train`: task files (`.jsonl`, `.parquet`) in `data_path` or by absolute path or
    URL; or presets, such as `miniwob/all`."""
    test_tasks: str | list[str] = ""
    """Tasks of `test`."""
    train_tasks_sampler: Literal["uniform", "ratio", "sequential", "curriculum"] = "uniform"
    """Sampler of `train`: uniform, by `difficulty_ratio`, the first tasks in order, or a
    `curriculum`, which repeats tasks that succeeded sometimes, but not always, in the iteration
    before."""
    train_tasks_rollout_size: Annotated[int, Field(ge=-1)] = -1
    """Number of tasks that `train` samples, a curriculum's repetitions included; -1 or 0 for
    all."""
    test_tasks_rollout_size: Annotated[int, Field(ge=-1)] = -1
    """Number of tasks that `test` plays, from the start; -1 or 0 for all."""
    test_tasks_repeat_times: _AtLeastZero = 1
    """Number of times that `test` plays the whole list; 0 means 1."""
    attempts_per_task: _AtLeastOne = 1
    """Number of attempts at each task, which form a group."""
    group: Literal["own-seeds", "same-seed"] = "own-seeds"
    """`same-seed`: the attempts of a group share a seed and differ only in the agent's sampling, as
    policy-gradient training (GRPO) needs."""
    groups_per_task: _AtLeastOne = 1
    """With `same-seed`: number of groups at each task, each with its own seed."""
    difficulty_ratio: dict[str, DifficultyBand] | None = None
    """Bands of difficulty for the sampler `ratio`, by name."""
    deduplicate_across_iterations: bool = False
    """Whether `train` leaves out tasks played in earlier iterations."""
    blocklist_path: str | None = "blocklist.jsonl"
    """File of sites that refused the agent, in `save_path`. `train` skips them, and both splits
    add to it. Null for no file."""

    train_difficulty_max_steps: DifficultySteps | list[_Steps] | None = None
    """Step limits of `train` by difficulty: easy, medium and hard, or a list whose first entry is
    for difficulty 1 and whose last is for all higher ones. Null for `max_steps`."""
    test_difficulty_max_steps: DifficultySteps | list[_Steps] | None = None
    """Step limits of `test` by difficulty."""
    max_steps: _Steps | None = None
    """Step limit of tasks without one for their difficulty. A task's own limit takes precedence;
    without any, the environment's applies."""
    max_repetitive_actions: _AtLeastOne | None = None
    """Truncate an episode when the agent repeats an action more often than this in a row."""

    server_size: _AtLeastOne | Literal["auto"] = 1
    """Episodes to play at a time; `auto`: 4 for each processor, or one for each 256 MiB of memory
    if that is less; on a cluster, for each machine."""
    http_pools: HttpPools = HttpPools()
    """Limits on concurrent browser operations."""
    environment_options: dict[str, Any] = Field(default_factory=dict)
    """Further options of the presets."""

    task_timeout_minutes: _Seconds | None = None
    """Time limit in minutes of one try at an episode."""
    run_timeout_minutes: _Seconds | None = None
    """Time limit in minutes of the rollout; a resumed run plays what is left."""
    max_retries: _AtLeastZero = 0
    """Retries of an episode after an error of the environment or the model's server."""
    retry_policy: RetryConfig = RetryConfig()
    """Pauses before retries."""
    save_traj_progress: bool = True
    """Always true: every step is recorded when it is taken, every episode when it ends."""
    save_every_percent: Annotated[float, Field(gt=0, le=100)] = 25.0
    """Log progress each time that this many more percent of the episodes are recorded."""

    vllm_server_url: str | list[str] = ""
    """URL of the model's server, or several that share the load; `/v1` may be left out."""
    evaluation_workers: _AtLeastOne = PARALLEL
    """Episodes to judge at a time, if there is a judge."""
    max_vllm_sessions: _AtLeastOne = 256
    """Concurrent requests to the model."""
    vllm_timeout: _Seconds | None = None
    """Time limit in seconds of one model call, retries included."""
    request_per_minute: Annotated[float, Field(gt=0)] | None = None
    """Limit on model requests per minute, shared by all machines."""

    multinode_rank: _AtLeastZero | None = None
    """Rank of this process, from 0, if several share one plan."""
    multinode_total_workers: _AtLeastOne | None = None
    """Number of processes."""
    multinode_rank_suffix: str = ""
    """Suffix of this process's run id; `_rank_` and the rank by default."""
    rank_load_weight: Annotated[float, Field(gt=0)] | None = None
    """This process's share of episodes, browsers and requests, relative to `total_load_weight`."""
    total_load_weight: Annotated[float, Field(gt=0)] | None = None
    """Sum of all processes' shares."""
    all_rank_weights: str | list[Annotated[float, Field(gt=0)]] | None = None
    """Shares of all processes by rank, if they differ: a list, or `2,1,1`."""

    verbose: bool = False
    """Whether the command prints details."""

    @field_validator("save_traj_progress")
    @classmethod
    def _check_progress(cls, value: bool) -> bool:
        if not value:
            raise ValueError(
                "cannot be false: every step is recorded when it is taken. Remove the key"
            )
        return value

    @model_validator(mode="after")
    def _check_sampling(self) -> Self:
        if self.groups_per_task > 1 and self.group != "same-seed":
            raise ValueError(
                "groups_per_task needs env_config.group=same-seed; for more attempts with seeds of "
                "their own, raise env_config.attempts_per_task"
            )
        if self.train_tasks_sampler == "ratio" and not self.difficulty_ratio:
            raise ValueError(
                "the sampler 'ratio' needs env_config.difficulty_ratio, such as "
                "{easy: {range: [1, 3], weight: 2}, hard: {range: [4, 99], weight: 1}}"
            )
        if self.train_tasks_sampler == "ratio" and self.train_tasks_rollout_size < 1:
            raise ValueError(
                "the sampler 'ratio' needs env_config.train_tasks_rollout_size, 1 or more"
            )
        if self.difficulty_ratio and self.train_tasks_sampler != "ratio":
            raise ValueError(
                "difficulty_ratio applies only to the sampler 'ratio'; set "
                "env_config.train_tasks_sampler=ratio or env_config.difficulty_ratio=null"
            )
        return self


class PolicyConfig(Section):
    """The agent. All keys but the first two belong to `model`, and to agents that share them."""

    agent: Annotated[str, AfterValidator(catalog.check_agent_name)] = "model"
    """Kind of agent: model, oracle, random, scripted, replay, or one of an installed package."""
    agent_options: dict[str, Any] = Field(default_factory=dict)
    """Further options of the agent, as in `--agent-set`; they override the other keys."""
    base_model: str | None = None
    """The model's name on its server."""
    checkpoint_path: str | None = None
    """Folder in `save_path`, or absolute, that the server serves. If it exists, its path is the
    model's name and overrides `base_model`."""
    provider: Provider = "auto"
    """Protocol of the server; `auto` asks an OpenAI-compatible server whether it is vLLM."""
    api_key_env_var: str | None = None
    """Environment variable with the API key."""
    max_new_tokens: _AtLeastOne | None = None
    """Most tokens in a reply."""
    temperature: Annotated[float, Field(ge=0)] | None = None
    """Sampling temperature. Null here and below leaves the choice to the server."""
    top_p: Annotated[float, Field(gt=0, le=1)] | None = None
    """Sample from the likeliest tokens with this total probability."""
    top_k: Annotated[int, Field(ge=-1)] | None = None
    """Sample from this many of the likeliest tokens."""
    min_p: Annotated[float, Field(ge=0, le=1)] | None = None
    """Least probability of a token, relative to the likeliest."""
    sampling_seed: int | None = None
    """Seed from which each request's seed is derived, to make sampling repeatable."""
    enforce_actions: bool = False
    """Whether the server constrains the model to valid actions."""
    max_invalid_actions: _AtLeastOne = 5
    """Number of invalid replies in a row that end an episode."""


class ContextConfig(Section):
    """Settings of the model's context: see `webtraj.agents.contexts.ContextSettings`."""

    interaction_mode: Annotated[
        Literal["coordinates", "set_of_marks", "text", "aria"], BeforeValidator(_underscored)
    ] = "text"
    """Naming of elements: by points on a screenshot, by numbers on it, or by their refs in the
    axtree or in Playwright's ARIA snapshot. `set-of-marks` means `set_of_marks`."""
    dialect: str | None = None
    """Syntax of the model's actions; by default what fits the mode."""
    viewport: Annotated[list[_AtLeastOne], Field(min_length=2, max_length=2)] | None = None
    """Width and height of the page in CSS pixels, if neither environment nor page gives them."""
    images: bool | None = None
    """Whether to send screenshots; by default if the mode needs them."""
    full_rounds: _AtLeastZero = _SHOWN.full_rounds
    """Number of earlier rounds to show in full."""
    slide: _AtLeastOne = _SHOWN.slide
    """Number of rounds to shorten to lines at a time."""
    older_lines: _AtLeastZero = _SHOWN.older_lines
    """Most such lines to show."""
    screenshots: _AtLeastZero = _SHOWN.screenshots
    """Most screenshots to send."""
    page_tokens: _AtLeastZero = _SHOWN.page_tokens
    """Token budget of the current page's text."""
    old_page_tokens: _AtLeastZero = _SHOWN.old_page_tokens
    """Token budget of an earlier round's page."""
    changes: bool = _SHOWN.changes
    """Whether to show a page by what changed since the one before, where that is shorter."""
    text_tokens: _AtLeastOne = _SHOWN.text_tokens or 24_000
    """Token budget of all text except the system message."""
    memory: bool = _SHOWN.memory
    """Whether to show the agent what it chose to remember."""
    cut_harder: _AtLeastZero = _SHOWN.cut_harder
    """Most times to shrink a context that is too long, by half each time."""


class ModelConfig(Section):
    """Kind of model."""

    model_type: Literal["qwen3-instruct", "qwen3-think"] | None = None
    """Display of earlier replies: unchanged (`qwen3-instruct`), or without the model's thinking
    (`qwen3-think`, and null)."""
    prompt_version: str | None = None
    """The prompt: WebGym's `vanilla` or `complete`, another prompt's name, or a file. By default
    what fits the dialect."""


class QuestionConfig(Section):
    """The model for one kind of question. Null keys default to those for all questions."""

    model: str | None = None
    """The model's name on its server."""
    openai_api_key_env_var: str | None = None
    """Environment variable with the API key."""
    base_url: str | None = None
    """URL of the model's server, including `/v1` or similar."""


class OpenAIConfig(Section):
    """Models that judge."""

    model: str | None = None
    """Name of the judging model on its server. If set, `judge` defaults to `model`."""
    openai_api_key_env_var: str | None = None
    """Environment variable with the API key."""
    base_url: str | None = None
    """URL of the server, including `/v1` or similar; OpenAI's by default."""
    provider: Provider = "auto"
    """Protocol of the servers; `auto` asks an OpenAI-compatible server whether it is vLLM."""
    keypoint_detection: QuestionConfig | None = None
    """Model that picks the screenshots that matter."""
    blocking_detection: QuestionConfig | None = None
    """Model that decides whether the site blocked the agent."""
    evaluation: QuestionConfig | None = None
    """Model that checks the answer, the facts and the goal."""
    max_concurrency: Annotated[int, Field(ge=1)] | None = None
    """Concurrent requests to a model, over all episodes."""
    requests_per_minute: Annotated[float, Field(gt=0)] | None = None
    """Limit on requests to a model per minute."""
    votes: Annotated[int, Field(ge=1)] = 1
    """Number of votes on each criterion; more than half must agree."""
    temperature: Annotated[float, Field(ge=0, le=2)] | None = 0.0
    """Sampling temperature of verdicts; null leaves it to the server."""
    timeout: Annotated[float, Field(gt=0)] | None = None
    """Time limit of a request in seconds, retries included."""
    judge_settings: dict[str, Any] = Field(default_factory=dict)
    """Further settings of `webtraj.judging.model.JudgeSettings`; they override the other keys."""


class RolloutConfig(Section):
    """A rollout."""

    refused_keys = REFUSED

    model_config = ConfigDict(validate_by_alias=True, validate_by_name=True)

    kind: Literal["rollout"] = "rollout"
    """Kind of configuration."""
    save_path: Annotated[str, Field(min_length=1)]
    """Folder or bucket URL of the iterations."""
    data_path: str = "."
    """Folder or bucket URL of the task files."""
    iteration: _AtLeastZero | None = None
    """Number of the iteration; by default the next one, from 1, or the last one on `--resume`."""
    seed: int = 0
    """Seed of the tasks, their order and the episodes' seeds."""
    storage_options: dict[str, Any] = Field(default_factory=dict)
    """For buckets: endpoint, region, profile, ...; credentials come from the usual places."""
    format: EpisodeFormat | None = None
    """Format of the episodes: `json`, `pb` or `pb.zst`. By default the dataset's own, or `json` for
    a new dataset."""
    metrics: MetricsConfig = MetricsConfig()
    """Destinations of live metrics."""
    env_config: EnvConfig = EnvConfig()
    """Settings of tasks, browsers, limits and servers."""
    policy_config: PolicyConfig = PolicyConfig()
    """The agent."""
    context_config: ContextConfig = ContextConfig()
    """Settings of the model's context."""
    judge: str | None = None
    """Judge of the recorded episodes: `environment`, `rules:FILE`, or `model` with the settings in
    `openai_config`. By default `model` if `openai_config` names a model, else none."""
    judge_when: When = "unknown"
    """Episodes to judge: those whose outcome the environment does not know (`unknown`), or all
    finished ones (`always`)."""
    openai_config: OpenAIConfig = OpenAIConfig()
    """Models that judge."""
    model_settings: Annotated[ModelConfig, Field(alias="model_config")] = ModelConfig()
    """Kind of model: `model_config`."""
