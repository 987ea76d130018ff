"""The judge of a configured rollout, built from its keys.

`openai_config` is WebGym's section. Its question kinds map to these stages of a model judge:

* `keypoint_detection`: which screenshots matter;
* `blocking_detection`: whether the site blocked the agent;
* `evaluation`: the answer, each fact, the goal, the reference answer.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from webtraj import errors
from webtraj.judging.base import PARALLEL
from webtraj.runs.spec import RunSpec, When

if TYPE_CHECKING:
    from webtraj.agents.models.base import ModelClient
    from webtraj.judging.base import Judge
    from webtraj.rollouts.configuration.rollout import OpenAIConfig, QuestionConfig

__all__ = [
    "Judging",
    "close_judge",
    "judging_of",
    "judging_of_run",
]

_STAGES = {
    "keypoint_detection": ("screenshots",),
    "blocking_detection": ("blocked",),
    "evaluation": ("answer", "facts", "goal", "reference"),
}
_CLIENT = ("model", "base_url", "provider", "api_key_variable", "max_concurrency",
           "requests_per_minute")  # fmt: skip


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Judging:
    """Recipe for a judge, and which episodes it judges."""

    spec: str
    """Name of the judge in `webtraj.judging.catalog`: `environment`, `rules:FILE`, `model`."""
    options: Mapping[str, Any] = dataclasses.field(default_factory=dict, repr=False)
    """Options of the judge."""
    stages: Mapping[str, Mapping[str, Any]] = dataclasses.field(default_factory=dict)
    """For `model`: options of single stages that differ from `options`."""
    when: When = "unknown"
    """Episodes to judge; see `webtraj.judging.judged.WHEN`."""
    parallel: int = PARALLEL
    """Episodes to judge at a time."""

    def make(self) -> Judge:
        """Return a new judge. If it has an `aclose`, the caller must call it.

        Raises:
            InvalidInputError: No judge has that name, or it does not accept the options.
        """
        from webtraj.judging.catalog import make_judge

        if not self.stages:
            return make_judge(self.spec, options=self.options)
        from webtraj.agents.options import read_options
        from webtraj.judging.model import JudgeSettings, ModelJudge, Routing

        asked = {name: value for name, value in self.options.items() if name in _CLIENT}
        clients: dict[str, ModelClient] = {}

        def client(options: Mapping[str, Any]) -> ModelClient:
            key = repr(sorted(options.items()))  # Stages with the same client share its limits.
            if key not in clients:
                clients[key] = read_options(options, who="the judge 'model'").make_client()
            return clients[key]

        stages = {stage: client({**asked, **own}) for stage, own in self.stages.items()}
        more = {name: value for name, value in self.options.items() if name not in _CLIENT}
        try:
            settings = JudgeSettings(**more)
        except TypeError as error:
            raise errors.InvalidInputError(
                f"The judge 'model' does not accept {more!r:.200}: {error}."
            ) from None
        return ModelJudge(Routing(client(asked), stages), settings=settings)

    async def check(self) -> None:
        """Make and close the judge, so that errors show before anything is played.

        Asks no model.

        Raises:
            InvalidInputError: The judge cannot be made.
        """
        await close_judge(self.make())


async def close_judge(judge: Judge) -> None:
    """Close a judge that holds connections."""
    if (close := getattr(judge, "aclose", None)) is not None:
        await close()


def judging_of(
    judge: str | None, when: When, config: OpenAIConfig, *, parallel: int
) -> Judging | None:
    """Return the judge; None if there is none.

    Args:
        judge: The key `judge`.
        when: The key `judge_when`.
        config: The section `openai_config`.
        parallel: The key `env_config.evaluation_workers`.

    Raises:
        InvalidInputError: The keys contradict each other.
    """
    if judge is None and config.model is not None:
        judge = "model"
    if judge != "model":
        default = type(config)()
        names = (n for n in type(config).model_fields if getattr(config, n) != getattr(default, n))
        if (name := next(names, None)) is not None:
            raise errors.InvalidInputError(
                f"openai_config.{name} applies only to the judge 'model', but "
                + (f"judge is {judge!r:.60}." if judge else "openai_config.model is not set.")
            )
        return None if judge is None else Judging(spec=judge, when=when, parallel=parallel)
    if config.model is None:
        raise errors.InvalidInputError(
            "The judge 'model' needs a model; set openai_config.model to its name on the server."
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
    options["temperature"] = config.temperature  # None leaves it to the server.
    if taken := sorted(set(config.judge_settings) & set(_CLIENT)):
        raise errors.InvalidInputError(
            f"openai_config.judge_settings does not accept {taken[0]!r}; set it in openai_config "
            "itself."
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


def judging_of_run(spec: RunSpec) -> Judging | None:
    """Return the judge of a run; None if there is none.

    Raises:
        InvalidInputError: Options are given without a judge.
    """
    if spec.judge is None:
        if spec.judge_options or spec.judge_when != "unknown":
            raise errors.InvalidInputError(
                "Judge options were given without a judge. Add --judge environment, rules:FILE or "
                "model."
            )
        return None
    return Judging(spec=spec.judge, options=spec.judge_options, when=spec.judge_when)


def _asked(config: OpenAIConfig | QuestionConfig) -> dict[str, Any]:
    given = {
        "model": config.model,
        "base_url": config.base_url,
        "api_key_variable": config.openai_api_key_env_var,
    }
    return {name: value for name, value in given.items() if value is not None}
