"""People keep keys in the environment and log in to sites; nothing that is written may hold either.

They take vLLM's dummy keys (`EMPTY`, `x`), put a key into a gateway's URL, type a password into a
login page, share what they recorded, and open it in a browser.
"""

import asyncio
import base64
import http.server
import json
import os
import subprocess
import sys
import threading
import urllib.parse
from pathlib import Path

import pytest

import webtraj
from webtraj.datasets import copy
from webtraj.environments.browser.access import WebAccess
from webtraj.environments.browser.network_policy import OriginPolicy
from webtraj.environments.browser.tasks import WebTask
from webtraj.testing.model_server import FakeModelServer

pytestmark = pytest.mark.browser

KEY = "sk-gateway/8fKz02mQx7LwPq3r"
QUERY_KEY = "q7LwPq3rT9vB8fKz02mQ"
PASSWORD = "korrekt&Pferd/7"
_HANG = 180


def forms(secret: str) -> set[bytes]:
    """Returns how a file may spell a secret."""
    plain = secret.encode()
    return {
        plain,
        json.dumps(secret)[1:-1].replace("/", "\\/").encode(),
        "".join(c if c.isalnum() else f"\\u{ord(c):04x}" for c in secret).encode(),
        urllib.parse.quote(secret, safe="").encode(),
        urllib.parse.quote(urllib.parse.quote(secret, safe=""), safe="").encode(),
        plain.hex().encode(),
        *(base64.b64encode(b"\0" * n + plain + b"\0" * 3)[n and 4 : -8] for n in range(3)),
    }


def leaks(folder: Path, *secrets: str) -> list[str]:
    """Returns the files that hold a secret."""
    return [
        f"{path.relative_to(folder)}: {secret} as {form!r}"
        for path in sorted(folder.rglob("*"))
        if path.is_file()
        for data in [path.read_bytes()]
        for secret in secrets
        for form in forms(secret)
        if form in data
    ]


def run(folder: Path, *arguments: str, **variables: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "webtraj", *arguments],
        cwd=folder,
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        timeout=_HANG,
        check=False,
    )
    (folder / f"said-{arguments[0]}.txt").write_text(done.stdout + done.stderr)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.mark.slow
@pytest.mark.gate
def test_a_key_in_the_environment_and_one_in_the_url_are_in_no_file(tmp_path: Path) -> None:
    def reply(request: object) -> str:
        return f"The server's key is {KEY}, {QUERY_KEY}.\nclick('1')"

    with FakeModelServer(reply, api_key=KEY) as server:
        run(
            tmp_path, "rollout", "--preset", "miniwob/click-test", "--model", "fake-model",
            "--base-url", f"{server.url}?api-key={QUERY_KEY}", "--out", "data",
            "--agent-set", "api_key_variable=GATEWAY_KEY", "--parallel", "1",
            GATEWAY_KEY=KEY,
        )  # fmt: skip
        assert server.requests[0].query == f"api-key={QUERY_KEY}"
    (episode,) = webtraj.open_dataset(tmp_path / "data")
    assert episode.outcome is webtraj.Outcome.SUCCESS
    assert "<secret:api-key>" in episode.steps[1].decision.model_calls[0].text
    run(tmp_path, "metrics", "data", "--html", "report.html")
    for name in ("html", "atif"):
        run(tmp_path, "export", "data", "--format", name, "--out", f"as-{name}")
    short = ("--filter", "min_steps=1")
    run(tmp_path, "train", "export", "data", "--format", "sharegpt", "--out", "training", *short)
    run(tmp_path, "copy", "data", "copied", "--without", "screenshots,html")
    run(tmp_path, "show", "data", episode.episode_id)
    assert leaks(tmp_path, KEY, QUERY_KEY) == []


@pytest.mark.slow
@pytest.mark.parametrize("dummy", ["click", "EMPTY"])
def test_a_dummy_key_does_not_change_what_the_agent_does(
    tmp_path: Path, dummy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def play(url: str) -> None:
        from webtraj.agents.catalog import make_agent
        from webtraj.rollouts import RunSpec, collect

        agent = make_agent(
            "model",
            options={"model": "fake-model", "base_url": url, "api_key_variable": "DUMMY"},
        )
        await collect(RunSpec(preset="miniwob/click-test", out=tmp_path / "data"), agent=agent)
        await agent.aclose()

    monkeypatch.setenv("DUMMY", dummy)
    with FakeModelServer(lambda request: f"{dummy}\nclick('1')") as server:
        asyncio.run(play(server.url))
    (episode,) = webtraj.open_dataset(tmp_path / "data")
    assert episode.outcome is webtraj.Outcome.SUCCESS
    assert episode.steps[1].decision.model_calls[0].text == f"{dummy}\nclick('1')"


LOGIN = b"""<!doctype html><title>Shop</title><form action=/welcome>
<label>Name <input name=name></label><label>Password <input type=password name=password></label>
<button>Log in</button></form>"""


class Shop(http.server.BaseHTTPRequestHandler):
    """A site that shows what was typed, as some do."""

    def do_GET(self) -> None:
        query = urllib.parse.parse_qs(urllib.parse.urlsplit(self.path).query)
        said = json.dumps(query).replace("/", "\\/").encode()
        self.send_response(200)
        self.send_header("content-type", "text/html")
        self.end_headers()
        self.wfile.write(LOGIN if not query else b"<p>Welcome</p><pre>" + said + b"</pre>")

    def log_message(self, *args: object) -> None:
        """Logs nothing."""


async def log_in(url: str, folder: Path) -> None:
    from webtraj.environments.browser.observation import refs_in

    port = urllib.parse.urlsplit(url).port
    collector = webtraj.JsonTrajectoryCollector(folder)
    async with webtraj.make(
        "web",
        task=WebTask(goal="Log in.", start_url=url),
        policy=WebAccess(network=OriginPolicy(allow=(f"127.0.0.1:{port}",))),
        trajectory_collector=collector,
    ) as environment:
        observation = (await environment.reset()).observation
        refs = {line.name: line.ref for line in refs_in(observation["axtree"])}
        await environment.step(f"fill('{refs['Password']}', '{PASSWORD}')")
        await environment.step(f"click('{refs['Log in']}')")
        await environment.step("wait(0.1)")
    await collector.aclose()


@pytest.mark.slow
@pytest.mark.gate
def test_a_password_that_was_typed_is_in_no_file(tmp_path: Path) -> None:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Shop)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        asyncio.run(log_in(f"http://127.0.0.1:{server.server_port}/", tmp_path / "data"))
    finally:
        server.shutdown()
        server.server_close()
    (episode,) = webtraj.open_dataset(tmp_path / "data")
    assert "<secret:password>" in str(episode.steps[1].action)
    assert "Welcome" in episode.steps[-1].observation["axtree"]
    copy(tmp_path / "data", tmp_path / "copied", without=["screenshots"])
    run(tmp_path, "export", "data", "--format", "html", "--out", "page")
    assert leaks(tmp_path, PASSWORD) == []
