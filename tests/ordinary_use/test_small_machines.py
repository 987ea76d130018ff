"""Little memory, no /dev/shm, Ctrl-C twice, and processes that stand still."""

import asyncio
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil
import pytest

import webtraj
from processes import descendants
from webtraj import errors
from webtraj.environments.browser.pool import BrowserPool, PoolLimits

pytestmark = [pytest.mark.browser]


def _can_unshare():
    if shutil.which("unshare") is None:
        return False
    return (
        subprocess.run(["unshare", "-m", "true"], check=False, capture_output=True).returncode == 0
    )


_MEASURED = """
import asyncio, psutil, webtraj
async def main():
    async with webtraj.make("miniwob/click-test") as env:
        await env.reset()
        assert (await env.step(await env.cheat())).reward == 1.0
        me = psutil.Process()
        print(sum(p.memory_full_info().pss for p in [me, *me.children(recursive=True)]))
asyncio.run(main())
"""


@pytest.mark.skipif(not _can_unshare(), reason="may not make mount namespaces")
def test_in_512_megabytes_without_shared_memory():
    """As in a small container: Python, driver and browser together need less.

    Measured, not enforced: a limit on each process counts address space that V8 only reserves, and
    a control group needs a hierarchy that the user may write to.
    """
    small = 'mount -t tmpfs -o ro,size=4k none /dev/shm && exec "$@"'
    command = ["unshare", "-m", "sh", "-c", small, "sh", sys.executable, "-c", _MEASURED]
    done = subprocess.run(command, check=True, timeout=240, capture_output=True, text=True)
    assert int(done.stdout) < 512 << 20


_MANY = """
import asyncio, sys, webtraj
async def play(seed):
    async with webtraj.make("miniwob/click-test", seed=seed) as env:
        while True:
            await env.reset()
            print("playing", flush=True)
async def main():
    print("begun", flush=True)
    await asyncio.gather(*(play(seed) for seed in range(4)))
asyncio.run(main())
"""


@pytest.mark.parametrize("moment", ["begun", "playing"])
def test_interrupted_twice(moment):
    process = subprocess.Popen(
        [sys.executable, "-c", _MANY], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        while process.stdout.readline().strip() != moment:
            assert process.poll() is None
        children = descendants(process.pid)
        for _ in range(2):
            process.send_signal(signal.SIGINT)
            time.sleep(0.05)
        process.communicate(timeout=120)
    finally:
        process.kill()
    assert process.returncode != 0
    psutil.wait_procs(children, timeout=30)
    assert not [child for child in children if child.is_running()]
    assert not list(Path(tempfile.gettempdir()).glob(f"webtraj-run-{process.pid}-*"))


async def test_a_browser_and_driver_that_stand_still_end_the_call_and_are_replaced(nothing_left):
    limits = PoolLimits(call=2.0, close=1.0, failures_in_a_row=1)
    before = set(descendants())
    async with BrowserPool(limits=limits) as pool:
        env = webtraj.make("miniwob/click-test", pool=pool)
        await env.reset()
        for child in set(descendants()) - before:
            child.suspend()
        with pytest.raises(errors.BrowserError):
            await env.step("noop()")
        async with asyncio.timeout(120):
            assert (await env.reset()).first()
        await env.close()
