"""People who come from WebGym type its documents' lines: roll out, prepare, train, serve, again.

The lines are those of its `rollout_script.rst` and `update_script.rst`, typed into a shell in a new
folder. `llamafactory-cli` and vLLM are stand-ins here; `make test-llamafactory` runs the real one.
"""

import contextlib
import io
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from webtraj import open_dataset
from webtraj import trajectory as trajectory_lib
from webtraj.cli.app import main
from webtraj.datasets.writer import DatasetWriter
from webtraj.environments import actions as a
from webtraj.trajectory import (
    Decision,
    EndReason,
    EpisodeEnd,
    EpisodeInfo,
    ModelCall,
    Outcome,
    StepRecord,
    StepType,
)

BASE = "Qwen/Qwen3-VL-8B-Instruct"

TRAINER = """
import json, os, pathlib, pickle, struct, sys, zipfile
import yaml


def model(folder, value):
    header = json.dumps({"w": {"dtype": "U8", "shape": [1], "data_offsets": [0, 1]}}).encode()
    folder.mkdir(parents=True, exist_ok=True)
    content = struct.pack("<Q", len(header)) + header + bytes([value])
    (folder / "model.safetensors").write_bytes(content)
    (folder / "config.json").write_text('{"model_type": "qwen3_vl"}')


def state(folder, step):
    (folder / "trainer_state.json").write_text(json.dumps({"global_step": step}))


def main():
    told = yaml.safe_load(pathlib.Path(sys.argv[2]).read_text())
    rows = json.loads((pathlib.Path(told["dataset_dir"]) / "finetune_train.json").read_text())
    assert rows
    output = pathlib.Path(told["output_dir"])
    begin = 0
    if "resume_from_checkpoint" in told:
        resumed = pathlib.Path(told["resume_from_checkpoint"])
        begin = json.loads((resumed / "trainer_state.json").read_text())["global_step"]
        assert (resumed / "optimizer.pt").exists()
    step = told.get("max_steps", begin + 4)
    print("project", os.environ["WANDB_PROJECT"], "from", begin, "to", step)
    checkpoint = output / f"checkpoint-{step}"
    model(checkpoint, step)
    state(checkpoint, step)
    (checkpoint / "optimizer.pt").write_bytes(b"o")
    with zipfile.ZipFile(checkpoint / "scheduler.pt", "w") as file:
        rates = {"base_lrs": [told["learning_rate"]], "last_epoch": step}
        file.writestr("scheduler/data.pkl", pickle.dumps(rates, protocol=2))
        file.writestr("scheduler/version", "3\\n")
    if os.environ.get("KILLED"):
        sys.exit(9)
    model(output, step)
    state(output, step)


main()
"""
FAKE_TORCH = """
class cuda:
    device_count = staticmethod(lambda: 0)
    is_bf16_supported = staticmethod(lambda: False)
"""


def record(save_path, iteration, *, model=BASE, outcome=Outcome.SUCCESS, episodes=6):
    """Writes what a rollout records: episodes of two steps, of a model that was asked."""
    place = Path(save_path) / "train_trajectories" / f"iteration_{iteration:04d}"
    with DatasetWriter(place) as writer:
        for number in range(episodes):
            site = f"site {iteration}.{number}"
            records = [StepRecord(0, StepType.FIRST, {"axtree": f"{site}, page 0"})]
            for step in (1, 2):
                text = f"Task {iteration}.{number}, step {step}: which button?"
                action = a.Click(str(step))
                call = ModelCall(
                    model=model, messages=({"role": "user", "content": text},),
                    text=f"Action: click('{step}')", response={"choices": []},
                )  # fmt: skip
                calls = (call,) if model else ()
                records.append(
                    StepRecord(
                        step, StepType.LAST if step == 2 else StepType.MID,
                        {"axtree": f"{site}, page {step}"}, action=action, reward=float(step == 2),
                        discount=float(step != 2),
                        decision=Decision(action=action, model_calls=calls),
                    )
                )  # fmt: skip
            writer.add(
                trajectory_lib.EpisodeTrajectory(
                    EpisodeInfo(episode_id=f"i{iteration}e{number}", task=f"t{number}", goal="go"),
                    tuple(records),
                    EpisodeEnd(reason=EndReason.TERMINATED, outcome=outcome),
                )
            )


