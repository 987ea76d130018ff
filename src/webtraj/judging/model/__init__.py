"""The model judge: models are asked what episodes were worth, and cannot be talked into it.

* `case`: what there is to judge, how, and by which models; `evidence`: what of an episode is shown.
* `prompts`: what is asked; `votes`: what counts as a reply, and the votes and their record.
* `procedure`: the way from evidence to outcome, a question at a time.
* `judge`: all of it together, and judging again from the record.
"""

from webtraj.judging.model.case import JudgeSettings, Routing
from webtraj.judging.model.judge import ModelJudge, Rerun, replay, rerun

__all__ = ["JudgeSettings", "ModelJudge", "Rerun", "Routing", "replay", "rerun"]
