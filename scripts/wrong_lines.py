"""Run wrong command lines of every command, and print what each one answers.

`python scripts/wrong_lines.py` runs them all in this process, in a temporary folder. With words, as
in `python scripts/wrong_lines.py submit --resume`, it runs the lines that contain one of them. For
each line it prints the exit status and the message. A line is a failure, marked FAIL, if it

* is accepted, or ends in a traceback;
* says nothing;
* names neither a word of the line nor an argument, option or key to give.

The script exits with 1 if a line fails. No line plays anything or leaves this machine. The folder
has `mine` (a dataset of one episode), `damaged` (one whose episode was changed), `runs` (one of two
runs), `empty` and `full` (other folders), `notes.txt`, `bad.json`, `bad.jsonl`, `tasks.jsonl` (a
task on a site that is not there) and `own.py` (a module that registers nothing).
"""

import asyncio
import contextlib
import io
import json
import os
import re
import shlex
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from unittest import mock

import dm_env

import webtraj
from webtraj.cli import app
from webtraj.rollouts import RunSpec, collect

LINES = """
nosuch
rolout
judge
judge nosuch
apps nosuch
openenv nosuch
--nosuch
demo --nosuch
demo extra
rollout
rollout --preset nosuch
rollout --preset miniwob/clik-test
rollout --preset miniwob/click-test:9
rollout --preset miniwob/click-test@3/2
rollout --preset nowhere.jsonl
rollout --preset notes.txt
rollout --preset bad.jsonl
rollout --preset mine
rollout --preset s3://
rollout --preset s3:/x
rollout --preset s3://b/tasks
rollout --config-name rollout_test --cfg job
rollout --preset empty
rollout --preset miniwob/click-test --agent nosuch
rollout --preset miniwob/click-test --agent model
rollout --preset miniwob/click-test --model gpt-5
rollout --preset miniwob/click-test --model anthropic:claude
rollout --preset miniwob/click-test --model gpt-5 --base-url nonsense
rollout --preset miniwob/click-test --model gpt-5 --api-key-variable NO_SUCH_KEY
rollout --preset miniwob/click-test --model gpt-5 --provider nosuch
rollout --preset miniwob/click-test --agent random --agent-set nosuch=1
rollout --preset miniwob/click-test --agent random --agent-set ends=7
rollout --preset miniwob/click-test --agent random --agent-set ends
rollout --preset miniwob/click-test --agent random --temperature 1
rollout --preset miniwob/click-test --agent random --episodes 0
rollout --preset miniwob/click-test --agent random --episodes many
rollout --preset miniwob/click-test --agent random --episodes 300000000
rollout --preset miniwob/click-test --agent random operation_timeout=3000000
rollout --preset miniwob/click-test --agent random --episodes 2 --attempts 3
rollout --preset miniwob/click-test --agent random --attempts -1
rollout --preset miniwob/click-test --agent random --parallel 0
rollout --preset miniwob/click-test --agent random --max-steps 0
rollout --preset miniwob/click-test --agent random --max-steps 99999999999999999999999
rollout --preset miniwob/click-test --agent random --seed x
rollout --preset miniwob/click-test --agent random --timeout 0
rollout --preset miniwob/click-test --agent random --set nosuch=1
rollout --preset miniwob/click-test --agent random --set nosuch
rollout --preset miniwob/click-test --agent random --set 'observe=["nosuch"]'
rollout --preset miniwob/click-test --agent random 'observe=[nosuch]'
rollout --preset miniwob/click-test --agent random --out notes.txt
rollout --preset miniwob/click-test --agent random --out empty/../notes.txt/x
rollout --preset miniwob/click-test --agent random --out ftp://host/x
rollout --preset miniwob/click-test --agent random --out s3://
rollout --preset miniwob/click-test --agent random --out s3:/b/x
rollout --preset miniwob/click-test --agent random browser_endpoint=nonsense
rollout --preset miniwob/click-test --agent random --out full
rollout --preset miniwob/click-test --agent random --out mine --format pb
rollout --preset miniwob/click-test --agent random --out new --format xml
rollout --preset miniwob/click-test --agent random --out new --option endpoint=x
rollout --preset miniwob/click-test --agent random --out new --option nonsense
rollout --preset miniwob/click-test --agent random --out s3://b/x --option nosuch=1
rollout --preset miniwob/click-test --agent random --judge nosuch
rollout --preset miniwob/click-test --agent random --judge rules:nowhere.yaml
rollout --preset miniwob/click-test --agent random --judge model
rollout --preset miniwob/click-test --agent random --judge model --judge-model gpt-5
rollout --preset miniwob/click-test --agent random --judge-set votes=3
rollout --preset miniwob/click-test --agent random --judge environment --judge-set nosuch=1
rollout --preset miniwob/click-test --agent random --judge-when always
rollout --preset miniwob/click-test --agent random --judge environment --judge-when sometimes
rollout --preset miniwob/click-test --agent random --proposer nosuch
rollout --preset miniwob/click-test --agent random proposals=4
rollout --preset miniwob/click-test --agent random completion_threshold=2
rollout --preset miniwob/click-test --agent random task_order=nosuch
rollout --preset miniwob/click-test --agent random blocklist_path=empty
rollout --preset miniwob/click-test --agent random blocklist_ttl_hours=-1
rollout --preset miniwob/click-test --agent random save_every_percent=200
rollout --preset miniwob/click-test --agent random operation_limits.nosuch=1
rollout --preset miniwob/click-test --agent random --import nosuch
rollout --preset miniwob/click-test --agent random --import nowhere.py
rollout --preset miniwob/click-test --agent random --import notes.txt
rollout --preset miniwob/click-test --agent random --ray ray://127.0.0.1:1
rollout --preset miniwob/click-test --agent random extra
rollout --preset miniwob/click-test --agent random key=value
rollout --preset miniwob/click-test --print-config nosuch=1
rollout --preset tasks.jsonl --agent oracle
rollout --resume
rollout --resume --out nowhere
rollout --resume --out mine
rollout --resume --out mine nosuch
rollout --resume --out empty
rollout --resume --out runs one two
rollout --resume --out runs nosuch
rollout --resume --out runs one --episodes 3
rollout --resume --out runs one --preset miniwob/click-test
rollout --resume nosuch --preset miniwob/click-test
rollout --config-name nosuch
rollout --config-name rollout_test --config-dir nowhere --print-config
rollout --config-name rollout_test --agent random
rollout --config-name rollout_test nosuch=1 --print-config
rollout --config-name rollout_test ~judge --print-config
rollout --config-name rollout_test env_config.nosuch=1
rollout --config-name rollout_test save_path=s3://b/x
rollout --config-name rollout_train save_path=s3://b/x
rollout --config-name rollout_train
rollout submit
rollout submit --preset miniwob/click-test
rollout submit --preset miniwob/click-test --out s3://b/x --episodes 0
record
record http://127.0.0.1:9/ --preset miniwob/click-test
record http://127.0.0.1:9/ --attach nonsense
record http://127.0.0.1:9/ --redact nosuch
record http://127.0.0.1:9/ --episodes 0
rollout --preset tasks.jsonl --agent curious --proposer nosuch --out new
rollout --preset tasks.jsonl proposals=2 --out new
propose
propose nowhere
propose runs --proposer nosuch
propose runs --run nosuch
propose runs --seed 1
ls
ls nowhere
ls notes.txt
ls empty
ls s3://
ls ftp://host/x
ls hf://nosuch
ls s3:/bucket/x
ls mine --where nonsense
ls mine --where nosuch=1
ls mine --outcome nosuch
ls mine --end-reason nosuch
ls mine --limit -1
ls mine --min-reward high
ls mine --option endpoint=x
show
show mine nosuch
show mine 7
show mine -9
show nowhere 0
show mine 0 --step 99
show mine 0 --step x
view nowhere
view mine notes.txt
view mine --port 99999999
view mine --host nosuch.invalid
view mine --write-labels
view mine --terminal --run nosuch --once
view mine --terminal --once --every 0
metrics
metrics nowhere
metrics mine empty
metrics mine --by nosuch
metrics mine --where nonsense
metrics mine --pass-at 0
metrics mine --pass-at x
metrics mine --price nonsense
metrics mine --html empty
metrics mine --title x
metrics mine --title X
metrics s3://b/x --write --option nonsense
verify nowhere
verify notes.txt
verify damaged
recover nowhere
recover notes.txt
recover memory://none
index nowhere
index mine
push nowhere
push mine
push mine s3://b/x
push mine new
push mine hf://nonsense
push mine --to ftp://host/x
copy
copy mine
copy nowhere new
copy mine notes.txt
copy mine full
copy mine mine/inside
copy mine new --format xml
copy mine new --where nonsense
copy mine new --where 'task=nosuch'
copy mine gs://
copy mine s3://b --option endpoint=http://127.0.0.1:9
split mine empty
split mine parts
split mine parts --part train
split mine parts --part train=2
split mine parts --part train=0.5 --part train=0.5
split nowhere parts --part a=0.5
split mine parts --part a=0.5 --together nosuch
import
import nowhere --out new
import notes.txt --out new
import empty --out new
import mine --out new
import bad.json --out new --from nosuch
import bad.json --out new --from atif
import bad.json --out new --format xml
export
export mine
export mine --format nosuch --out x
export mine --format openai --out x
train export mine --format nosuch --out x
export nowhere --format atif --out x
export mine --format atif
export mine --format atif --out notes.txt
export mine --format atif --out full
export mine --format atif --out x --set nosuch=1
export mine --format atif --out x --where nonsense
export mine --format atif --out x --id nosuch
train export mine --format openai --out x --val-split 2
train export mine --format openai --out x --loss-weights nosuch
train export mine --format openai --out x --then nosuch
train preview nowhere
train preview notes.txt
train preview empty
judge run
judge run mine
judge run mine --judge nosuch
judge run nowhere --judge environment
judge run mine --judge rules:nowhere.yaml
judge run mine --judge rules:notes.txt
judge run mine --judge rules:bad.json
judge run mine --judge model
judge run mine --judge model --model gpt-5
judge run mine --judge environment --when sometimes
judge run mine --judge environment --set nosuch=1
judge run mine --judge environment --parallel 0
judge run mine --judge environment --where nonsense
judge run mine --judge brief --import own.py
judge eval mine --judge environment --labels nowhere.jsonl
judge eval mine --judge environment --labels bad.json
judge eval mine
judge rerun mine
judge rerun mine nosuch
judge rerun mine 0 --judge nosuch
postprocess
postprocess --read mine
postprocess --read nowhere --write new
postprocess --read mine --write new --step nosuch
postprocess --read mine --write mine --step clean
postprocess --read mine --write new --step judge
postprocess --read mine --write new --step judge --model gpt-5
postprocess --read mine --write new --step clean --model gpt-5
postprocess --config nowhere.yaml
postprocess --config bad.json
postprocess nosuch=1
train
train --model nowhere --data nowhere --out out
train --model empty --data mine --out out
train --config nowhere.yaml
train nosuch=1
train update
train update --config-name nosuch
train update --config-name update_online save_path=s3://b/x
train update save_path=s3://b/x
loop
loop --config nowhere.yaml
loop --config notes.txt
loop --config bad.json
loop --resume nowhere
loop nosuch=1
serve
serve empty --dtype nosuch
apps install nosuch
apps open nosuch
apps check nosuch
apps tasks nosuch --out x.jsonl
apps remove nosuch
mcp --preset nosuch
mcp --start nonsense
mcp --preset miniwob/click-test --start http://127.0.0.1:9/
openenv serve
openenv serve nosuch
openenv serve miniwob/click-test --dialect nosuch
openenv manifest
openenv manifest nosuch --out x
openenv manifest miniwob/click-test --out x --episodes 0
otel
otel nowhere
otel mine --endpoint nonsense
otel mine --endpoint http://127.0.0.1:9/ --where nonsense
doctor extra
rollout --preset tasks.jsonl --agent random --agent-set ends=99999999999999999999999
serve nowhere/model
serve empty --port 99999999
"""