class Shell:
    """A shell in a folder, in which `llamafactory-cli` is on the PATH."""

    def __init__(self, folder, monkeypatch):
        self.folder = folder
        self._monkeypatch = monkeypatch

    def __call__(self, lines, *, code=0, at=None, **variables):
        """Runs lines, and returns what they print. webtraj's run in this process: it is faster."""
        at = at or self.folder
        if lines.startswith("webtraj "):
            told = io.StringIO()
            with contextlib.chdir(at), self._monkeypatch.context() as patched:
                patched.setattr(sys, "argv", shlex.split(lines))
                with contextlib.redirect_stdout(told), contextlib.redirect_stderr(told):
                    try:
                        main()
                        ended = 0
                    except SystemExit as error:
                        ended = error.code or 0
            assert ended == code, told.getvalue()
            return told.getvalue()
        done = subprocess.run(
            ["bash", "-ec", lines], cwd=at, env={**os.environ, **variables},
            capture_output=True, text=True, timeout=200, check=False,
        )  # fmt: skip
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout + done.stderr


@pytest.fixture
def bin_folder(tmp_path):
    """What `pip install llamafactory` leaves: a command, and a Python beside it."""
    folder, packages = tmp_path / "llama" / "bin", tmp_path / "llama" / "lib"
    folder.mkdir(parents=True)
    (packages / "llamafactory-0.9.5.dist-info").mkdir(parents=True)
    about = packages / "llamafactory-0.9.5.dist-info" / "METADATA"
    about.write_text("Metadata-Version: 2.1\nName: llamafactory\nVersion: 0.9.5\n")
    (packages / "torch.py").write_text(FAKE_TORCH)
    (packages / "trainer.py").write_text(TRAINER)
    python = folder / "python"
    python.write_text(
        f'#!/bin/sh\nPYTHONPATH={shlex.quote(str(packages))} exec {sys.executable} "$@"\n'
    )
    command = folder / "llamafactory-cli"
    command.write_text(
        f'#!/bin/sh\nexec {sys.executable} {shlex.quote(str(packages / "trainer.py"))} "$@"\n'
    )
    for file in (python, command):
        file.chmod(0o755)
    return folder


