"""The pool's promises: isolation, deadlines, replacement, and nothing left behind."""

import asyncio
import dataclasses
import os
import signal
import subprocess
import sys
import tempfile
import textwrap

import psutil
import pytest

from processes import browsers, descendants
from webtraj import errors
from webtraj.environments.browser.pool import BrowserPool, PoolLimits
from webtraj.environments.browser.processes import find_browser, process_alive

pytestmark = [pytest.mark.browser]

QUICK = PoolLimits(call=15.0, close=1.0, lease=0.2)
"""Only what hangs takes so long: a machine with much to do needs room for what does not."""


async def answer(lease):
    return await lease.run(lease.page.evaluate("6 * 7"), what="multiply")


async def until(condition):
    """Waits until a condition holds; the deadline is only for failing."""
    async with asyncio.timeout(60):
        while not condition():
            await asyncio.sleep(0.01)


async def gone(*pids):
    """Waits until the processes are gone."""
    await until(lambda: not any(process_alive(pid) for pid in pids))


def driver_of(lease):
    """Returns the child of this process that runs a lease's browser."""
    above = psutil.Process(lease.browser.pid).parents()
    return next(one for one in above if one.ppid() == os.getpid())


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Where pools have their folders."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


@pytest.mark.gate
async def test_leases_share_a_browser_and_nothing_else():
    async with BrowserPool() as pool:
        first, second = await pool.lease(), await pool.lease()
        assert first.browser.pid == second.browser.pid
        cookie = [{"name": "a", "value": "b", "url": "https://example.com"}]
        await first.context.add_cookies(cookie)
        assert len(await first.context.cookies()) == 1
        assert await second.context.cookies() == []


@pytest.mark.smoke
async def test_leases_spread_over_the_browsers():
    async with BrowserPool(browsers=2, contexts_per_browser=2) as pool:
        leases = [await pool.lease() for _ in range(4)]
        pids = [lease.browser.pid for lease in leases]
        assert sorted(pids.count(pid) for pid in set(pids)) == [2, 2]


async def test_a_full_pool_tells_who_holds_it_after_the_deadline():
    async with BrowserPool(contexts_per_browser=1, limits=QUICK) as pool:
        lease = await pool.lease(owner="episode 7")
        with pytest.raises(errors.BrowserTimeoutError, match="episode 7"):
            await pool.lease()
        await lease.release()
        await lease.release()
        assert await answer(await pool.lease()) == 42


async def test_a_call_that_hangs_ends_at_its_deadline():
    async with BrowserPool(limits=QUICK) as pool:
        lease = await pool.lease()
        forever = lease.page.evaluate("new Promise(() => {})")
        with pytest.raises(errors.BrowserTimeoutError, match=r"dream within 0\.1 s"):
            await lease.run(forever, what="dream", seconds=0.1)


@pytest.mark.gate
async def test_a_browser_that_dies_fails_its_own_leases_and_the_pool_heals():
    async with BrowserPool(browsers=2, contexts_per_browser=2, limits=QUICK) as pool:
        victim, bystander = await pool.lease(), await pool.lease()
        assert victim.browser.pid != bystander.browser.pid
        waiting = asyncio.ensure_future(
            victim.run(victim.page.evaluate("new Promise(() => {})"), what="wait")
        )
        await answer(victim)
        os.kill(victim.browser.pid, signal.SIGKILL)
        with pytest.raises(errors.BrowserCrashedError, match=r"died|went away"):
            await waiting
        with pytest.raises(errors.BrowserCrashedError):
            await answer(victim)
        assert not victim.healthy
        assert await answer(bystander) == 42
        await victim.release()
        again = await pool.lease()
        assert await answer(again) == 42
        assert pool.stats.crashed == 1


@pytest.mark.gate
async def test_a_driver_that_dies_fails_all_leases_and_the_pool_heals():
    async with BrowserPool(limits=QUICK) as pool:
        lease = await pool.lease()
        pid = lease.browser.pid
        driver_of(lease).kill()
        with pytest.raises(errors.BrowserCrashedError):
            await answer(lease)
        await gone(pid)
        await lease.release()
        assert await answer(await pool.lease()) == 42


