"""Who judges a configured rollout: from its keys to a judge that is yet to be made.

`openai_config` is WebGym's section. Its kinds of questions are these stages of a model judge:

* `keypoint_detection`: which screenshots matter;
* `blocking_detection`: whether the site blocked the agent;
* `evaluation`: the answer, each fact, the goal, the reference answer.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field

from webtraj import errors
from webtraj.configuration import Section
from webtraj.rollouts.judging import PARALLEL, When

if TYPE_CHECKING:
    from webtraj.agents.models.base import ModelClient
    from webtraj.judging.base import Judge

__all__ = ["Judging", "OpenAIConfig", "QuestionConfig", "close_judge", "judging_of"]

_STAGES = {
    "keypoint_detection": ("screenshots",),
    "blocking_detection": ("blocked",),
    "evaluation": ("answer", "facts", "goal", "reference"),
}
_CLIENT = ("model", "base_url", "provider", "api_key_variable", "max_concurrency",
           "requests_per_minute")  # fmt: skip


class QuestionConfig(Section):
    """Who is asked one kind of question. What is null is as for all questions."""

    model: str | None = None
    """The model's name, as its server knows it."""
    openai_api_key_env_var: str | None = None
    """The environment variable that holds the API key."""
    base_url: str | None = None
    """The model's server, `/v1` or the like included."""


class OpenAIConfig(Section):
    """The models that judge."""

    model: str | None = None
    """The model that judges, as its server knows it. With one, `judge` is `model` by default."""
    openai_api_key_env_var: str | None = None
    """The environment variable that holds its API key."""
    base_url: str | None = None
    """Its server, `/v1` or the like included; by default OpenAI's."""
    provider: Literal["auto", "vllm", "openai", "anthropic"] = "auto"
    """What the servers speak; `auto` asks an OpenAI-compatible one whether it is vLLM."""
    keypoint_detection: QuestionConfig | None = None
    """Who says which screenshots matter."""
    blocking_detection: QuestionConfig | None = None
    """Who says whether the site blocked the agent."""
    evaluation: QuestionConfig | None = None
    """Who says whether the answer, the facts and the goal hold."""
    max_concurrency: Annotated[int, Field(ge=1)] | None = None
    """Requests to a model under way at once, over all episodes."""
    requests_per_minute: Annotated[float, Field(gt=0)] | None = None
    """Requests to a model begun in a minute."""
    votes: Annotated[int, Field(ge=1)] = 1
    """How often each criterion is judged; more than half must agree."""
    temperature: Annotated[float, Field(ge=0, le=2)] | None = 0.0
    """How freely verdicts are sampled; null leaves that to the server."""
    timeout: Annotated[float, Field(gt=0)] | None = None
    """Seconds that a request may take, retries included."""
    judge_settings: dict[str, Any] = Field(default_factory=dict)
    """More of `webtraj.judging.model.JudgeSettings`; they go before the other keys."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Judging:
    """A judge that is yet to be made, and what it is asked about."""

    spec: str
    """Which judge, as `webtraj.judging.catalog` names it: `environment`, `rules:FILE`, `model`."""
    options: Mapping[str, Any] = dataclasses.field(default_factory=dict, repr=False)
    """What it is to know."""
    stages: Mapping[str, Mapping[str, Any]] = dataclasses.field(default_factory=dict)
    """For `model`: what is other than in `options` for single stages of it."""
    when: When = "unknown"
    """Which episodes are judged; see `webtraj.rollouts.judging.WHEN`."""
    parallel: int = PARALLEL
    """How many at a time."""

    def make(self) -> Judge:
        """Returns the judge. Who makes one that has connections closes it, by its `aclose`.

        Raises:
            InvalidInputError: There is none of that name, or it does not take such options.
        """
        from webtraj.judging.catalog import make_judge

        if not self.stages:
            return make_judge(self.spec, options=self.options)
        from webtraj.agents.options import read_options
        from webtraj.judging.model import JudgeSettings, ModelJudge, Routing

        asked = {name: value for name, value in self.options.items() if name in _CLIENT}
        clients: dict[str, ModelClient] = {}

        def client(options: Mapping[str, Any]) -> ModelClient:
            key = repr(sorted(options.items()))  # Stages that ask the same share its limits.
            if key not in clients:
                clients[key] = read_options(options, who="the judge 'model'").make_client()
            return clients[key]

        stages = {stage: client({**asked, **own}) for stage, own in self.stages.items()}
        told = {name: value for name, value in self.options.items() if name not in _CLIENT}
        try:
            settings = JudgeSettings(**told)
        except TypeError as error:
            raise errors.InvalidInputError(
                f"The judge 'model' does not take {told!r:.200}: {error}."
            ) from None
        return ModelJudge(Routing(client(asked), stages), settings=settings)

    async def check(self) -> None:
        """Makes the judge and closes it, so that what is wrong shows before anything is played.

        No model is asked.

        Raises:
            InvalidInputError: It cannot be made.
        """
        await close_judge(self.make())


async def close_judge(judge: Judge) -> None:
    """Closes a judge that has connections."""
    if (close := getattr(judge, "aclose", None)) is not None:
        await close()


def judging_of(
    judge: str | None, when: When, config: OpenAIConfig, *, parallel: int
) -> Judging | None:
    """Returns who judges; None if nobody does.

    Args:
        judge: The key `judge`.
        when: The key `judge_when`.
        config: The section `openai_config`.
        parallel: The key `env_config.evaluation_workers`.

    Raises:
        InvalidInputError: The keys do not fit together.
    """
    if judge is None and config.model is not None:
        judge = "model"
    if judge != "model":
        default = OpenAIConfig()
        names = (n for n in OpenAIConfig.model_fields if getattr(config, n) != getattr(default, n))
        if (name := next(names, None)) is not None:
            raise errors.InvalidInputError(
                f"openai_config.{name} is for the judge 'model', and "
                + (f"judge is {judge!r:.60}." if judge else "openai_config.model is not given.")
            )
        return None if judge is None else Judging(spec=judge, when=when, parallel=parallel)
    if config.model is None:
        raise errors.InvalidInputError(
            "The judge 'model' needs a model: give openai_config.model, as its server knows it."
        )
    options = {
        **_asked(config),
        "provider": config.provider,
        "max_concurrency": config.max_concurrency,
        "requests_per_minute": config.requests_per_minute,
        "votes": config.votes,
        "timeout": config.timeout,
    }
    options = {name: value for name, value in options.items() if value is not None}
    options["temperature"] = config.temperature  # None says something: leave it to the server.
    if taken := sorted(set(config.judge_settings) & set(_CLIENT)):
        raise errors.InvalidInputError(
            f"openai_config.judge_settings does not take {taken[0]!r}; it is a key of "
            "openai_config itself."
        )
    stages = {
        stage: own
        for kind, names in _STAGES.items()
        if (question := getattr(config, kind)) is not None and (own := _asked(question))
        for stage in names
    }
    return Judging(
        spec="model",
        options={**options, **config.judge_settings},
        stages=stages,
        when=when,
        parallel=parallel,
    )


def _asked(config: OpenAIConfig | QuestionConfig) -> dict[str, Any]:
    given = {
        "model": config.model,
        "base_url": config.base_url,
        "api_key_variable": config.openai_api_key_env_var,
    }
    return {name: value for name, value in given.items() if value is not None}
