"""The judge protocol: a recorded episode goes in, a `Judgement` comes out.

Every judge fails closed, by three rules:

1. SUCCESS needs positive evidence. Missing, unclear, refused, truncated or contradictory evidence
   gives JUDGE_ERROR with the reason, never FAILURE. An exception gives no verdict at all.
2. Everything the judge sees is data. Text from the page and the agent is quoted and cannot set the
   verdict.
3. An episode that did not end by itself is not judged: one cut short by a browser or server failure
   says nothing about the agent.

A judge never changes an episode. `with_judgement` returns a new one that includes the judgement.
"""

from __future__ import annotations

import dataclasses
import inspect
import math
from collections.abc import Mapping, Sequence
from typing import Any, Protocol, cast

from webtraj import errors
from webtraj.store.closeable import AsyncClosing
from webtraj.trajectory import EpisodeTrajectory, Judgement, Outcome, is_finished

__all__ = [
    "FirstKnown",
    "Judge",
    "NamedJudge",
    "PARALLEL",
    "REWARDS",
    "VERDICTS",
    "unwrap_judgement",
    "has_verdict",
    "is_judgeable",
    "is_unanswered",
    "make_judgement",
    "judgement_by",
    "name_judge",
    "with_judgement",
]

VERDICTS = (Outcome.SUCCESS, Outcome.FAILURE, Outcome.BLOCKED, Outcome.JUDGE_ERROR, Outcome.UNKNOWN)
"""The outcomes that a judge can give. UNKNOWN means that the judge has no opinion on the
episode."""

PARALLEL = 8
"""How many episodes are judged at a time, by default."""

REWARDS: Mapping[Outcome, float] = {Outcome.SUCCESS: 1.0, Outcome.FAILURE: 0.0}
"""The rewards of verdicts; others have none."""


class Judge(Protocol):
    """Gives verdicts on episodes. Concurrent tasks share one judge.

    It may have a `name` and a `version`; see `NamedJudge`.
    """

    async def judge(self, trajectory: EpisodeTrajectory, /) -> Judgement:
        """Return the judgement of a judgeable episode; `Judgement(outcome=...)` is enough.

        Failures while judging, an unavailable model included, give JUDGE_ERROR, not an exception.

        Raises:
            InvalidInputError: The judge is misconfigured and cannot judge any episode.
        """


class NamedJudge(Judge, Protocol):
    """A judge with a name and a version. `name_judge` gives them to a judge that has none."""

    @property
    def name(self) -> str:
        """The judge's name in its judgements."""

    @property
    def version(self) -> str:
        """The version of its code, prompts and settings."""


def name_judge(judge: Judge, name: str = "") -> NamedJudge:
    """Return a judge that has a name and a version: the judge itself if it has both.

    Args:
        judge: The judge.
        name: The name for a judge without one. Default: its class's name. The version is empty by
            default.

    Raises:
        InvalidInputError: It is not a judge, or its name or version is not text.
    """
    if isinstance(judge, type) or not callable(getattr(judge, "judge", None)):
        raise errors.InvalidInputError(
            f"The judge {judge!r:.100} has no method `judge`; expected an async method that takes "
            "an episode and returns a Judgement."
        )
    own = {field: getattr(judge, field, None) for field in ("name", "version")}
    for field, found in own.items():
        if not (found is None or isinstance(found, str)):
            raise errors.InvalidInputError(
                f"The judge {judge!r:.100} has the {field} {found!r:.60}; expected text, or none."
            )
    if None not in own.values():
        return cast(NamedJudge, judge)
    under = own["name"] or name or type(judge).__name__
    return cast(NamedJudge, _Named(judge, under, own["version"] or ""))


class _Named:
    """A judge under a name. Everything else is the judge's own."""

    def __init__(self, judge: Judge, name: str, version: str) -> None:
        self._judge, self.name, self.version = judge, name, version

    def __getattr__(self, attribute: str) -> Any:
        if attribute.startswith("_"):  # Not while it is copied.
            raise AttributeError(attribute)
        return getattr(self._judge, attribute)


def make_judgement(
    judge: NamedJudge, outcome: Outcome, reason: str, findings: Mapping[str, Any] | None = None
) -> Judgement:
    """Return a judge's judgement with the reward of its outcome."""
    return Judgement(
        judge=judge.name,
        version=judge.version,
        outcome=outcome,
        reward=REWARDS.get(outcome),
        reason=reason,
        findings=findings or {},
    )


