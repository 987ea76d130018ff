"""The value of a step is the success rate of its forks."""

import pytest

from webtraj import open_dataset
from webtraj.metrics.forks import StepValue, find_loss, step_values
from webtraj.metrics.rates import Rate
from webtraj.rollouts import RunSpec, collect
from webtraj.runs.spec import ForkConfig
from webtraj.store.places import open_storage


async def test_values_count_the_forks_at_each_step(tmp_path, climber, ladder, monkeypatch):
    """Each fork has a fixed result; one breaks."""
    out = tmp_path / "d"
    (first,) = (await collect(RunSpec(preset=["ladder/climb"], out=out), agent=climber())).results
    dataset = open_dataset(out)
    played = iter([True, True, False, "broken", True, False])
    step = ladder.step

    async def luck(self, action):
        if self.rung == self.height - 1:
            self.luck = next(played)
            if self.luck == "broken":
                raise ConnectionError("the world fell apart")
        return await step(self, action)

    monkeypatch.setattr(ladder, "step", luck)
    monkeypatch.setattr(ladder, "_won", lambda self: self.luck)
    fork = ForkConfig(dataset=out, episodes=[first.episode_id], at=[0, 2])
    await collect(RunSpec(fork=fork, group_size=3, out=out), agent=climber())
    values = step_values(open_storage(out), dataset.refresh().summaries)
    assert list(values) == [first.episode_id]
    at_0, at_2 = values[first.episode_id]
    assert (at_0.step, at_0.success, at_0.not_counted) == (0, Rate(2, 3), 0)
    assert (at_2.step, at_2.success, at_2.not_counted) == (2, Rate(1, 2), 1)
    assert len(at_2.episodes) == 3
    assert find_loss([at_0, at_2]) == 2


@pytest.mark.parametrize(
    ("counts", "step"),
    [([(4, 4), (4, 4), (1, 4)], 2), ([(1, 4), (4, 4)], None), ([(4, 4), (0, 0), (2, 4)], 2)],
)
def test_step_that_lost_the_episode_is_the_largest_fall(counts, step):
    values = [StepValue(number, Rate(*each)) for number, each in enumerate(counts)]
    assert find_loss(values) == step
