"""The model judge: models are asked what episodes were worth, and cannot be talked into it.

* `evidence`, `steps`: what of an episode is shown; `quoting`, `composing`: how.
* `prompts`: what is asked; `verdicts`: what counts as a reply.
* `case`, `procedure`: the way from evidence to outcome, with its stages `keyframes`, `blocked`,
  `criteria`.
* `routing`, `asking`: who is asked, and how often.
* `judge`: all of it together; `transcript`, `rerun`: judging again from the record.
"""

from webtraj.judging.model.judge import ModelJudge
from webtraj.judging.model.rerun import Rerun, replayed, rerun
from webtraj.judging.model.routing import Routing
from webtraj.judging.model.settings import JudgeSettings

__all__ = ["JudgeSettings", "ModelJudge", "Rerun", "Routing", "replayed", "rerun"]
