"""Many environments in one process: people gather them, with and without a pool, and cancel."""

import asyncio
import concurrent.futures
import gc
import threading

import pytest

import webtraj
from processes import descendants, parent_of
from webtraj import errors
from webtraj.environments.browser.pool import BrowserPool

pytestmark = [pytest.mark.browser, pytest.mark.usefixtures("nothing_left")]


def make(number=0, **options):
    return webtraj.make("miniwob/click-test", seed=number, observe=["goal", "axtree"], **options)


def drivers():
    """Returns how many drivers this process runs.

    What a driver starts has its command line, too, until it becomes a browser.
    """
    found = descendants(word="run-driver")
    known = {process.pid for process in found}
    return sum(parent_of(process) not in known for process in found)


async def play(number, **options):
    async with make(number, **options) as env:
        timestep = await env.reset()
        assert timestep.first()
        while not timestep.last():
            timestep = await env.step(await env.cheat())
        return timestep.reward


async def no_other_task():
    """Waits until this is the only task; the deadline is only for failing."""
    async with asyncio.timeout(30):
        while len(asyncio.all_tasks()) > 1:
            await asyncio.sleep(0.01)


@pytest.mark.parametrize(
    ("number", "own_pool"),
    [
        pytest.param(8, False, marks=pytest.mark.smoke),
        (32, True),
    ],
)
def test_so_many_at_once(run, number, own_pool):
    async def main():
        async with asyncio.TaskGroup() as group:
            pool = BrowserPool(2, 32) if own_pool else None
            options = {"pool": pool} if own_pool else {}
            games = [group.create_task(play(i, **options)) for i in range(number)]
            most = 0
            while not all(game.done() for game in games):
                most = max(most, drivers())
                await asyncio.sleep(0.05)
            if pool is not None:
                await pool.close()
        await no_other_task()
        return [game.result() for game in games], most

    before = drivers()
    rewards, most = run(main())
    assert rewards == [1.0] * number
    assert most - before <= 1


def test_they_can_be_closed_in_any_order_and_others_made_after(run):
    async def main():
        for order in ([2, 0, 1], [0, 1, 2]):
            envs = [make(i) for i in range(3)]
            for env in envs:
                await env.reset()
            first, *others = order
            await envs[first].close()
            assert (await envs[others[0]].reset()).first()
            for index in others:
                await envs[index].close()
            await no_other_task()

    before = drivers()
    run(main())
    assert drivers() == before


def test_those_that_nobody_closed_are_closed_with_their_loop(run):
    async def main():
        env = make()
        await env.reset()
        return env

    env = run(main())
    run(env.close())  # Of a loop that has ended: nothing is left to do.


async def test_one_that_was_only_collected_is_closed(nothing_left):
    async def forget():
        await make().reset()

    await forget()
    with pytest.warns(ResourceWarning, match="never closed"):
        gc.collect()
    async with asyncio.timeout(60):
        while drivers():
            await asyncio.sleep(0.05)
    await no_other_task()


def test_threads_share_a_browser_through_as_sync():
    before = drivers()
    ready = threading.Barrier(8)

    def play_in_thread(number):
        with webtraj.as_sync(make(number)) as env:
            env.reset()
            ready.wait(120)
            most = drivers()
            timestep = env.step(env.cheat())
            return timestep.reward, most - before

    with concurrent.futures.ThreadPoolExecutor(8) as threads:
        assert list(threads.map(play_in_thread, range(8))) == [(1.0, 1)] * 8


# Starts that fail.


def test_a_driver_that_does_not_start_fails_all_of_them_and_the_next_ones_work(run, monkeypatch):
    async def main():
        envs = [make(i) for i in range(8)]
        with monkeypatch.context() as broken:
            broken.setenv("PLAYWRIGHT_NODEJS_PATH", "/bin/false")
            failures = await asyncio.gather(*(e.reset() for e in envs), return_exceptions=True)
        assert [type(failure) for failure in failures] == [errors.BrowserCrashedError] * 8
        assert (await envs[0].reset()).first()
        await asyncio.gather(*(env.close() for env in envs))
        await no_other_task()

    run(main())


@pytest.mark.parametrize("moment", ["begun", "a driver runs", "one has ended"])
def test_cancelled_at_a_named_moment(run, moment):
    async def main():
        games = [asyncio.create_task(play(i)) for i in range(4)]
        come = {
            "begun": lambda: True,
            "a driver runs": lambda: drivers() > before,
            "one has ended": lambda: any(game.done() for game in games),
        }[moment]
        await asyncio.sleep(0)
        while not come():
            await asyncio.sleep(0.01)
        for game in games[:3]:
            game.cancel()
        await asyncio.gather(*games, return_exceptions=True)
        await no_other_task()

    before = drivers()
    run(main())


# Calls that nobody should make, and everybody does.


async def test_closed_twice_and_by_two_tasks_at_once(nothing_left):
    env = make()
    await env.reset()
    await asyncio.gather(env.close(), env.close())
    await env.close()
    assert drivers() == 0
    with pytest.raises(errors.EnvironmentMisuseError, match="closed; make a new one"):
        await env.step("noop()")
    with pytest.raises(errors.EnvironmentMisuseError, match="closed; make a new one"):
        await env.reset()


async def test_reset_in_a_finally(nothing_left):
    async with make() as env:
        try:
            await env.reset()
            raise ValueError("the agent failed")
        except ValueError:
            pass
        finally:
            assert (await env.reset()).first()
    with pytest.raises(errors.EnvironmentMisuseError, match="closed"):
        await env.reset()


def test_made_in_one_loop_and_used_in_another(run):
    env = make()
    assert run(env.reset()).first()
    with pytest.raises(errors.EnvironmentMisuseError, match="another"):
        run(env.step("noop()"))
    with pytest.raises(errors.EnvironmentMisuseError, match="another"):
        run(env.reset())
    run(env.close())
