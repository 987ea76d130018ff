"""What the beginning of an episode costs: in a context of its own, in one passed on, in one kept.

One environment after the other begins an episode of six MiniWoB++ tasks in turn, in a pool of four
pages. Prints milliseconds and CPU milliseconds, of Python, Playwright's driver and the browser, for
each episode; the three ways in turns, medians of five.
"""

import asyncio
import statistics
import time

import psutil

from webtraj.environments.browser.pool import BrowserPool
from webtraj.environments.miniwob import MiniwobEnvironment

TASKS = ["click-test", "click-button", "click-link", "click-option", "click-color", "click-widget"]
SEEN = ("goal", "axtree", "last_action")
EPISODES = 30
TURNS = 5


def cpu():
    """Returns the CPU seconds so far of this process and all that it has started."""
    total = 0.0
    for process in [psutil.Process(), *psutil.Process().children(recursive=True)]:
        try:
            times = process.cpu_times()
        except psutil.NoSuchProcess:
            continue
        total += times.user + times.system + times.children_user + times.children_system
    return total


async def own(pool):
    for number in range(EPISODES):
        async with MiniwobEnvironment(TASKS[number % 6], pool=pool, observe=SEEN) as environment:
            await environment.reset()
        await pool.forget_parked()


async def passed_on(pool):
    for number in range(EPISODES):
        async with MiniwobEnvironment(TASKS[number % 6], pool=pool, observe=SEEN) as environment:
            await environment.reset()


async def kept(pool):
    async with MiniwobEnvironment(TASKS, pool=pool, observe=SEEN) as environment:
        for _ in range(EPISODES):
            await environment.reset()


async def main():
    measured = {way.__name__: [] for way in (own, passed_on, kept)}
    async with BrowserPool(1, 4) as pool:
        await kept(pool)
        for _ in range(TURNS):
            for way in (own, passed_on, kept):
                begun, used = time.perf_counter(), cpu()
                await way(pool)
                spent = time.perf_counter() - begun, cpu() - used
                measured[way.__name__].append([1000 * value / EPISODES for value in spent])
    for name, values in measured.items():
        wall, used = (statistics.median(column) for column in zip(*values, strict=True))
        print(f"{name:10} {wall:6.1f} ms {used:6.1f} CPU ms")


if __name__ == "__main__":
    asyncio.run(main())
