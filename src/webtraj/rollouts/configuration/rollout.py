"""The keys of a rollout's configuration. Names are WebGym's, where it has one.

What stands here is what a key means and may be; `building` makes it so. Defaults are those of
webtraj; the files in `files/` set WebGym's.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, ConfigDict, Field, field_validator, model_validator

from webtraj.agents.contexts import ContextSettings
from webtraj.configuration import Section
from webtraj.rollouts.configuration.judges import OpenAIConfig
from webtraj.rollouts.judging import PARALLEL, When
from webtraj.rollouts.metrics.live import MetricsTargets, WandbTarget
from webtraj.rollouts.recording import EpisodeFormat

__all__ = [
    "ContextConfig",
    "CrawlConfig",
    "DifficultyBand",
    "DifficultySteps",
    "EnvConfig",
    "HttpPools",
    "MetricsConfig",
    "ModelConfig",
    "PolicyConfig",
    "REFUSED",
    "RetryConfig",
    "RolloutConfig",
    "WandbConfig",
]

# Keys of other systems that a rollout does not take, each with the reason and what to do instead.
#
# A key that would do nothing is refused, so that nobody takes it for one that works.

_SERVERS = (
    "browsers run in the rollout's own process, and need no server; to use others give "
    "env_config.browser_endpoint"
)
_RANK = "give env_config.multinode_rank and env_config.multinode_total_workers, for both splits"

REFUSED: Mapping[str, str] = {
    "env_config.cpu_cluster_token_env_var": _SERVERS,
    "env_config.host_ip": _SERVERS,
    "env_config.master_port": _SERVERS,
    "env_config.use_rich_actree": (
        "there is one kind of tree; context_config.page_tokens says how much of it is shown"
    ),
    "env_config.screenshot_comparison_workers": (
        "pictures are kept by their content, so equal ones have the same name and nothing is "
        "compared"
    ),
    "env_config.instance_lifetime_max": (
        "browsers are replaced by age in contexts and by memory, never under an episode; "
        "env_config.task_timeout_minutes limits an episode"
    ),
    "env_config.resume_checkpoint_path": (
        "to go on with a run, say --resume, with its id or without"
    ),
    "env_config.test_rank": _RANK,
    "env_config.test_total_workers": _RANK,
    "env_config.total_workers": _RANK,
    "policy_config.huggingface_token_env_var": (
        "a rollout downloads no model; the model's server does"
    ),
    "algorithm_config": "it is about training, which a rollout does none of",
    "log_config": "it is about training, which a rollout does none of",
}
"""The reason for each key, by its full name."""


# The keys that say where live metrics go.


class WandbConfig(Section):
    """A run of Weights & Biases."""

    project: Annotated[str, Field(min_length=1)]
    """The project's name."""
    entity: str | None = None
    """Whose project it is: a user or a team; by default the account's own."""
    run_name: str | None = None
    """What the run is called there; by default as the rollout's run."""
    mode: Literal["online", "offline", "disabled"] | None = None
    """`offline` keeps it on this machine, for `wandb sync`; by default what WANDB_MODE says, else
    `online`."""
    folder: str | None = None
    """Where W&B keeps its files; by default the current folder."""


class MetricsConfig(Section):
    """Where live metrics go, if anywhere. `metrics.json` is written in any case."""

    tensorboard: Annotated[str, Field(min_length=1)] | None = None
    """A folder for TensorBoard: each run has one of its own in it."""
    wandb: WandbConfig | None = None
    """Weights & Biases."""

    def targets(self) -> MetricsTargets:
        """Returns where they go."""
        given = self.wandb
        wandb = (
            None
            if given is None
            else WandbTarget(
                project=given.project,
                entity=given.entity,
                run_name=given.run_name,
                mode=given.mode,
                folder=given.folder,
            )
        )
        return MetricsTargets(tensorboard=self.tensorboard, wandb=wandb)


# The keys of a crawl's configuration: coarse tasks explored by an agent, into a bucket.
#
# Names are those of Orby's trajectory collector (its `ParallelComputingController`), and those that
# it has not are webtraj's.

_ANTHROPIC_MODEL = "claude-3-5-sonnet-20241022"
"""The trajectory collector's own."""


