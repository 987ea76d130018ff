"""Judging again: with a model, as it was asked before; without one, from what it replied then."""

from __future__ import annotations

import dataclasses

from webtraj import errors
from webtraj.agents.models.base import ModelClient
from webtraj.judging.model.judge import ModelJudge, rewarded
from webtraj.judging.model.procedure import examine
from webtraj.judging.model.routing import Routing
from webtraj.judging.model.transcript import Recorded
from webtraj.trajectory import Judgement

__all__ = ["Rerun", "replayed", "rerun"]


@dataclasses.dataclass(frozen=True, slots=True)
class Rerun:
    """What came of asking again."""

    judgement: Judgement
    """The new judgement."""
    agrees: bool
    """Whether its outcome is the recorded one's."""
    differences: tuple[tuple[str, str, str], ...] = ()
    """The questions whose verdict is another now: their key, the verdict before, the one now.
    Empty verdicts are none: the votes decided nothing, or it was not asked."""


async def rerun(judgement: Judgement, models: ModelClient | Routing) -> Rerun:
    """Asks models again what is on record, message for message and picture for picture.

    What was not asked then is not asked now: where a criterion that failed is met this time, those
    after it have no question on record, and the outcome is JUDGE_ERROR.

    Args:
        judgement: One by the model judge.
        models: Who is asked. They are left open.

    Raises:
        InvalidInputError: The judgement has no transcript that can be read.
    """
    recorded = Recorded.of(judgement)
    judge = ModelJudge(models, settings=recorded.case.settings)
    again = await judge.examined(recorded.case, recorded.messages)
    before, after = _verdicts(judgement), _verdicts(again)
    differences = tuple(
        (key, before.get(key, ""), after.get(key, ""))
        for key in {**before, **after}
        if before.get(key, "") != after.get(key, "")
    )
    return Rerun(again, again.outcome is judgement.outcome, differences)


def replayed(judgement: Judgement) -> Judgement:
    """Returns the judgement as it follows from its stored replies. No model is asked.

    So `replayed(judgement) == judgement` shows that the transcript is complete, and that nothing
    but the transcript has made the outcome.

    Raises:
        InvalidInputError: The judgement has no transcript that can be read.
    """
    recorded = Recorded.of(judgement)
    examination = examine(recorded.case)
    try:
        questions = next(examination)
        while True:
            questions = examination.send([recorded.answered(asked) for asked in questions])
    except StopIteration as stop:
        examined = stop.value
    return dataclasses.replace(
        judgement,
        outcome=examined.outcome,
        reward=rewarded(examined.outcome),
        reason=examined.reason,
        findings={**judgement.findings, **examined.findings},
    )


def _verdicts(judgement: Judgement) -> dict[str, str]:
    try:
        return {
            str(found["question"]): str(found["verdict"])
            for found in judgement.findings["questions"]
        }
    except (KeyError, TypeError) as error:
        raise errors.InvalidInputError(
            f"The findings of the judgement by {judgement.judge!r} have no questions ({error!r})."
        ) from error