@pytest.mark.gate
async def test_a_driver_that_hangs_is_replaced():
    async with BrowserPool(limits=QUICK) as pool:
        lease = await pool.lease()
        driver = driver_of(lease)
        driver.suspend()
        with pytest.raises(errors.BrowserTimeoutError):
            await lease.run(lease.page.evaluate("1"), what="answer", seconds=0.1)
        await lease.release()
        assert await answer(await pool.lease()) == 42
        assert not process_alive(lease.browser.pid)
        assert not process_alive(driver.pid)


async def test_a_release_that_is_cancelled_goes_on():
    async with BrowserPool(limits=QUICK) as pool:
        lease, other = await pool.lease(), await pool.lease()
        release = asyncio.ensure_future(lease.release())
        await asyncio.sleep(0)
        release.cancel()
        with pytest.raises(asyncio.CancelledError):
            await release
        await until(lambda: pool.stats.leases == 1)
        assert other.context.browser.contexts == [other.context]


def processes_of(browser_pid, kind):
    return descendants(browser_pid, word=f"--type={kind}")


async def test_a_browser_that_can_open_no_more_pages_is_replaced_and_its_pages_stay():
    async with BrowserPool(contexts_per_browser=3, limits=QUICK) as pool:
        bystander = await pool.lease()
        for zygote in processes_of(bystander.browser.pid, "zygote"):
            zygote.kill()
        newcomer = await pool.lease()
        assert newcomer.browser.pid != bystander.browser.pid
        assert await answer(newcomer) == 42
        assert await answer(bystander) == 42
        await bystander.release()
        await gone(bystander.browser.pid)


async def test_a_browser_whose_leases_run_out_of_time_one_after_the_other_is_replaced():
    limits = dataclasses.replace(QUICK, call=3.0, lease=60.0)
    async with BrowserPool(limits=limits) as pool:
        first = await pool.lease()
        (compositor,) = processes_of(first.browser.pid, "gpu-process")
        compositor.suspend()
        leases = [first, await pool.lease(), await pool.lease()]
        assert {lease.browser.pid for lease in leases} == {first.browser.pid}
        for lease in leases:
            with pytest.raises(errors.BrowserTimeoutError):
                await lease.run(lease.page.screenshot(), what="take a screenshot")
            await lease.release()
        again = await pool.lease()
        assert again.browser.pid != first.browser.pid
        await again.run(again.page.screenshot(), what="take a screenshot")


@pytest.mark.gate
@pytest.mark.parametrize("moment", ["at once", "driver", "browser", "context"])
async def test_a_lease_that_is_cancelled_leaves_nothing_behind(moment):
    limits = dataclasses.replace(QUICK, lease=60.0)
    before = {process.pid for process in descendants()}
    async with BrowserPool(contexts_per_browser=1, limits=limits) as pool:
        leasing = asyncio.ensure_future(pool.lease(owner="nobody"))
        await asyncio.sleep(0)
        reached = {
            "at once": lambda: True,
            "driver": lambda: {process.pid for process in descendants()} - before,
            "browser": lambda: {process.pid for process in browsers()} - before,
            "context": lambda: pool.stats.launched,
        }
        await until(reached[moment])
        leasing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await leasing
        lease = await pool.lease()
        assert await answer(lease) == 42
        assert lease.context.browser.contexts == [lease.context]
        assert (pool.stats.leases, pool.stats.launched) == (1, 1)


@pytest.mark.gate
async def test_a_browser_that_hangs_on_release_is_killed():
    async with BrowserPool(limits=QUICK) as pool:
        lease = await pool.lease()
        pid = lease.browser.pid
        os.kill(pid, signal.SIGSTOP)
        await lease.release()
        await gone(pid)
        assert await answer(await pool.lease()) == 42


async def test_an_old_browser_is_replaced_when_its_leases_end():
    limits = dataclasses.replace(QUICK, contexts_per_life=2)
    async with BrowserPool(limits=limits) as pool:
        first, second = await pool.lease(), await pool.lease()
        await first.release()
        third = await pool.lease()
        assert third.browser.pid != second.browser.pid
        assert await answer(second) == 42
        await second.release()
        await gone(second.browser.pid)
        assert (pool.stats.retired, pool.stats.browsers) == (1, 1)


@pytest.mark.gate
@pytest.mark.smoke
async def test_close_ends_everything_and_refuses_more(folder):
    pool = BrowserPool()
    lease = await pool.lease()
    pids = [lease.browser.pid, driver_of(lease).pid]
    assert list(folder.iterdir())
    await pool.close()
    await pool.close()
    await lease.release()
    assert not any(process_alive(pid) for pid in pids)
    assert not list(folder.iterdir())
    with pytest.raises(errors.EnvironmentMisuseError, match="closed"):
        await pool.lease()