class CrawlConfig(Section):
    """A crawl."""

    refused_keys = REFUSED

    kind: Literal["crawl"] = "crawl"
    """Says which keys there are."""
    source_parquet_path: Annotated[str, Field(min_length=1)]
    """The task file: `.parquet` or `.jsonl`, a path or a bucket's URL; or a preset."""
    s3_save_uri: Annotated[str, Field(min_length=1)]
    """The bucket's URL, or the folder, that episodes go to."""
    num_raw_data: Annotated[int, Field(ge=1)] | None = None
    """How many trajectories to make: of one task each, as they come, and then of each once more.
    By default one of every task."""
    data_per_batch: Annotated[int, Field(ge=1)] = 16
    """How many are under way at once."""
    request_per_minute: Annotated[float, Field(gt=0)] | None = None
    """Requests to the model begun in a minute; by default as many as there are."""
    max_steps: Annotated[int, Field(ge=1, le=100_000)] = 15
    """Steps after which an episode is truncated. A task's own limit goes before it."""
    agent_name: Literal["basic", "explorer", "curious", "oracle", "random"] = "basic"
    """Who plays: `basic` asks a model, `explorer` asks one to explore (`webtraj.exploring`), and
    `curious` explores without one."""
    agent_model_provider: Literal["anthropic", "openai", "vllm", "auto"] = "anthropic"
    """What the model's server speaks; `auto` asks an OpenAI-compatible one whether it is vLLM."""
    agent_model_name: str | None = None
    """The model's name, as its server knows it; by default `claude-3-5-sonnet-20241022` for the
    provider anthropic."""
    agent_model_url: str | None = None
    """Where the server is; by default the provider's own."""
    agent_model_api_key_env_var: str | None = None
    """The environment variable that holds the API key; by default the provider's, on its own server
    alone."""
    agent_options: dict[str, Any] = Field(default_factory=dict)
    """More options of the agent, as `--agent-set` takes them; they go before the other keys."""
    proposer: Literal["model", "hindsight"] | None = None
    """Who turns what was seen into concrete tasks, when all is played: `model`, by default the one
    that plays, or `hindsight`, which asks none; null for nobody."""
    proposer_options: dict[str, Any] = Field(default_factory=dict)
    """More options of the proposer `model`, as `--proposer-set` of `webtraj explore` takes them."""
    proposals_per_trajectory: Annotated[int, Field(ge=1, le=100)] = 3
    """How many tasks are proposed for a trajectory at most."""
    temperature: Annotated[float, Field(ge=0)] | None = 0.0
    """How replies are sampled."""
    max_tokens: Annotated[int, Field(ge=1)] | None = 500
    """Tokens of a reply at most."""
    max_repetitive_actions: Annotated[int, Field(ge=1)] | None = 3
    """Truncates an episode whose agent takes the same action more often than this in a row."""
    dp_max_retries: Annotated[int, Field(ge=0)] = 3
    """How often an episode that an error of environment or model's server ended is tried again."""
    timeout: Annotated[float, Field(gt=0)] | None = None
    """Seconds that one try at an episode may take."""
    format: EpisodeFormat | None = None
    """What episodes are written as: `json`, `pb` or `pb.zst`; by default what the dataset has, and
    `pb` in a new one."""
    metrics: MetricsConfig = MetricsConfig()
    """Where live metrics go, if anywhere."""
    verbose: bool = False
    """Whether the command tells what happens in detail."""
    seed: int = 0
    """What episodes' seeds follow from."""
    storage_options: dict[str, Any] = Field(default_factory=dict)
    """For buckets: endpoint, region, profile, ...; credentials come from the usual places."""
    environment_options: dict[str, Any] = Field(default_factory=dict)
    """More options of the presets."""

    @property
    def model(self) -> str | None:
        """The name of the model that plays; None if it is not known."""
        if self.agent_model_name is None and self.agent_model_provider == "anthropic":
            return _ANTHROPIC_MODEL
        return self.agent_model_name


_AtLeastOne = Annotated[int, Field(ge=1)]
_AtLeastZero = Annotated[int, Field(ge=0)]
_Seconds = Annotated[float, Field(gt=0)]
_Steps = Annotated[int, Field(ge=1, le=100_000)]
_SHOWN = ContextSettings()


def _underscored(value: Any) -> Any:
    return value.replace("-", "_") if isinstance(value, str) else value


class DifficultyBand(Section):
    """Tasks from one difficulty to another, and their share of the sample."""

    range: Annotated[list[_AtLeastZero], Field(min_length=2, max_length=2)]
    """The least and the greatest difficulty."""
    weight: Annotated[float, Field(gt=0)]
    """Its share, beside the weights of the other bands."""


class DifficultySteps(Section):
    """Step limits by WebGym's levels: easy to difficulty 3, medium to 6, then hard."""

    easy: _Steps
    """Up to difficulty 3."""
    medium: _Steps
    """From 4 to 6."""
    hard: _Steps
    """From 7."""


