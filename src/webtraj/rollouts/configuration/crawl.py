"""The keys of a crawl's configuration: coarse tasks explored by an agent, into a bucket.

Names are those of Orby's trajectory collector (its `ParallelComputingController`), and those that
it has not are webtraj's.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from webtraj.rollouts.configuration.checking import Section
from webtraj.rollouts.configuration.metrics import MetricsConfig
from webtraj.rollouts.recording import EpisodeFormat

__all__ = ["CrawlConfig"]

_ANTHROPIC_MODEL = "claude-3-5-sonnet-20241022"
"""The trajectory collector's own."""


class CrawlConfig(Section):
    """A crawl."""

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
