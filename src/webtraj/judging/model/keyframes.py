"""Which screenshots matter: the model is asked about each but the last.

What fails here, fails towards more evidence: a picture whose reply is broken is kept.
"""

from __future__ import annotations

from collections.abc import Sequence

from webtraj.judging.model.case import Answered, Case, Question

__all__ = ["chosen", "screenshot_questions"]


def screenshot_questions(case: Case) -> tuple[Question, ...]:
    """Returns what there is to ask; nothing if there are few pictures anyway."""
    if len(case.pictures) <= case.settings.select_above:
        return ()
    return tuple(
        Question(
            key=f"screenshot/{index}", stage="screenshots", prompt="screenshot", pictures=(index,)
        )
        for index in case.pictures[:-1]
    )


def chosen(case: Case, answers: Sequence[Answered]) -> tuple[int, ...]:
    """Returns the indexes of the steps whose pictures are shown, in order.

    Of too many, the last ones.
    """
    skipped = {answer.question.pictures[0] for answer in answers if answer.verdict == "skip"}
    kept = tuple(index for index in case.pictures if index not in skipped)
    return kept[-case.settings.max_screenshots :]