async def test_a_cancelled_close_leaves_no_process():
    pool = BrowserPool(limits=QUICK)
    lease = await pool.lease()
    pids = [lease.browser.pid, driver_of(lease).pid]
    os.kill(lease.browser.pid, signal.SIGSTOP)
    closing = asyncio.ensure_future(pool.close())
    await asyncio.sleep(0)
    closing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await closing
    await gone(*pids)


_CLOSING_EARLY = """
import asyncio, gc, psutil
from webtraj import errors
from webtraj.environments.browser.pool import BrowserPool

async def main(programs):
    pool = BrowserPool()
    leasing = asyncio.ensure_future(pool.lease())
    await asyncio.sleep(0)
    while len(psutil.Process().children(recursive=True)) < programs:
        await asyncio.sleep(0)
    await pool.close()
    try:
        await leasing
    except errors.EnvironmentMisuseError:
        print("refused")

for programs in (0, 1, 2):
    asyncio.run(main(programs))
    gc.collect()
"""


def test_a_pool_that_is_closed_while_it_starts_leaves_no_open_pipe():
    result = subprocess.run(
        [sys.executable, "-W", "error", "-c", _CLOSING_EARLY],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (result.stdout, result.stderr) == ("refused\n" * 3, "")


_CHILD = """
import asyncio, sys
from webtraj.environments.browser.processes import find_browser
from webtraj.environments.browser.pool import BrowserPool

async def main():
    async with BrowserPool(browsers=2) as pool:
        leases = [await pool.lease() for _ in range(4)]
        print("ready", flush=True)
        await asyncio.Event().wait()

asyncio.run(main())
"""


@pytest.fixture
def child(folder):
    """A process that holds two browsers and waits."""
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(_CHILD)],
        stdout=subprocess.PIPE,
        env={**os.environ, "TMPDIR": str(folder)},
    )
    assert process.stdout.readline() == b"ready\n"
    yield process
    process.kill()
    process.wait()
    process.stdout.close()


@pytest.mark.gate
@pytest.mark.skipif(sys.platform != "linux", reason="needs Linux's parent-death signal")
@pytest.mark.parametrize("stopped", [False, True], ids=["driver runs", "driver hangs"])
async def test_nothing_survives_a_killed_parent(child, stopped):
    living = descendants(child.pid)
    assert len(living) >= 3
    if stopped:
        (driver,) = psutil.Process(child.pid).children()
        driver.suspend()
    child.kill()
    child.wait()
    await gone(*(process.pid for process in living))


@pytest.mark.gate
async def test_a_killed_parent_s_folder_is_swept_by_the_next_pool(child, folder):
    child.kill()
    child.wait()
    assert list(folder.iterdir())
    async with BrowserPool() as pool:
        await pool.lease()
    assert not list(folder.iterdir())


@pytest.fixture
async def remote(tmp_path):
    """A browser that somebody else started, and its endpoint."""
    process = await asyncio.create_subprocess_exec(
        find_browser().path,
        *("--headless", "--no-sandbox", "--remote-debugging-port=0"),
        f"--user-data-dir={tmp_path}",
        stderr=asyncio.subprocess.PIPE,
    )
    async for line in process.stderr:
        if b"DevTools listening on" in line:
            break
    yield process, line.split()[-1].decode()
    if process.returncode is None:
        process.kill()
    await process.wait()
    await process.stderr.read()


async def test_a_remote_browser_is_leased_from_and_outlives_the_pool(remote):
    process, endpoint = remote
    async with BrowserPool(endpoint=endpoint, limits=QUICK) as pool:
        lease = await pool.lease()
        assert await answer(lease) == 42
        assert lease.browser.pid is None
        await lease.release()
    assert process.returncode is None
    async with BrowserPool(endpoint=endpoint, limits=QUICK) as pool:
        assert await answer(await pool.lease()) == 42


async def test_a_remote_browser_that_dies_fails_its_leases(remote):
    process, endpoint = remote
    async with BrowserPool(endpoint=endpoint, limits=QUICK) as pool:
        lease = await pool.lease()
        process.kill()
        await process.wait()
        with pytest.raises(errors.BrowserCrashedError):
            await answer(lease)
        with pytest.raises(errors.BrowserError, match="accept a connection"):
            await pool.lease()
