"""The desk at which a page of the documentation is followed.

A folder with what the pages take for granted:

    runs/x, runs/y      four episodes of miniwob/click-button each, by the oracle and at random
    tasks/train.jsonl   a task on a small site that runs here
    coarse.jsonl        a rough idea of what to do on that site
    results/            results of AgentLab, to import

and an environment in which `webtraj` is this checkout, and `s3://bucket` a real S3 server on this
machine. Addresses are replaced in what runs: `http://127.0.0.1:8000` is a model server that answers
as an agent or a judge would, `http://127.0.0.1:8080` serves the folder, and 9222 is a free port
for a browser's debugger.
"""

import contextlib
import functools
import http.server
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

from documented_blocks import ROOT, Block
from model_replies import reply

from bucket_servers import REGION, running
from webtraj.environments.browser.processes import find_browser, find_headed_browser
from webtraj.errors import BrowserNotFoundError
from webtraj.testing.model_server import FakeModelServer

MODEL_SERVER = "http://127.0.0.1:8000"
PAGES_SERVER = "http://127.0.0.1:8080"
MODELS = ("gpt-5", "Qwen/Qwen3-VL-8B-Instruct")
OTHERS = (
    ".venv-train",
    ".venv-browsergym",
    ".venv-agents",
    ".venv-stagehand",
    ".venv-openenv",
)
"""Environments of the checkout that have what a block may need, if they were made."""
AGENTLAB = ROOT / "packages/webtraj-formats/tests/importers/data/browsergym"

_WINDOWED = ("browser_use", "stagehand")
"""What does not work with a headless shell."""

# These serve until Ctrl-C: they get it once they have printed a line.
_WEBTRAJ = """\
import os, signal, subprocess, sys
words = [word for word in sys.argv[1:3] if not word.startswith("-")]
command = [sys.executable, "-m", "webtraj", *sys.argv[1:]]
serves = words and (words[0] in ("view", "serve") or words == ["openenv", "serve"])
serves = serves or words == ["apps", "open"]
serves = serves and not {"--terminal", "--once", "--json"} & {*sys.argv}
serves = serves or words[:1] == ["mcp"] and "--http" in sys.argv  # Else until its input ends.
if not serves or "--help" in sys.argv:
    os.execv(command[0], command)  # So that a page that kills it kills it.
process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
line = process.stdout.readline()
process.send_signal(signal.SIGINT)
print(line + process.communicate()[0], end="")
sys.exit(0 if process.returncode in (0, 130) else process.returncode)
"""