class HttpPools(Section):
    """How many operations of a kind are under way at once in all episodes; 0 for any number."""

    metadata: _AtLeastZero = 0
    """Reading the size of the screen."""
    navigate: _AtLeastZero = 0
    """Opening a page."""
    allocate: _AtLeastZero = 0
    """Taking a page from the pool of browsers."""
    release: _AtLeastZero = 0
    """Giving it back."""
    screenshot: _AtLeastZero = 0
    """Taking a picture."""
    ac_tree: _AtLeastZero = 0
    """Reading the accessibility tree."""
    page_metadata: _AtLeastZero = 0
    """Reading title and address."""
    execute: _AtLeastZero = 0
    """Carrying out an action."""


class RetryConfig(Section):
    """How soon an episode that an error ended is tried again."""

    pause: Annotated[float, Field(ge=0)] = 1.0
    """Seconds before the first retry, at most; twice as many before each one after it."""
    max_pause: Annotated[float, Field(ge=0)] = 60.0
    """The longest pause, in seconds."""


class EnvConfig(Section):
    """What is played, and how."""

    split: Literal["train", "test"] = "train"
    """Whether tasks are sampled for training, without the sites that are blocked, or played as they
    come, as a test."""
    train_tasks: str | list[str] = ""
    """Where `train` takes its tasks from: task files (`.jsonl`, `.parquet`) in `data_path`, by an
    absolute path or a URL; or presets, such as `miniwob/all`."""
    test_tasks: str | list[str] = ""
    """Where `test` takes its tasks from."""
    train_tasks_sampler: Literal["uniform", "ratio", "sequential"] = "uniform"
    """How `train` picks: each task as likely as any other, by `difficulty_ratio`, or the first."""
    train_tasks_rollout_size: Annotated[int, Field(ge=-1)] = -1
    """How many tasks `train` picks; -1 or 0 for all."""
    test_tasks_rollout_size: Annotated[int, Field(ge=-1)] = -1
    """How many tasks `test` plays, the first ones; -1 or 0 for all."""
    test_tasks_repeat_times: _AtLeastZero = 1
    """How often `test` plays the whole list; 0 is 1."""
    attempts_per_task: _AtLeastOne = 1
    """How many attempts at each task make a group."""
    group: Literal["own-seeds", "same-seed"] = "own-seeds"
    """`same-seed`: the attempts of a group share a seed, and differ in what the agent samples, as
    policy-gradient training (GRPO) compares them."""
    difficulty_ratio: dict[str, DifficultyBand] | None = None
    """The bands of difficulty that the sampler `ratio` picks from, by name."""
    deduplicate_across_iterations: bool = False
    """Whether `train` leaves out tasks that earlier iterations played."""
    blocklist_path: str | None = "blocklist.jsonl"
    """The file of sites that refused the agent, in `save_path`: `train` leaves them out, both
    splits add to it. None for no such file."""
    blocklist_ttl_hours: Annotated[float, Field(gt=0)] = 12.0
    """Hours that a site stays blocked."""

    train_difficulty_max_steps: DifficultySteps | list[_Steps] | None = None
    """Step limits of `train` by difficulty: for easy, medium and hard, or a list, the first for
    difficulty 1, the last for all from there. Empty for `max_steps`."""
    test_difficulty_max_steps: DifficultySteps | list[_Steps] | None = None
    """The same for `test`."""
    max_steps: _Steps | None = None
    """The step limit of tasks whose difficulty says none. A task's own goes before it; without any
    it is the environment's."""
    max_repetitive_actions: _AtLeastOne | None = None
    """Truncates an episode whose agent takes the same action more often than this in a row."""

    server_size: _AtLeastOne | Literal["auto"] = 1
    """How many episodes are played at once; `auto`: as many as the machine can bear, or each
    machine of a cluster."""
    contexts_per_browser: _AtLeastOne = 16
    """How many of them share a browser, each in a context of its own."""
    browser_endpoint: str = ""
    """Where browsers run already: a CDP endpoint or a Playwright server; empty to start our own."""
    http_pools: HttpPools = HttpPools()
    """How many operations of a kind are under way at once."""
    task_order: Literal["given", "longest", "fair"] = "given"
    """Who goes first: as planned, the hardest first, or one of each site in turn."""
    episodes_per_site: _AtLeastOne | None = None
    """How many episodes play at one site at once."""
    site_interval: Annotated[float, Field(ge=0)] = 0.0
    """Seconds between the beginnings of two episodes at one site."""
    observe: list[str] | None = None
    """The channels that are observed; by default what the agent needs, `timings` and `info`."""
    environment_options: dict[str, Any] = Field(default_factory=dict)
    """More options of the presets."""

    wait_timeout: _Seconds = 120.0
    """Seconds to wait for a page of a browser to come free."""
    operation_timeout: _Seconds = 30.0
    """Seconds that one call into a browser may take, once it has begun."""
    step_timeout: _Seconds | None = None
    """Seconds that a reset or step of the environment, or a decision of the agent, may take."""
    task_timeout_minutes: _Seconds | None = None
    """Minutes that one try at an episode may take."""
    run_timeout_minutes: _Seconds | None = None
    """Minutes after which the rollout ends; what is left is played when it is resumed."""
    max_retries: _AtLeastZero = 0
    """How often an episode that an error of environment or model's server ended is tried again."""
    retry_policy: RetryConfig = RetryConfig()
    """How soon."""
    max_consecutive_errors: _AtLeastOne | None = None
    """Gives up after so many episodes in a row that an error ended; by default 10, or twice
    `server_size`."""
    completion_threshold: Annotated[float, Field(gt=0, le=1)] = 1.0
    """The share of episodes that must be over for the others to get but some grace."""
    completion_grace_period: Annotated[float, Field(ge=0)] = 30.0
    """That grace, in seconds. What is cut off keeps its steps, and is played when resumed."""
    save_traj_progress: bool = True
    """Always true: every step is on record when it has been taken, every episode when it ends."""
    save_every_percent: Annotated[float, Field(gt=0, le=100)] = 25.0
    """A line tells how far the rollout is each time that so many percent of it are on record."""

    vllm_server_url: str | list[str] = ""
    """The model's server, or several that share the work; `/v1` may be left out."""
    evaluation_workers: _AtLeastOne = PARALLEL
    """How many episodes are judged at once, when all is played and if a judge is given."""
    max_vllm_sessions: _AtLeastOne = 256
    """Requests to the model under way at once."""
    vllm_timeout: _Seconds | None = None
    """Seconds that a call of the model may take, retries of the request included."""
    request_per_minute: Annotated[float, Field(gt=0)] | None = None
    """Requests to the model begun in a minute, over all machines: each has its share."""

    multinode_rank: _AtLeastZero | None = None
    """Which of several processes this is, from 0; each plays its share of one plan."""
    multinode_total_workers: _AtLeastOne | None = None
    """How many processes there are."""
    multinode_rank_suffix: str = ""
    """Ends the name of this process's run; by default `_rank_` and its number."""
    rank_load_weight: Annotated[float, Field(gt=0)] | None = None
    """This process's share of episodes, browsers and requests, beside `total_load_weight`."""
    total_load_weight: Annotated[float, Field(gt=0)] | None = None
    """What the shares of all processes add up to."""
    all_rank_weights: str | list[Annotated[float, Field(gt=0)]] | None = None
    """The shares of all processes by rank, if they differ: a list, or `2,1,1`."""

    verbose: bool = False
    """Whether the command tells what happens in detail."""

    @field_validator("save_traj_progress")
    @classmethod
    def _check_progress(cls, value: bool) -> bool:
        if not value:
            raise ValueError(
                "cannot be false: every step is recorded when it is taken. Leave the key out"
            )
        return value

    @model_validator(mode="after")
    def _check_ratio(self) -> Self:
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
                "difficulty_ratio is for the sampler 'ratio'; give "
                "env_config.train_tasks_sampler=ratio, or env_config.difficulty_ratio=null"
            )
        return self