@pytest.fixture
def shell(tmp_path, bin_folder, monkeypatch):
    folder = tmp_path / "my work"  # People have spaces in their folders.
    folder.mkdir()
    for name in ("WEBTRAJ_LLAMAFACTORY_PYTHON", "WEBTRAJ_VLLM_PYTHON"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PATH", f"{bin_folder}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    return Shell(folder, monkeypatch)


def config_of(save_path):
    return yaml.safe_load((save_path / "llamafactory_data" / "train_config.yaml").read_text())


BY_HAND = """
source llamafactory_data/wandb_env.sh
llamafactory-cli train llamafactory_data/train_config.yaml
"""
"""The document's own lines, which it runs in `<save_path>`."""


@pytest.mark.parametrize("published_by", ["the next update", "update --publish"])
@pytest.mark.slow
def test_a_training_run_by_hand_is_published_and_the_next_one_resumes_it(shell, published_by):
    runs = shell.folder / "runs"
    record(runs, 1)
    said = shell(f"webtraj train update save_path=runs policy_config.base_model={BASE}")
    assert "llamafactory-cli train" in said
    assert "webtraj train update --publish save_path=runs" in said
    assert config_of(runs)["model_name_or_path"] == BASE
    assert "project webtraj from 0 to 4" in shell(BY_HAND, at=runs)
    assert not (runs / "model.pt").exists()
    if published_by == "update --publish":
        said = shell("webtraj train update --publish save_path=runs/")
        assert "Published" in said
        assert (runs / "model.pt" / "model.safetensors").read_bytes()[-1] == 4
        assert "up to date" in shell("webtraj train update --publish save_path=runs")
    record(runs, 2)
    said = shell("webtraj train update save_path=runs")
    told = config_of(runs)
    assert told["model_name_or_path"] == str(runs / "model.pt")
    assert "resumes the optimizer" in said
    assert ("published:" in said) == (published_by == "the next update")
    assert Path(told["resume_from_checkpoint"]).name == "checkpoint-4"
    assert told["max_steps"] > 4
    assert told["template"] == "qwen3_vl_nothink"
    shell(BY_HAND, at=runs)
    shell("webtraj train update --publish save_path=.", at=runs)
    assert (runs / "model.pt" / "model.safetensors").read_bytes()[-1] == told["max_steps"]


def test_a_training_that_died_is_never_published_and_never_forgotten(shell):
    runs = shell.folder / "runs"
    record(runs, 1)
    shell("webtraj train update save_path=runs")
    shell(BY_HAND, at=runs, code=9, KILLED="1")
    assert "has not finished" in shell("webtraj train update --publish save_path=runs", code=1)
    assert "not used: the training in" in shell("webtraj train update save_path=runs")
    assert config_of(runs)["model_name_or_path"] == BASE
    assert not (runs / "model.pt").exists()


def test_a_refused_update_leaves_everything_as_it_was(shell):
    runs = shell.folder / "runs"
    record(runs, 1)
    shell("webtraj train update save_path=runs")
    log = runs / "llamafactory_data" / "train.log"
    logged = "llamafactory-cli train train_config.yaml > train.log"
    shell(logged, at=log.parent, WANDB_PROJECT="p")
    files = {path: path.read_bytes() for path in runs.rglob("*") if path.is_file()}
    shell("webtraj train update save_path=runs algorithm_config.extra={stage: dpo}", code=2)
    left = {path: path.read_bytes() for path in runs.rglob("*") if path.is_file()}
    assert {path: data for path, data in left.items() if "model.pt" not in path.parts} == files
    shell("webtraj train update save_path=runs")
    assert log.read_bytes() == files[log]
    fresh = shell.folder / "fresh"
    record(fresh, 1)
    shell("webtraj train update save_path=fresh algorithm_config.extra={stage: dpo}", code=2)
    assert sorted(path.name for path in fresh.iterdir()) == ["train_trajectories"]


@pytest.mark.parametrize(
    ("outcome", "said"),
    [
        pytest.param(Outcome.UNKNOWN, "not judged", id="unknown"),
        pytest.param(Outcome.FAILURE, "not successful", id="failed"),
    ],
)
def test_episodes_that_nobody_judged_are_not_called_failures(shell, outcome, said):
    record(shell.folder / "runs", 1, outcome=outcome)
    told = shell("webtraj train update save_path=runs", code=2)
    assert f"{said}: 6" in told
    other = {"not judged", "not successful"} - {said}
    assert not any(f"{name}: " in told for name in other)
    assert ("judge=" in told) == (outcome is Outcome.UNKNOWN)


def test_serving_publishes_only_what_llamafactory_trained_there(shell):
    """Beside the runs there are other folders of models, which are nobody's to replace."""
    runs = shell.folder / "runs"
    record(runs, 1)
    shell("webtraj train update save_path=runs")
    shell(BY_HAND, at=runs)
    for name in ("base", "copy.pt"):
        shutil.copytree(next(runs.glob("checkpoints/*/checkpoint-4")), runs / name)
    files = {path: path.read_bytes() for path in runs.rglob("*") if path.is_file()}
    for name in ("base", "copy.pt"):  # There is no such Python, so nothing is served.
        shell(f"webtraj serve runs/{name} --python ./none", code=2)
    assert {path: path.read_bytes() for path in runs.rglob("*") if path.is_file()} == files
    assert "Published" in shell("webtraj serve runs/model.pt --python ./none", code=2)
    assert (runs / "model.pt" / "model.safetensors").read_bytes()[-1] == 4


PLAYER = """
import re, signal, sys
from webtraj.testing.model_server import FakeModelServer


def reply(request):
    page = request.text.rpartition("Page:")[2]
    if field := re.search(r"\\[(\\d+)\\] textbox(?!.*value=)", page):
        text = re.search(r'Enter "(.*?)"', request.text)[1]
        return f"Thought: I type it.\\nAction: fill('{field[1]}', '{text}')"
    button = re.search(r"\\[(\\d+)\\] button", page)
    return f"Thought: I send it.\\nAction: click('{button[1]}')"


def serve(names, port):
    server = FakeModelServer(reply, models=names)
    server._port = port
    server.start()
    print(server.url, flush=True)
    signal.pause()


arguments = sys.argv[1:]
options = dict(one[2:].split("=", 1) for one in arguments if one[:2] == "--" and "=" in one)
first = arguments.index("--served-model-name") + 1
names = []
for name in arguments[first:]:
    if name.startswith("--"):
        break
    names.append(name)
serve(names, int(options["port"]))
"""
"""Stands in for vLLM: takes its command line, and plays a task of two steps."""

ROLLOUT = (
    "webtraj rollout --config-name rollout_train env_config.train_tasks=miniwob/enter-text "
    "env_config.attempts_per_task=2 env_config.server_size=2 env_config.max_retries=0 "
    "context_config.interaction_mode=text model_config.prompt_version=plain "
    "env_config.train_tasks_rollout_size=1 env_config.completion_threshold=1.0 "
)


@contextlib.contextmanager
def running(command, **options):
    """Gives a server's first line, and ends the server."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, **options)
    try:
        lines = iter(process.stdout.readline, "")
        yield next(line for line in lines if "http://" in line)
    finally:
        process.terminate()
        process.communicate(timeout=60)


@pytest.mark.slow
@pytest.mark.browser
@pytest.mark.timeout(600)
def test_the_chain_of_the_documents_from_a_rollout_to_a_rollout_of_what_was_trained(
    shell, tmp_path
):
    player = tmp_path / "player.py"
    player.write_text(PLAYER)
    vllm = tmp_path / "vllm-python"
    vllm.write_text(f'#!/bin/sh\nexec {sys.executable} {shlex.quote(str(player))} "$@"\n')
    vllm.chmod(0o755)
    runs = shell.folder / "runs"
    base = [vllm, "--port=0", "--served-model-name", BASE, "--"]
    with running(base) as url:
        url = url.strip().removesuffix("/v1")
        told = f"policy_config.base_model={BASE} env_config.vllm_server_url={url}"
        subprocess.run(
            shlex.split(f"{sys.executable} -m webtraj {ROLLOUT[8:]} save_path=runs {told}"),
            cwd=shell.folder, check=True,
        )  # fmt: skip
    assert "starts from Qwen/Qwen3-VL-8B-Instruct" in shell("webtraj train update save_path=runs")
    shell(BY_HAND, at=runs)
    serve = [sys.executable, "-m", "webtraj", "serve", "runs/model.pt", "--python", vllm]
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    with running(serve, cwd=shell.folder) as line:
        url = re.search(r"http://[^/]+", line)[0]
        for at, save_path in ((shell.folder, "runs"), (elsewhere, "../my work/runs/")):
            told = f"'save_path={save_path}' env_config.vllm_server_url={url}"
            subprocess.run(
                shlex.split(f"{sys.executable} -m webtraj {ROLLOUT[8:]} {told}"),
                cwd=at, check=True,
            )  # fmt: skip
    for iteration in (1, 2, 3):
        played = open_dataset(runs / "train_trajectories" / f"iteration_000{iteration}")
        assert [episode.outcome for episode in played] == [Outcome.SUCCESS] * 2
    assert "resumes the optimizer" in shell("webtraj train update save_path=runs/")