ENVIRONMENT = {
    "AWS_EC2_METADATA_DISABLED": "true",
    "COLUMNS": "100",
    "HF_HUB_OFFLINE": "1",
    "NO_COLOR": "1",
    "RAY_USAGE_STATS_ENABLED": "0",
}
UNSET = re.compile(
    r"AWS_.*KEY.*|.*_API_KEY|SAVE_S3_URI|SOURCE_S3_URI|WEBTRAJ_.*|(WAYLAND_)?DISPLAY"
)
TO_GIVE = re.compile(r"--[a-z]|'[A-Z_]+'|\b[A-Z]{4,}\b|[Cc]ommand|\bset [a-z_.]+\b")
"""What a message names that asks for something missing."""


class _Once:
    """An environment of two steps."""

    async def reset(self):
        return dm_env.restart({"text": "a"})

    async def step(self, action):
        return dm_env.termination(1.0, {"text": "b"})


async def _record() -> None:
    webtraj.register("own/once", tasks=["one"])(lambda tasks, seed=0: _Once())
    for out, run in (("mine", None), ("damaged", None), ("runs", "one"), ("runs", "two")):
        if run is None:
            async with webtraj.JsonTrajectoryCollector(out) as collector:
                env = webtraj.TrajectoryCollectingEnvironment(_Once(), collector)
                await env.reset()
                await env.step("look")
                await env.close()
        else:
            await collect(
                RunSpec(preset="own/once", episodes=1, out=out), agent=lambda _: "look", run_id=run
            )