class PolicyConfig(Section):
    """Who plays. All keys but the first two are those of the agents `model` and `pointing`."""

    agent: Literal["model", "pointing", "oracle", "random", "scripted", "replay"] = "model"
    """The kind of agent."""
    agent_options: dict[str, Any] = Field(default_factory=dict)
    """More options of the agent, as `--agent-set` takes them; they go before the other keys."""
    base_model: str | None = None
    """The model's name, as its server knows it."""
    checkpoint_path: str | None = None
    """A folder in `save_path` that the server serves: if it is there, its path is the model's name,
    and goes before `base_model`."""
    provider: Literal["auto", "vllm", "openai", "anthropic"] = "auto"
    """What the server speaks; `auto` asks an OpenAI-compatible one whether it is vLLM."""
    api_key_env_var: str | None = None
    """The environment variable that holds the API key."""
    max_new_tokens: _AtLeastOne | None = None
    """Tokens of a reply at most."""
    temperature: Annotated[float, Field(ge=0)] | None = None
    """How freely replies are sampled; what is null here and below is left to the server."""
    top_p: Annotated[float, Field(gt=0, le=1)] | None = None
    """The likeliest tokens that have this probability together."""
    top_k: Annotated[int, Field(ge=-1)] | None = None
    """So many of the likeliest tokens."""
    min_p: Annotated[float, Field(ge=0, le=1)] | None = None
    """Tokens that are at least so likely, beside the likeliest."""
    sampling_seed: int | None = None
    """Gives each request a seed that follows from it, so that an episode can be sampled again."""
    enforce_actions: bool = False
    """Whether the server lets the model write nothing but actions."""
    max_invalid_actions: _AtLeastOne = 5
    """How many invalid replies in a row end an episode."""


