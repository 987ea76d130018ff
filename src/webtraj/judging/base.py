"""What a judge is: a recorded episode goes in, a `Judgement` comes out.

A judge fails closed, in three rules that hold for every one:

1. SUCCESS is only said where it was found. What is missing, unclear, refused, cut or contradictory
   is JUDGE_ERROR, with the reason; it is never FAILURE either.
2. What the judge saw is data. Text of page and agent is quoted, and cannot give verdicts.
3. An episode that did not end by itself is not judged: what a browser's or a server's failure has
   cut short says nothing of the agent.

A judge never changes an episode. `with_judgement` makes a new one that says what it was found.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Protocol

from webtraj import errors
from webtraj.closing import AsyncClosing
from webtraj.trajectory import EndReason, EpisodeTrajectory, Judgement, Outcome

__all__ = ["FirstKnown", "Judge", "VERDICTS", "given_by", "is_judgeable", "with_judgement"]

VERDICTS = (Outcome.SUCCESS, Outcome.FAILURE, Outcome.BLOCKED, Outcome.JUDGE_ERROR, Outcome.UNKNOWN)
"""The outcomes that a judge can give. UNKNOWN is for those who have no opinion on an episode."""

_OPEN_TO_JUDGEMENT = (Outcome.UNKNOWN, *VERDICTS)


class Judge(Protocol):
    """Says what episodes were worth. Shared by tasks that run at the same time."""

    @property
    def name(self) -> str:
        """What judgements call it."""

    @property
    def version(self) -> str:
        """Of its code, prompts and settings."""

    async def judge(self, trajectory: EpisodeTrajectory) -> Judgement:
        """Return its judgement of an episode that is judgeable.

        What goes wrong in judging is a JUDGE_ERROR, not an exception: a model that is away too.

        Raises:
            InvalidInputError: The judge is set up wrongly, so that it can judge no episode at all.
        """


def is_judgeable(trajectory: EpisodeTrajectory) -> bool:
    """Return whether an episode says anything of its agent: it ended by itself, in good order."""
    end = trajectory.end
    return (
        end is not None
        and end.reason in (EndReason.TERMINATED, EndReason.TRUNCATED)
        and end.outcome in _OPEN_TO_JUDGEMENT
    )


def with_judgement(trajectory: EpisodeTrajectory, judgement: Judgement) -> EpisodeTrajectory:
    """Return the episode with one judgement more; its outcome is that judgement's.

    A judgement that is UNKNOWN is kept, and leaves the outcome as it was.

    Raises:
        ValueError: The episode is not judgeable, or the outcome is none that a judge can give.
    """
    if trajectory.end is None or not is_judgeable(trajectory):
        raise ValueError(f"The episode {trajectory.episode_id!r} is not judgeable.")
    if judgement.outcome not in VERDICTS:
        raise ValueError(f"{judgement.outcome!r} is no verdict of a judge.")
    end = dataclasses.replace(
        trajectory.end,
        outcome=judgement.outcome or trajectory.end.outcome,
        judgements=(*trajectory.end.judgements, judgement),
    )
    return dataclasses.replace(trajectory, end=end)


# Judges made of judges.

_BETWEEN = "+"


class FirstKnown(AsyncClosing):
    """Gives the judgement of the first of several judges that has an opinion.

    Only UNKNOWN is no opinion. A JUDGE_ERROR is one: the next judge was not meant for the episode,
    and would hide that the first one failed.

    Closing it closes its judges.
    """

    def __init__(self, judges: Sequence[Judge]) -> None:
        if not judges:
            raise errors.InvalidInputError("FirstKnown takes one judge or more; got none.")
        self.judges = tuple(judges)

    @property
    def name(self) -> str:
        """See `Judge.name`."""
        return _BETWEEN.join(judge.name for judge in self.judges)

    @property
    def version(self) -> str:
        """See `Judge.version`."""
        return _BETWEEN.join(judge.version for judge in self.judges)

    async def judge(self, trajectory: EpisodeTrajectory) -> Judgement:
        """See `Judge.judge`. `findings["by"]` names the judge whose judgement it is."""
        reasons = []
        for judge in self.judges:
            found = await judge.judge(trajectory)
            if found.outcome is not Outcome.UNKNOWN:
                return self._named(found, judge.name)
            reasons.append(f"{judge.name}: {found.reason}")
        return self._named(dataclasses.replace(found, reason="; ".join(reasons)), "")

    def _named(self, found: Judgement, by: str) -> Judgement:
        return dataclasses.replace(
            found, judge=self.name, version=self.version, findings={**found.findings, "by": by}
        )

    async def aclose(self) -> None:
        """Close those of its judges that hold something. Idempotent."""
        for judge in self.judges:
            aclose = getattr(judge, "aclose", None)
            if aclose is not None:
                await aclose()


def given_by(judgement: Judgement) -> Judgement:
    """Return a judgement as the one judge gave it who had an opinion; others' as they are."""
    names, versions = judgement.judge.split(_BETWEEN), judgement.version.split(_BETWEEN)
    by = judgement.findings.get("by")
    if len(names) < 2 or len(versions) != len(names) or by not in names:
        return judgement
    findings = {name: value for name, value in judgement.findings.items() if name != "by"}
    version = versions[names.index(by)]
    return dataclasses.replace(judgement, judge=by, version=version, findings=findings)
