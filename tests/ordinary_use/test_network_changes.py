"""A machine whose networks come and go, as when a container starts or a VPN connects.

The browser drops all its connections then, those to this machine too (`ERR_NETWORK_CHANGED`). That
is no fault of the page, so the page is opened again.
"""

import json
import shutil
import subprocess
import sys

import pytest


def _can_unshare():
    if shutil.which("unshare") is None or shutil.which("ip") is None:
        return False
    made = subprocess.run(["unshare", "-n", "true"], check=False, capture_output=True)
    return made.returncode == 0


_CHANGES = """ip link add changing type veth peer name other &&
ip addr add 10.77.1.1/24 dev changing &&
ip link set changing up &&
ip link del changing"""

_OPENED = """
import asyncio, json
import webtraj

async def main():
    async with webtraj.make("miniwob/click-test", observe=("goal", "axtree")) as env:
        rewards = []
        for _ in range(200):
            await env.reset()
            timestep = await env.step(await env.cheat())
            rewards.append(timestep.reward)
    print(json.dumps(rewards))

asyncio.run(main())
"""


@pytest.mark.slow
@pytest.mark.browser
@pytest.mark.skipif(not _can_unshare(), reason="may not make network namespaces")
def test_a_page_is_opened_again_if_the_network_changed_meanwhile():
    forever = f"while true; do {_CHANGES}; sleep 0.05; done"
    prepared = f"ip link set lo up; {_CHANGES} || exit 77"
    shell = f'{prepared}; {forever} & "$@"; code=$?; kill $!; exit $code'
    ended = subprocess.run(
        ["unshare", "-n", "sh", "-c", shell, "sh", sys.executable, "-c", _OPENED],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    if ended.returncode == 77:
        pytest.skip("may not add networks")
    assert ended.returncode == 0, ended.stderr[-2000:]
    assert json.loads(ended.stdout) == [1.0] * 200