class Desk:
    """A folder and an environment to run blocks in."""

    def __init__(
        self, folder: Path, model_url: str, pages_url: str, environment: dict[str, str]
    ) -> None:
        self.folder = folder
        self._addresses = {
            MODEL_SERVER: model_url.removesuffix("/v1"),
            PAGES_SERVER: pages_url.removesuffix("/"),
        }
        self._environment = environment

    def here(self, text: str) -> str:
        """Return a text with the addresses of this desk."""
        for address, own in self._addresses.items():
            text = text.replace(address, own)
        return re.sub(r"\b9222\b", str(_free_port()), text) if "9222" in text else text

    def run(self, block: Block) -> None:
        """Run a block; fail with what it printed if it does not succeed."""
        python = python_for(block.needs)
        assert python is not None
        script = self.folder / f"block_{block.line}.py"
        text = self.here(block.text)
        # Other projects' packages may warn.
        checked = [str(python), *([] if block.needs else ["-W", "error"])]
        if block.language == "sh":
            command = ["bash", "-euc", text]
        elif "\ndef test_" in text or "\nclass Test" in text or text.startswith("import pytest"):
            script = script.with_name(f"test_{script.name}")
            script.write_text(text)
            config = ("-q", "-o", "asyncio_default_fixture_loop_scope=function")
            command = [*checked, "-m", "pytest", *config, str(script)]
        else:
            script.write_text(text)
            command = [*checked, str(script)]
        variables = self._variables(block.needs, python)
        result = subprocess.run(
            command,
            cwd=self.folder,
            env={
                **self._environment,
                **variables,
                "PATH": os.pathsep.join(
                    (str(shim(python, self.folder)), str(python.parent), os.environ["PATH"])
                ),
            },
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        assert result.returncode == 0, f"{block.name}\n{result.stdout}{result.stderr}"[-6000:]

    def _variables(self, needed: str, python: Path) -> dict[str, str]:
        """Return the variables by which another project finds its browser and its model."""
        match needed.partition(".")[0]:
            case "browsergym" | "agentlab":
                return {
                    **browsergym(python, self.folder),
                    "AGENTLAB_EXP_ROOT": str(self.folder / "results"),
                    "LITELLM_LOCAL_MODEL_COST_MAP": "True",  # It would be downloaded.
                    "OPENAI_BASE_URL": f"{self._addresses[MODEL_SERVER]}/v1",
                }
            case "playwright":
                return playwright(self.folder)
            case "browser_use":
                return {
                    "ANONYMIZED_TELEMETRY": "false",
                    "BROWSER_USE_CLOUD_SYNC": "false",
                    "BROWSER_USE_CONFIG_DIR": str(self.folder / "browser-use"),
                    "BROWSER_USE_DISABLE_EXTENSIONS": "true",  # They would be downloaded.
                    "BROWSER_USE_VERSION_CHECK": "false",
                    "IN_DOCKER": "true",  # Root gets no sandbox from Chromium.
                }
        return {}


@contextlib.contextmanager
def desk_in(folder: Path, played: Path, servers: object) -> Iterator[Desk]:
    """Set a desk up in an empty folder.

    Args:
        folder: The folder.
        played: A folder with `x` and `y`, to be the desk's `runs`.
        servers: The S3 servers of the test session.
    """
    shutil.copytree(played, folder / "runs")
    shutil.copytree(AGENTLAB, folder / "results")
    server = running(servers, "rclone")
    shutil.rmtree(server.folder / "bucket", ignore_errors=True)
    (server.folder / "bucket").mkdir()
    # The server keeps what it once listed: a folder made behind it may not be seen.
    client = server.client()
    if "bucket" not in [one["Name"] for one in client.list_buckets()["Buckets"]]:
        client.create_bucket(Bucket="bucket")
    key = "sk-" + "k" * 40
    with (
        site() as url,
        serving(folder) as pages,
        FakeModelServer(reply, models=MODELS) as models,
    ):
        tell_tasks(folder, url)
        yield Desk(
            folder,
            models.url,
            pages,
            {
                **os.environ,
                "AWS_ENDPOINT_URL": server.endpoint,
                "AWS_ALLOW_HTTP": "true",
                "AWS_REGION": REGION,
                "AWS_ACCESS_KEY_ID": server.access_key_id,
                "AWS_SECRET_ACCESS_KEY": server.secret_access_key,
                "OPENAI_API_KEY": key,
                "ANTHROPIC_API_KEY": key,
                "XDG_STATE_HOME": str(folder / "state"),
                "HF_HUB_OFFLINE": "1",
                "OMP_NUM_THREADS": "1",
                "WEBTRAJ_APPS": str(ROOT / ".venv-apps"),
            },
        )
        assert not models.errors


def play(folder: Path) -> None:
    """Record the datasets `x` and `y`, by the oracle and at random."""
    for name, agent in (("x", "oracle"), ("y", "random")):
        subprocess.run(
            [
                *(sys.executable, "-m", "webtraj", "rollout", "--preset", "miniwob/click-button"),
                *("--agent", agent, "--episodes", "4", "--parallel", "2", "--seed", "0"),
                *("--out", str(folder / name)),
            ],
            check=True,
            capture_output=True,
        )


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *arguments: object) -> None:
        pass


