"""Judges made of judges."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from webtraj import errors
from webtraj.closing import AsyncClosing
from webtraj.judging.base import Judge
from webtraj.trajectory import EpisodeTrajectory, Judgement, Outcome

__all__ = ["FirstKnown", "given_by"]

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
        """Closes those of its judges that hold something. Idempotent."""
        for judge in self.judges:
            aclose = getattr(judge, "aclose", None)
            if aclose is not None:
                await aclose()


def given_by(judgement: Judgement) -> Judgement:
    """Returns a judgement as the one judge gave it who had an opinion; others' as they are."""
    names, versions = judgement.judge.split(_BETWEEN), judgement.version.split(_BETWEEN)
    by = judgement.findings.get("by")
    if len(names) < 2 or len(versions) != len(names) or by not in names:
        return judgement
    findings = {name: value for name, value in judgement.findings.items() if name != "by"}
    version = versions[names.index(by)]
    return dataclasses.replace(judgement, judge=by, version=version, findings=findings)
