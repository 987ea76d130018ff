"""An episode that was forked: the values of its steps, its forks, and a fork's parent."""

import dm_env
import pytest
from playwright.async_api import expect

from webtraj import Outcome, registry
from webtraj.rollouts import RunSpec, collect
from webtraj.runs.spec import ForkConfig

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="module")]


class Walk:
    """Three steps; every fourth walk fails."""

    walks = 0

    def set_seed(self, seed):
        self.seed = seed

    def describe_episode(self):
        return {"task": "walk", "seed": self.seed}

    def episode_outcome(self):
        return Outcome.SUCCESS if self.won else Outcome.FAILURE

    async def reset(self):
        self.at = 0
        return dm_env.restart(self.at)

    async def step(self, action):
        self.at += 1
        if self.at < 3:
            return dm_env.transition(0.0, self.at)
        type(self).walks += 1
        self.won = self.walks % 4 != 0
        return dm_env.termination(float(self.won), self.at)

    async def close(self):
        pass


@pytest.fixture
async def forked(tmp_path, monkeypatch):
    """Gives a dataset with an episode and four forks at each of two steps."""
    for name, value in (("_presets", {}), ("_builtin_loaded", True), ("_plugins_loaded", True)):
        monkeypatch.setattr(registry, name, value)
    registry.register("walk", Walk)

    def go(observation):
        return "on"

    out = tmp_path / "forked"
    (first,) = (await collect(RunSpec(preset=["walk"], out=out), agent=go)).results
    fork = ForkConfig(dataset=out, episodes=[first.episode_id], at=[0, 2])
    forks = await collect(RunSpec(fork=fork, group_size=4, out=out), agent=go)
    return out, first.episode_id, [result.episode_id for result in forks.results]


async def test_values_are_below_the_steps_and_forks_link_to_each_other(look, serve, forked):
    out, parent, forks = forked
    page = await look(await serve(out), f"#/episode/{out.name}/{parent}")
    values = page.get_by_role("region", name="Values of the steps")
    points = values.get_by_role("link")
    await expect(points).to_have_count(2)
    await expect(points.nth(0)).to_have_accessible_name("From step 0: 3 of 4 succeeded")
    await points.nth(1).focus()
    await expect(values).to_contain_text("From step 2: 3 of 4 succeeded")
    await points.nth(1).press("Enter")
    steps = page.get_by_role("navigation", name="Steps").locator("a.step")
    await expect(steps.nth(2)).to_have_attribute("aria-current", "step")
    await page.get_by_role("tab", name="Episode").click()
    await page.get_by_role("link", name=forks[0], exact=True).click()
    await expect(page.get_by_role("heading", level=1)).to_have_text("walk")
    await page.get_by_role("tab", name="Episode").click()
    about = page.locator(".about")
    await expect(about).to_contain_text("step 0 of its parent")
    for other in forks[1:4]:
        await expect(about.get_by_role("link", name=other, exact=True)).to_be_visible()
    await about.get_by_role("link", name=parent, exact=True).click()
    await expect(values).to_be_visible()
