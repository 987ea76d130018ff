"""Every task is seeded, not done at first, judged by state, and solved by its oracle."""

import asyncio
import random

import pytest
import pytest_asyncio

from rows import each
from webtraj.environments import actions as a
from webtraj.environments.browser.pool import BrowserPool
from webtraj.testing.site import FixtureEnvironment, tasks
from webtraj.testing.site.names import TASKS
from webtraj.testing.site.world import make_world
from webtraj.trajectory import Outcome

SEEDS = range(2)
TEXT = ("goal", "url", "last_action", "info")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def pool():
    async with BrowserPool() as pool:
        yield pool


def begin(name, seed):
    world = make_world(seed)
    return world, tasks.find_task(name).begin(world)


def test_the_same_seed_gives_the_same_world_whatever_else_is_drawn():
    random.seed(1)
    first = make_world(7)
    random.seed(2)
    assert make_world(7) == first
    assert make_world(8) != first


@each("seed", range(30))
def test_worlds_are_unambiguous(seed):
    world = make_world(seed)
    for things in (
        [product.name for product in world.products],
        [product.cents for product in world.products],
        [product.code for product in world.products],
        [order.number for order in world.orders],
        world.feed,
        [card for cards in world.cards.values() for card in cards],
        *([review.stars for review in product.reviews] for product in world.products),
        *([len(post.votes) for post in thread.posts] for thread in world.threads),
    ):
        assert len(set(things)) == len(things)
    assert any(p.author == world.customer for t in world.threads for p in t.posts)


@each("name", TASKS)
def test_a_task_is_seeded_and_not_done_at_first(name):
    goals = set()
    for seed in range(30):
        world, assignment = begin(name, seed)
        assert not assignment.done(world), seed
        assert not assignment.spoiled(world), seed
        assert begin(name, seed)[1].goal == assignment.goal
        goals.add(assignment.goal)
    assert len(goals) > 1 or name in {
        "log-out",
        "cancel-item",
        "rate-shop",
        "answer-return-days",
        "answer-discount",
    }


@pytest.mark.browser
@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("name", TASKS)
async def test_oracle_solves_every_seed(pool, name):
    async with FixtureEnvironment(name, pool=pool, observe=TEXT) as environment:
        assert environment.has_oracle
        for _ in SEEDS:
            timestep = await environment.reset()
            while not timestep.last():
                action = await environment.cheat()
                assert action is not None, timestep.observation
                timestep = await environment.step(action)
                assert timestep.observation["last_action"]["error"] == "", action
            assert (timestep.reward, timestep.discount) == (1.0, 0.0), timestep.observation
            assert environment.episode_outcome() is Outcome.SUCCESS


@pytest.mark.browser
@pytest.mark.asyncio(loop_scope="module")
async def test_episodes_side_by_side_do_not_meet(pool):
    async def play(seed):
        async with FixtureEnvironment("add-to-cart", pool=pool, observe=TEXT, seed=seed) as env:
            timestep = await env.reset()
            while not timestep.last():
                timestep = await env.step(await env.cheat())
            return timestep.reward, len(env.world.cart)

    assert await asyncio.gather(*map(play, range(6))) == [(1.0, 1)] * 6


@pytest.mark.smoke
@pytest.mark.browser
@pytest.mark.asyncio(loop_scope="module")
async def test_what_cannot_be_undone_ends_the_episode_with_nothing(pool):
    async with FixtureEnvironment("review-product", pool=pool, observe=TEXT) as environment:
        await environment.reset()
        while not isinstance(select := await environment.cheat(), a.SelectOption):
            await environment.step(select)
        wrong = "1" if select.options != ("1",) else "2"
        await environment.step(a.SelectOption(select.ref, (wrong,)))
        await environment.step(await environment.cheat())
        timestep = await environment.step(await environment.cheat())
        assert (timestep.last(), timestep.reward) == (True, 0.0)
        assert timestep.observation["info"]["reason"] == "What was done cannot be undone."
        assert environment.episode_outcome() is Outcome.FAILURE


@pytest.mark.browser
@pytest.mark.asyncio(loop_scope="module")
async def test_the_text_of_a_page_earns_nothing(pool):
    async with FixtureEnvironment("log-out", pool=pool, observe=TEXT) as environment:
        await environment.reset()
        await environment.session.page.evaluate(
            "document.body.innerHTML = '<a href=/login>Log in</a>'"
        )
        timestep = await environment.step(a.Wait(0))
        assert (timestep.reward, timestep.last()) == (0.0, False)


@pytest.mark.browser
@pytest.mark.asyncio(loop_scope="module")
async def test_only_the_site_and_the_tasks_files_can_be_reached(pool, tmp_path):
    secret = tmp_path / "secret.txt"
    secret.write_text("secret")
    async with FixtureEnvironment("upload-document", pool=pool, observe=TEXT) as environment:
        await environment.reset()
        first = await environment.cheat()
        await environment.step(first)
        choose = await environment.cheat()
        for path in (str(secret), f"../{tmp_path.name}/secret.txt", "other.txt"):
            timestep = await environment.step(a.UploadFile(choose.ref, (path,)))
            assert timestep.observation["last_action"]["error_kind"] == "blocked"
        for url in ("https://example.com/", "http://127.0.0.1:1/"):
            timestep = await environment.step(a.Goto(url))
            assert timestep.observation["last_action"]["error_kind"] == "blocked"
        assert environment.world.uploads == []