async def judgement_by(judge: NamedJudge, trajectory: EpisodeTrajectory) -> Judgement:
    """Return a judge's judgement of a judgeable episode, with missing fields filled in.

    Raises:
        InvalidInputError: What the judge returned is not a judgement that it can give.
    """
    found: object = judge.judge(trajectory)
    if inspect.isawaitable(found):
        found = await found
    if isinstance(found, Judgement) and not found.judge:
        reward = REWARDS.get(found.outcome) if found.reward is None else found.reward
        found = dataclasses.replace(found, judge=judge.name, reward=reward)
    if isinstance(found, Judgement) and not found.version:
        found = dataclasses.replace(found, version=judge.version)
    if (
        not isinstance(found, Judgement)
        or (found.judge, found.version) != (judge.name, judge.version)
        or found.outcome not in VERDICTS
        or not (found.reward is None or _is_finite(found.reward))
    ):
        verdicts = ", ".join(verdict.name for verdict in VERDICTS)
        raise errors.InvalidInputError(
            f"The judge {judge.name!r} returned {found!r:.300} for the episode "
            f"{trajectory.episode_id!r}; expected a Judgement with an outcome of {verdicts}, "
            f"a finite reward or None, and judge={judge.name!r} and version={judge.version!r} or "
            "neither, as in Judgement(outcome=Outcome.SUCCESS, reason='...')."
        )
    return found


def _is_finite(number: object) -> bool:
    return isinstance(number, int | float) and math.isfinite(number)


def is_judgeable(trajectory: EpisodeTrajectory) -> bool:
    """Return whether an episode ended by itself, so that it says something about its agent."""
    outcome = trajectory.outcome
    return is_finished(outcome, trajectory.end_reason) and outcome is not Outcome.AGENT_ERROR


def has_verdict(trajectory: EpisodeTrajectory, judge: NamedJudge) -> bool:
    """Return whether this version of the judge has reached a verdict on an episode."""
    return any(
        (one.judge, one.version) == (judge.name, judge.version)
        and one.outcome is not Outcome.JUDGE_ERROR
        for one in trajectory.judgements
    )


def is_unanswered(judgement: Judgement) -> bool:
    """Return whether a judge reached no verdict because a model gave no reply.

    An unavailable model or a refusal says nothing about the episode.
    """
    if judgement.outcome is not Outcome.JUDGE_ERROR:
        return False
    unanswered = judgement.findings.get("unanswered")
    if unanswered is not None:
        return bool(unanswered)
    # For judges that do not say, look at the last call.
    return bool(judgement.model_calls) and bool(judgement.model_calls[-1].error)


def with_judgement(trajectory: EpisodeTrajectory, judgement: Judgement) -> EpisodeTrajectory:
    """Return the episode with a judgement added, and with its outcome.

    An UNKNOWN judgement is added too, but does not change the outcome.

    Raises:
        ValueError: The episode is not judgeable, or a judge cannot give this outcome.
    """
    if trajectory.end is None or not is_judgeable(trajectory):
        raise ValueError(f"The episode {trajectory.episode_id!r} is not judgeable.")
    if judgement.outcome not in VERDICTS:
        raise ValueError(f"A judge cannot give {judgement.outcome!r}.")
    return dataclasses.replace(trajectory, end=trajectory.end.with_judgement(judgement))


# Combining judges.

_BETWEEN = "+"


class FirstKnown(AsyncClosing):
    """A judge that returns the judgement of the first of several judges with an opinion.

    Only UNKNOWN counts as having no opinion. JUDGE_ERROR does not: asking the next judge would hide
    that the first one failed.

    Closing it closes its judges.
    """

    def __init__(self, judges: Sequence[Judge]) -> None:
        if not judges:
            raise errors.InvalidInputError("FirstKnown got no judges; give at least one.")
        self.judges = tuple(map(name_judge, judges))

    @property
    def name(self) -> str:
        """See `NamedJudge.name`."""
        return _BETWEEN.join(judge.name for judge in self.judges)

    @property
    def version(self) -> str:
        """See `NamedJudge.version`."""
        return _BETWEEN.join(judge.version for judge in self.judges)

    async def judge(self, trajectory: EpisodeTrajectory) -> Judgement:
        """See `Judge.judge`. `findings["by"]` names the judge that gave the judgement."""
        reasons = []
        for judge in self.judges:
            found = await judgement_by(judge, trajectory)
            if found.outcome is not Outcome.UNKNOWN:
                return self._rename(found, judge.name)
            reasons.append(f"{judge.name}: {found.reason}")
        return self._rename(dataclasses.replace(found, reason="; ".join(reasons)), "")

    def _rename(self, found: Judgement, by: str) -> Judgement:
        return dataclasses.replace(
            found, judge=self.name, version=self.version, findings={**found.findings, "by": by}
        )

    async def aclose(self) -> None:
        """Close all judges that hold resources. Idempotent."""
        for judge in self.judges:
            aclose = getattr(judge, "aclose", None)
            if aclose is not None:
                await aclose()


def unwrap_judgement(judgement: Judgement) -> Judgement:
    """Return the inner judge's judgement from that of a `FirstKnown`; any other unchanged."""
    names, versions = judgement.judge.split(_BETWEEN), judgement.version.split(_BETWEEN)
    by = judgement.findings.get("by")
    if len(names) < 2 or len(versions) != len(names) or by not in names:
        return judgement
    findings = {name: value for name, value in judgement.findings.items() if name != "by"}
    version = versions[names.index(by)]
    return dataclasses.replace(judgement, judge=by, version=version, findings=findings)
