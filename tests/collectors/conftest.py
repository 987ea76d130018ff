"""Steps and ends to record."""

import pytest

from webtraj import trajectory as trajectory_lib
from webtraj.trajectory import EndReason, EpisodeEnd, Phase, StepRecord, StepType


class Records:
    """Makes records in few words."""

    end = EpisodeEnd(reason=EndReason.TERMINATED, phase=Phase.STEP)

    @staticmethod
    def info(episode_id=None, **kwargs):
        if episode_id is not None:
            kwargs["episode_id"] = episode_id
        return trajectory_lib.EpisodeInfo(**kwargs)

    @staticmethod
    def step(index, observation="seen", *, last=False):
        kind = StepType.LAST if last else StepType.MID if index else StepType.FIRST
        action = f"a{index}" if index else None
        return StepRecord(index, kind, observation, action, 1.0 if index else None)

    def record(self, collector, num_steps=2, **info):
        """Records a whole episode and returns its id."""
        made = self.info(**info)
        recorder = collector.begin_episode(made)
        for index in range(num_steps):
            if index:
                recorder.record_intent(f"a{index}")
            recorder.record_step(self.step(index, last=index == num_steps - 1))
        recorder.end_episode(self.end)
        return made.episode_id


@pytest.fixture
def records():
    return Records()
