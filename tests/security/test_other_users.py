"""No other user of the machine gets an answer from what webtraj serves on loopback."""

import asyncio
import os
import re
import socket
import subprocess
import sys

import other_user
from webtraj.datasets.writer import DatasetWriter
from webtraj.environments.browser.network import FilteringProxy
from webtraj.environments.browser.network_policy import OriginPolicy
from webtraj.serving import VllmLaunch
from webtraj.view import Viewer
from webtraj.view.app import serving

pytestmark = other_user.needs_root

ROUTES = ["GET /", "GET /health", "POST /v1/chat/completions", "POST /collective_rpc", "WS /ws"]

_SERVER = """
import socket, uvicorn
from webtraj_vllm_worker import UserGate

async def app(scope, receive, send):
    if scope["type"] == "websocket":
        await receive()
        await send({"type": "websocket.accept"})
    elif scope["type"] == "http":
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"{}"})

listener = socket.create_server(("127.0.0.1", 0))
print(f"http://127.0.0.1:{listener.getsockname()[1]}", flush=True)
uvicorn.Server(uvicorn.Config(UserGate(app), log_level="error")).run(sockets=[listener])
"""


def test_a_model_server_answers_its_user_alone():
    launch = VllmLaunch(model="some/model", python=sys.executable)
    assert "--middleware=webtraj_vllm_worker.UserGate" in launch.command("127.0.0.1", 8000)
    assert not any("UserGate" in one for one in launch.command("0.0.0.0", 8000))
    command = [sys.executable, "-c", _SERVER]
    environment = {**os.environ, "FORWARDED_ALLOW_IPS": "*", **launch.variables()}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as server:
        try:
            url = server.stdout.readline().strip()
            own = other_user.statuses(url, *ROUTES, user=0)
            assert own == [200, 200, 200, 200, 101]
            assert other_user.statuses(url, *ROUTES) == [401, 401, 401, 401, 403]
            # The user's browser is the user's, too, but its pages are not.
            for of_a_page in ("Origin: http://page.test\r\n", "Origin: null\r\n"):
                found = other_user.statuses(url, *ROUTES, user=0, headers=of_a_page)
                assert found == [401, 401, 401, 401, 403]
            # Nor does a claim to be somebody else's connection help.
            with socket.create_connection(("127.0.0.1", int(url.rpartition(":")[2]))) as mine:
                claim = f"X-Forwarded-For: 127.0.0.1:{mine.getsockname()[1]}\r\n"
                assert other_user.statuses(url, *ROUTES, headers=claim)[:4] == [401] * 4
        finally:
            server.terminate()


async def test_the_viewer_answers_who_has_the_token(tmp_path):
    with DatasetWriter(tmp_path / "d"):
        pass
    routes = [
        "GET /", "GET /api/datasets", "GET /api/episodes", "GET /static/view.js",
        "PUT /api/labels/d/x", "WS /",
    ]  # fmt: skip
    async with serving(Viewer([str(tmp_path / "d")])) as url:
        found = await asyncio.to_thread(other_user.statuses, url, *routes)
        assert set(found) <= {401, 403}, found


async def test_the_proxy_of_a_browser_answers_its_user_alone():
    async with FilteringProxy(OriginPolicy(allow=("*",))) as proxy:
        url = re.sub(r"^.*//", "http://", proxy.url)
        greeting = b"\x05\x01\x00"
        assert await asyncio.to_thread(other_user.ask, url, greeting) == [b""]
        assert await asyncio.to_thread(other_user.ask, url, greeting, user=0) == [b"\x05\x00"]
