"""Some things at the same time: so many at once, in order, and none left behind."""

import asyncio
import functools

import pytest

from webtraj.agents.models.structured_output import all_of


@pytest.mark.parametrize("most", [1, 3, 50])
async def test_results_are_in_order_and_no_more_run_than_may(most) -> None:
    running, highest = 0, 0

    async def job(number):
        nonlocal running, highest
        running += 1
        highest = max(highest, running)
        for _ in range(1 + number % 5):
            await asyncio.sleep(0)
        running -= 1
        return number

    jobs = [functools.partial(job, number) for number in range(20)]
    assert await all_of(jobs, most) == list(range(20))
    assert highest == min(most, 20)
    assert await all_of([], most) == []


async def test_first_failure_ends_the_others_before_it_is_raised() -> None:
    ended = []

    async def waiting():
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            ended.append("waiting")

    async def failing():
        await asyncio.sleep(0)
        raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        await all_of([waiting, failing, waiting], 3)
    assert ended == ["waiting", "waiting"]


async def test_being_cancelled_ends_all() -> None:
    ended = []

    async def waiting():
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("waiting")

    task = asyncio.create_task(all_of([waiting, waiting], 2))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ended == ["waiting", "waiting"]