class ContextConfig(Section):
    """What the model is shown: see `webtraj.agents.contexts.ContextSettings`."""

    interaction_mode: Annotated[
        Literal["coordinates", "set_of_marks", "text"], BeforeValidator(_underscored)
    ] = "text"
    """How elements are named: by points on a screenshot, by numbers on it, or by their refs.
    `set-of-marks` means `set_of_marks`."""
    dialect: str | None = None
    """How the model says actions; by default what fits the mode."""
    viewport: Annotated[list[_AtLeastOne], Field(min_length=2, max_length=2)] | None = None
    """Width and height of the page in CSS pixels, where neither environment nor page says it."""
    images: bool | None = None
    """Whether pictures are sent; by default if the mode needs them."""
    full_rounds: _AtLeastZero = _SHOWN.full_rounds
    """How many earlier rounds are shown in full."""
    slide: _AtLeastOne = _SHOWN.slide
    """How many rounds at a time become lines."""
    older_lines: _AtLeastZero = _SHOWN.older_lines
    """How many of those lines there are at most."""
    screenshots: _AtLeastZero = _SHOWN.screenshots
    """How many pictures are sent at most."""
    page_tokens: _AtLeastZero = _SHOWN.page_tokens
    """The budget of the current page's text."""
    old_page_tokens: _AtLeastZero = _SHOWN.old_page_tokens
    """The same for the page of an earlier round."""
    text_tokens: _AtLeastOne = _SHOWN.text_tokens or 24_000
    """The budget of all text but the system message."""
    memory: bool = _SHOWN.memory
    """Whether what the agent chose to remember is shown to it again."""
    cut_harder: _AtLeastZero = _SHOWN.cut_harder
    """How often a context that is too long is made smaller, by half each time."""


class ModelConfig(Section):
    """What kind of model plays."""

    model_type: Literal["qwen3-instruct", "qwen3-think"] | None = None
    """How earlier replies are shown again: as they were (`qwen3-instruct`), or without what the
    model thought before them (`qwen3-think`, and none)."""
    prompt_version: str | None = None
    """What the model is told: `vanilla` or `complete`, WebGym's; or another prompt's name, or a
    file. By default what fits the dialect."""


class RolloutConfig(Section):
    """A rollout."""

    refused_keys = REFUSED

    model_config = ConfigDict(validate_by_alias=True, validate_by_name=True)

    kind: Literal["rollout"] = "rollout"
    """Says which keys there are."""
    save_path: Annotated[str, Field(min_length=1)]
    """The folder, or bucket's URL, that iterations are kept in."""
    data_path: str = "."
    """The folder, or bucket's URL, that task files are in."""
    iteration: _AtLeastZero | None = None
    """The iteration's number; by default the next one, from 1, or on `--resume` the last."""
    seed: int = 0
    """What tasks, their order and episodes' seeds follow from."""
    storage_options: dict[str, Any] = Field(default_factory=dict)
    """For buckets: endpoint, region, profile, ...; credentials come from the usual places."""
    format: EpisodeFormat | None = None
    """What episodes are written as: `json`, `pb` or `pb.zst`; by default what the dataset has, and
    `json` in a new one."""
    metrics: MetricsConfig = MetricsConfig()
    """Where live metrics go, if anywhere."""
    env_config: EnvConfig = EnvConfig()
    """What is played, and how."""
    policy_config: PolicyConfig = PolicyConfig()
    """Who plays."""
    context_config: ContextConfig = ContextConfig()
    """What the model is shown."""
    judge: str | None = None
    """Who judges what was recorded, when all is played: `environment`, `rules:FILE` or `model`,
    which is `openai_config`'s; by default that one if it has a model, else nobody."""
    judge_when: When = "unknown"
    """Which episodes are judged: those whose outcome the environment does not know (`unknown`), or
    all that ended by themselves (`always`)."""
    openai_config: OpenAIConfig = OpenAIConfig()
    """The models that judge."""
    model_settings: Annotated[ModelConfig, Field(alias="model_config")] = ModelConfig()
    """What kind of model plays: `model_config`."""
