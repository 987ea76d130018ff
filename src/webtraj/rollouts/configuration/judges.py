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
    from webtraj.judging.base import Judge
    from webtraj.rollouts.configuration.rollout import (
        OpenAIConfig,
        QuestionConfig,
        RolloutConfig,
    )

__all__ = [
    "Judging",
    "judging_of",
    "judging_of_run",
]

_STAGES = {
    "keypoint_detection": ("screenshots",),
    "blocking_detection": ("blocked",),
    "evaluation": ("answer", "facts", "goal", "reference"),
}
_RENAMED = {"openai_api_key_env_var": "api_key_variable"}
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

        judge = make_judge(self.spec, options=self.options)
        if not self.stages:
            return judge
        from webtraj.agents.options import read_options
        from webtraj.judging.model import ModelJudge, Routing

        assert isinstance(judge, ModelJudge)
        asked = {name: value for name, value in self.options.items() if name in _CLIENT}
        # Stages with the same client share its limits.
        clients = {repr(sorted(asked.items())): judge.routing.default}
        stages = {}
        for stage, own in self.stages.items():
            options = {**asked, **own}
            key = repr(sorted(options.items()))
            if key not in clients:
                clients[key] = read_options(options, who="the judge 'model'").make_client()
            stages[stage] = clients[key]
        return ModelJudge(Routing(judge.routing.default, stages), settings=judge.settings)


def judging_of(config: RolloutConfig) -> Judging | None:
    """Return the judge of a configuration; None if there is none.

    Raises:
        InvalidInputError: The keys contradict each other.
    """
    asked, judge = config.openai_config, config.judge
    how: dict[str, Any] = {
        "when": config.judge_when,
        "parallel": config.env_config.evaluation_workers,
    }
    if judge is None and asked.model is not None:
        judge = "model"
    if judge != "model":
        if given := asked.model_dump(exclude_defaults=True):
            raise errors.InvalidInputError(
                f"openai_config.{next(iter(given))} applies only to the judge 'model', but "
                + (f"judge is {judge!r:.60}." if judge else "openai_config.model is not set.")
            )
        return None if judge is None else Judging(spec=judge, **how)
    if asked.model is None:
        raise errors.InvalidInputError(
            "The judge 'model' needs a model; set openai_config.model to its name on the server."
        )
    if taken := sorted(set(asked.judge_settings) & set(_CLIENT)):
        raise errors.InvalidInputError(
            f"openai_config.judge_settings does not accept {taken[0]!r}; set it in openai_config "
            "itself."
        )
    stages = {
        stage: own
        for kind, names in _STAGES.items()
        if (question := getattr(asked, kind)) is not None and (own := _options(question))
        for stage in names
    }
    # Without a temperature the server chooses it.
    options = {**_options(asked), "temperature": asked.temperature, **asked.judge_settings}
    return Judging(spec="model", options=options, stages=stages, **how)


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


def _options(config: OpenAIConfig | QuestionConfig) -> dict[str, Any]:
    """Return the given keys as a judge's options."""
    keys = config.model_dump(exclude={*_STAGES, "judge_settings"}, exclude_none=True)
    return {_RENAMED.get(key, key): value for key, value in keys.items()}