@contextlib.contextmanager
def site() -> Iterator[str]:
    """Serve a site of one page; yields its URL."""
    import tempfile

    with tempfile.TemporaryDirectory() as pages:
        page = "<title>Shop</title><h1>Lamp</h1><p>12 dollars</p>"
        (Path(pages) / "index.html").write_text(page)
        with serving(Path(pages)) as url:
            yield url


@contextlib.contextmanager
def serving(folder: Path) -> Iterator[str]:
    """Serve the files of a folder; yields its URL."""
    handler = functools.partial(_Quiet, directory=folder)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/"
        finally:
            server.shutdown()
            thread.join()


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def tell_tasks(folder: Path, url: str) -> None:
    task = {
        "task_name": "Find the price of the lamp.",
        "website": url,
        "difficulty": 2,
        "evaluator_reference": ["a price is named"],
    }
    (folder / "tasks").mkdir()
    (folder / "tasks/train.jsonl").write_text(json.dumps(task) + "\n")
    coarse = {"url": url, "description": "See what is for sale."}
    (folder / "coarse.jsonl").write_text(json.dumps(coarse) + "\n")


def shim(python: Path, folder: Path) -> Path:
    """Return a folder whose `webtraj` runs this checkout by a Python."""
    place = folder / ".desk" / python.parent.parent.name
    if not place.exists():
        place.mkdir(parents=True)
        (place / "webtraj.py").write_text(_WEBTRAJ)
        command = place / "webtraj"
        command.write_text(f'#!/bin/sh\nexec "{python}" "{place / "webtraj.py"}" "$@"\n')
        command.chmod(0o755)
        # A block that installs packages would change the environment of the tests.
        pip = place / "pip"
        pip.write_text("#!/bin/sh\necho 'Mark a block that installs as not run.' >&2\nexit 1\n")
        pip.chmod(0o755)
    return place


@functools.cache
def python_for(needed: str) -> Path | None:
    """Return a Python that has a module, or this one if none is needed; None if none has it."""
    own = Path(sys.executable)
    if not needed:
        return own
    if needed in _WINDOWED and not _has_full_browser():
        return None
    candidates = (own, *(ROOT / folder / "bin" / "python" for folder in OTHERS))
    return next((one for one in candidates if has(one, needed)), None)


def _has_full_browser() -> bool:
    try:
        find_headed_browser()
    except BrowserNotFoundError:
        return False
    return True


def has(python: Path, module: str) -> bool:
    command = [python, "-c", f"import {module}, webtraj"]
    return python.exists() and subprocess.run(command, capture_output=True).returncode == 0


def browsergym(python: Path, folder: Path) -> dict[str, str]:
    """Return the variables by which BrowserGym finds its pages and its browser."""
    sys.path.insert(0, str(ROOT / "benchmarks"))
    try:
        import peers
    finally:
        sys.path.pop(0)
    from webtraj.environments.miniwob import tasks

    places = folder / "browsers", find_browser().path or "", tasks.html_folder() / "miniwob"
    shutil.rmtree(places[0], ignore_errors=True)
    places[0].mkdir()
    return dict(peers.browsergym_variables(python, *places))


def playwright(folder: Path) -> dict[str, str]:
    """Return the variables by which Playwright finds our browser in the place of its own."""
    own = find_browser().path
    if own is None:
        return {}
    import playwright as package

    manifest = Path(package.__file__).parent / "driver/package/browsers.json"
    revisions = {b["name"]: b["revision"] for b in json.loads(manifest.read_text())["browsers"]}
    name = "chrome-headless-shell"
    place = folder / f"playwright/chromium_headless_shell-{revisions['chromium-headless-shell']}"
    (place / f"{name}-linux64").mkdir(parents=True)
    (place / f"{name}-linux64" / name).symlink_to(own)
    return {"PLAYWRIGHT_BROWSERS_PATH": str(folder / "playwright")}
