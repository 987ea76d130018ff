"""`make("web", task=...)` plays any site; here, one on this machine."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest

import webtraj
from webtraj.environments.browser import tasks as tasks_lib
from webtraj.environments.local_server import LocalServer

PAGE = b"""<!doctype html><title>Shop</title><h1>Shop</h1>
<button onclick="document.title = 'Bought'; this.textContent = 'Bought'">Buy</button>"""


@contextlib.asynccontextmanager
async def site() -> AsyncIterator[str]:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            await reader.readuntil(b"\r\n\r\n")
            head = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nConnection: close\r\n"
            writer.write(head + b"Content-Length: %d\r\n\r\n%b" % (len(PAGE), PAGE))
            await writer.drain()

    server = LocalServer(answer)
    await server.start()
    try:
        yield f"http://{server.address}/"
    finally:
        await server.stop()


async def bought(session, answer):
    done = await session.page.title() == "Bought" and answer is not None
    return tasks_lib.Verdict(done=done, reward=float(done), success=done)


@pytest.mark.slow
@pytest.mark.browser
async def test_an_answer_ends_the_episode_and_the_judge_rewards_it() -> None:
    collector = webtraj.MemoryTrajectoryCollector()
    async with site() as url:
        task = webtraj.WebTask(goal="Buy it.", start_url=url, name="shop/buy", judge=bought)
        async with webtraj.make("web", task=task, trajectory_collector=collector) as env:
            timestep = await env.reset()
            assert timestep.observation["goal"] == "Buy it."
            assert '[2] button "Buy"' in timestep.observation["axtree"]
            timestep = await env.step("click('2')")
            assert timestep.mid()
            assert 'button "Bought"' in timestep.observation["axtree"]
            timestep = await env.step("answer('done')")
            assert timestep.last()
            assert (timestep.reward, timestep.discount) == (1.0, 0.0)
    (trajectory,) = collector.trajectories
    assert trajectory.info.task == "shop/buy"
    assert trajectory.info.site == "127.0.0.1"
    assert trajectory.outcome is webtraj.Outcome.SUCCESS


@pytest.mark.slow
@pytest.mark.browser
async def test_the_step_limit_truncates_with_discount_one() -> None:
    async with site() as url:
        task = webtraj.WebTask(goal="Wait.", start_url=url)
        async with webtraj.make("web", task=task, max_steps=2) as env:
            await env.reset()
            assert (await env.step("noop(0)")).mid()
            timestep = await env.step("noop(0)")
            assert timestep.last()
            assert timestep.discount == 1.0


def test_an_option_that_it_does_not_take_is_named() -> None:
    task = webtraj.WebTask(goal="Buy.", start_url="http://127.0.0.1:1/")
    with pytest.raises(webtraj.errors.InvalidInputError, match="not take 'foo'; its options: "):
        webtraj.make("web", task=task, foo=1)
