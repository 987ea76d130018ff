"""The command lines of the README, typed in their order into one folder, as a newcomer does.

What a newcomer brings is stood in for: the model servers by a fake one, Amazon by an S3 server of
this machine, the site of the tasks by a small one. Numbers of episodes are smaller. Lines that need
another environment (vLLM, PyTorch, LLaMA-Factory, Ray) have lanes of their own: here
`test_documentation.py` parses them.
"""

import functools
import http.server
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from documented_blocks import ROOT, blocks_of

from webtraj.testing.model_server import FakeModelServer

AGENTLAB = ROOT / "tests/datasets/importers/data/browsergym"

ELSEWHERE = (
    "make ", ". ", "webtraj ray ", "webtraj train ", "webtraj scratch ", "webtraj loop ",
)  # fmt: skip
UNTIL_CTRL_C = "webtraj view "

LINES = [
    shlex.join(shlex.split(line, comments=True))
    for block in blocks_of(ROOT / "README.md")
    if block.language == "sh"
    for line in block.text.replace("\\\n", " ").splitlines()
]


VERDICTS = {
    "You see one screenshot of several.": "keep",
    "Did the site keep the agent from its task": "open",
    "every claim in it was seen": "success",
    "Judge one fact and no other": "success",
    "Judge the whole task": "success",
}


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *arguments):
        pass


def reply(request):
    """Answers the questions of judges, and agents."""
    for words, verdict in VERDICTS.items():
        if words in request.text:
            return json.dumps({"reasoning": "It was seen.", "verdict": verdict})
    answer = {"name": "computer_use", "arguments": {"action": "answer", "text": "12 dollars"}}
    return (
        'Memory: {"price": "12 dollars"}\nProgress: {"find": "done"}\nIntention: Tell the price.\n'
        f"Action: Answer with the price.\n<tool_call>\n{json.dumps(answer)}\n</tool_call>"
    )


@pytest.fixture
def site(tmp_path):
    """A site of one page; returns its URL."""
    pages = tmp_path / "site"
    pages.mkdir()
    (pages / "index.html").write_text("<title>Shop</title><h1>Lamp</h1><p>12 dollars</p>")
    handler = functools.partial(Quiet, directory=pages)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()
        thread.join()


@pytest.fixture
def desk(tmp_path, site):
    """A folder with what a newcomer has: task files, and results of another tool."""
    folder = tmp_path / "desk"
    (folder / "tasks").mkdir(parents=True)
    task = {
        "task_name": "Find the price of the lamp.", "website": site, "difficulty": 2,
        "evaluator_reference": ["a price is named"],
    }  # fmt: skip
    (folder / "tasks/train.jsonl").write_text(json.dumps(task) + "\n")
    coarse = {"url": site, "description": "See what is for sale."}
    (folder / "coarse.jsonl").write_text(json.dumps(coarse) + "\n")
    shutil.copytree(AGENTLAB, folder / "results")
    return folder


def smaller(line, model, bucket):
    """Returns a line that asks the servers of this machine, and plays less."""
    line = line.replace("http://127.0.0.1:8000", model.removesuffix("/v1"))
    line = line.replace("s3://bucket", bucket)
    line = re.sub(r"--episodes \d+ --parallel \d+", "--episodes 4 --parallel 2", line)
    line = line.replace("--preset miniwob/all", "--preset miniwob/click-test --episodes 2")
    line = line.replace(" --train --python .venv-llamafactory/bin/python", "")
    if "--model-provider" in line:
        line += f" --model-url {model}"
    if "judge=model" in line:
        line += f" openai_config.base_url={model}"
    return line


@pytest.mark.slow
@pytest.mark.browser
@pytest.mark.timeout(900)
@pytest.mark.parametrize("s3_server", ["rclone"], indirect=True)
def test_lines_of_the_readme_run_in_their_order(desk, s3_server, bucket_url):
    run = [line for line in LINES if line and not line.startswith(ELSEWHERE)]
    assert len(run) > 25
    environ = os.environ | {
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "AWS_ENDPOINT_URL": s3_server.endpoint, "AWS_ALLOW_HTTP": "true",
        "AWS_REGION": "us-east-1", "AWS_ACCESS_KEY_ID": s3_server.access_key_id,
        "AWS_SECRET_ACCESS_KEY": s3_server.secret_access_key, "OPENAI_API_KEY": "sk-" + "k" * 40,
    }  # fmt: skip
    models = ("gpt-5", "Qwen/Qwen3-VL-8B-Instruct")
    with FakeModelServer(reply, models=models) as server:
        for line in run:
            command = shlex.split(smaller(line, server.url, bucket_url))
            process = subprocess.Popen(
                command, cwd=desk, env=environ, stdin=subprocess.DEVNULL, text=True,
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            )  # fmt: skip
            said = ""
            if line.startswith(UNTIL_CTRL_C):
                said = process.stdout.readline()
                process.send_signal(signal.SIGINT)
            said += process.communicate(timeout=300)[0]
            stopped = (0, 130) if line.startswith(UNTIL_CTRL_C) else (0,)
            assert process.returncode in stopped, f"{shlex.join(command)}\n{said[-3000:]}"
    assert not server.errors
    made = {path.name for path in desk.iterdir()}
    assert made >= {"runs", "hub", "sft", "to-share", "report.html", "all.parquet"}
