"""`judge`: asks a judge for verdicts on episodes."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, ClassVar

from webtraj import errors
from webtraj.agents.models.base import ModelClient
from webtraj.judging.base import (
    Judge,
    NamedJudge,
    has_verdict,
    is_judgeable,
    is_unanswered,
    judgement_by,
    name_judge,
    with_judgement,
)
from webtraj.judging.catalog import make_judge_of
from webtraj.processing.base import Changed, Drop
from webtraj.processing.steps import options
from webtraj.trajectory import EpisodeTrajectory, Judgement, Outcome

__all__ = ["JudgeStep"]

_KINDS = ("keep", "drop", "fail")
_UNANSWERED = "The judge {!r} got no reply of its model: {}"
_UNDECIDED = (Outcome.UNKNOWN, Outcome.JUDGE_ERROR)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class JudgeStep(options.PlainStep):
    """Adds a judge's judgement to each judgeable episode and sets its outcome.

    Episodes that did not end by themselves pass unchanged, because there is nothing to judge. An
    episode
    with a verdict of the same judge and version is not judged again.

    A JUDGE_ERROR is recorded like any other judgement, unless a model gave no reply at all, because
    it was unavailable or refused. This says nothing about the episode, so the step fails: the
    pipeline writes no output and judges the episode in its next run. `on_judge_error` changes this.

    Raises:
        InvalidInputError: The judge is unknown, it needs a model, or an option is wrong.
    """

    name: str = dataclasses.field(default="judge", init=False)
    version: str = dataclasses.field(default="2", init=False)
    needs_model: ClassVar[bool] = True
    by: str | tuple[str, ...] = "model"
    """The judge's name in `webtraj.judging.catalog`: `model`, `environment`, `rules`, `rules:FILE`.
    Several are asked in turn until one has an opinion (not UNKNOWN): with `environment` and
    `rules`, the environment's verdict counts and, if there is none, the task's own rule. For a
    judge object, its own name."""
    judge: Judge | None = dataclasses.field(default=None, repr=False)
    """A judge object, instead of a name."""
    client: ModelClient | None = dataclasses.field(default=None, repr=False)
    """The model that the judge `model` asks. It is not closed."""
    options: Mapping[str, Any] = dataclasses.field(default_factory=dict, repr=False)
    """Options of the named judge; see `webtraj.judging.catalog.JUDGES`."""
    only_unknown: bool = False
    """Whether to skip episodes that already have an outcome other than JUDGE_ERROR."""
    on_judge_error: str = "fail"
    """The handling of a JUDGE_ERROR. `keep`: keep the episode with that outcome. `drop`: drop the
    episode. `fail`: if a model gave no reply, the step fails; otherwise as `keep`."""
    _judge: NamedJudge = dataclasses.field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        options.check_flags(self)
        options.choice(self.name, "on_judge_error", self.on_judge_error, _KINDS)
        judge = name_judge(self.judge) if self.judge is not None else self._make_judge()
        object.__setattr__(self, "_judge", judge)
        if self.judge is not None:
            object.__setattr__(self, "by", judge.name)

    @property
    def settings(self) -> Mapping[str, Any]:
        """The settings, with the judge's version."""
        model = self.client.name if self.client is not None and self._asks else ""
        return {
            **options.settings_of(self),
            "judge_version": self._judge.version,
            "model": model,
        }

    async def __call__(self, trajectory: EpisodeTrajectory) -> EpisodeTrajectory | Changed | Drop:
        """Return the episode with its judgement.

        Raises:
            InvalidInputError: What the judge returned is not a judgement of its own.
            ModelError: The judge's model gave no reply, and `on_judge_error` is `fail`.
        """
        if not is_judgeable(trajectory) or has_verdict(trajectory, self._judge):
            return trajectory
        if self.only_unknown and trajectory.outcome not in _UNDECIDED:
            return trajectory
        judgement = await judgement_by(self._judge, trajectory)
        if judgement.outcome is Outcome.JUDGE_ERROR:
            if self.on_judge_error == "drop":
                return Drop("judge failed", judgement.reason)
            if self.on_judge_error == "fail" and is_unanswered(judgement):
                raise errors.ModelError(_UNANSWERED.format(judgement.judge, judgement.reason))
        made = with_judgement(trajectory, judgement)
        return Changed(
            (made,),
            {
                "judge": judgement.judge,
                "version": judgement.version,
                "outcome": judgement.outcome.name.lower(),
            },
            model=", ".join(_models_of(judgement)),
            prompt_sha256=_prompt_of(judgement),
        )

    @property
    def _asks(self) -> bool:
        return "model" in ((self.by,) if isinstance(self.by, str) else self.by)

    def _make_judge(self) -> NamedJudge:
        by = options.words(self.name, "by", self.by)
        if not by or not isinstance(self.options, Mapping):
            raise errors.InvalidInputError(
                f"{self.name}: by is {self.by!r:.100} and options {self.options!r:.100}; expected "
                "a judge's name or several, and what they take by name."
            )
        if not isinstance(self.by, str):
            object.__setattr__(self, "by", by)
        # Nobody would close a client that the judge made from its options.
        if self._asks and self.client is None:
            raise errors.InvalidInputError(
                f"{self.name}: the judge 'model' needs a model; give it a client, or name a "
                "model: --model NAME --base-url URL."
            )
        return make_judge_of(by, client=self.client if self._asks else None, options=self.options)


def _models_of(judgement: Judgement) -> list[str]:
    """Return the names of the models that were asked, as `provider/model`."""
    stages = judgement.findings.get("models")
    if isinstance(stages, Mapping):
        return list(dict.fromkeys(str(name) for names in stages.values() for name in names))
    calls = (call for call in judgement.model_calls if call.model)
    return list(dict.fromkeys(f"{call.provider}/{call.model}" for call in calls))


def _prompt_of(judgement: Judgement) -> str:
    prompts = judgement.findings.get("prompts")
    return str(prompts.get("sha256", "")) if isinstance(prompts, Mapping) else ""
