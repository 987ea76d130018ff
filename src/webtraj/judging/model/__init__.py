"""The model judge: asks models for verdicts on episodes, safe against text that begs for one.

* `case`: what to judge, how, and by which models; `evidence`: which parts of an episode are shown.
* `prompts`: the questions; `votes`: reading replies, and the votes and their record.
* `procedure`: the way from evidence to outcome, a question at a time.
* `judge`: the judge itself, and judging again from the record.
"""

from webtraj.judging.model.case import JudgeSettings, Routing
from webtraj.judging.model.judge import ModelJudge, Rerun, replay, rerun

__all__ = ["JudgeSettings", "ModelJudge", "Rerun", "Routing", "replay", "rerun"]