def _make_files() -> None:
    """Fill the current folder."""
    asyncio.run(_record())
    for file in Path("damaged/episodes").glob("*.json"):
        file.write_text(file.read_text().replace("look", "leap"))
    for folder in ("empty", "full"):
        Path(folder).mkdir()
    Path("full/photo.jpg").write_bytes(b"jpg")
    Path("notes.txt").write_text("Buy lamps.\n")
    Path("own.py").write_text("import webtraj\n")
    for name in ("bad.json", "bad.jsonl"):
        Path(name).write_text('{"goal": \n')
    row = {"name": "cake", "goal": "Find the cake.", "start_url": "http://127.0.0.1:9/"}
    Path("tasks.jsonl").write_text(json.dumps(row))


def answer(line: str) -> tuple[int, str]:
    """Run a command line in this process; return its exit status and all that it printed."""
    said = io.StringIO()
    with (
        mock.patch.object(sys, "argv", ["webtraj", *shlex.split(line)]),
        mock.patch.object(sys, "stdin", io.StringIO()),
        contextlib.redirect_stdout(said),
        contextlib.redirect_stderr(said),
    ):
        try:
            app.main()
            status = 0
        except SystemExit as ended:
            status = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    return status, said.getvalue().strip()


def fault(line: str, status: int, said: str) -> str:
    """Return what is wrong with an answer to a wrong line; empty if nothing is."""
    shown = " ".join(said.split())
    if status == 0:
        return "it was accepted"
    if "Traceback" in shown or "This is a bug" in shown:
        return "a traceback"
    if not shown:
        return "no message"
    words = re.findall(r"[^\s=:,'\"\[\]]+", line.partition(" ")[2])
    if not (any(word in shown for word in words) or TO_GIVE.search(shown)):
        return "it names no input"
    return ""


def sweep(lines: Iterable[str]) -> list[str]:
    """Run lines in a new folder and print the answers; return the lines with a fault."""
    faulty = []
    settings = {name: value for name, value in os.environ.items() if not UNSET.fullmatch(name)}
    with (
        tempfile.TemporaryDirectory() as folder,
        mock.patch.dict(os.environ, settings | ENVIRONMENT, clear=True),
        contextlib.chdir(folder),
    ):
        _make_files()
        for line in lines:
            status, said = answer(line)
            wrong = fault(line, status, said)
            print(f"{'FAIL (' + wrong + ') ' if wrong else ''}[{status}] webtraj {line}")
            print("".join(f"    {row}\n" for row in said.splitlines()), flush=True)
            faulty += [line] if wrong else []
    return faulty


def main(words: list[str]) -> None:
    """Run the lines that contain one of the words; all without words."""
    lines = [line for line in LINES.strip().splitlines() if line]
    chosen = [line for line in lines if not words or any(word in line for word in words)]
    faulty = sweep(chosen)
    print(f"{len(chosen)} wrong lines, {len(faulty)} with a wrong answer.")
    sys.exit(bool(faulty))


if __name__ == "__main__":
    main(sys.argv[1:])
