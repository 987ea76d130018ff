"""`webtraj postprocess`, with real models' servers, configurations and steps of one's own."""

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
import textwrap
import time

import pytest
import typer
from processing_support import contents, index_lines, ledger_lines, record
from typer.testing import CliRunner

from rows import each
from webtraj import errors, open_dataset
from webtraj.cli.postprocess import postprocess
from webtraj.cli.signals import SignalReceivedError
from webtraj.datasets.verification import verify
from webtraj.datasets.writer import DatasetWriter
from webtraj.environments import actions
from webtraj.processing import configuration, registry
from webtraj.processing.base import Drop
from webtraj.processing.pipeline import Pipeline
from webtraj.testing.model_server import FakeModelServer, Reply
from webtraj.trajectory import (
    EndReason,
    EpisodeEnd,
    EpisodeInfo,
    EpisodeTrajectory,
    Outcome,
    StepRecord,
    StepType,
)

COMMAND = "import typer; from webtraj.cli.postprocess import postprocess; typer.run(postprocess)"


@pytest.fixture
def run():
    app = typer.Typer()
    app.command()(postprocess)

    def run(*arguments, code=0):
        result = CliRunner().invoke(app, list(map(str, arguments)))
        if isinstance(result.exception, errors.WebtrajError):
            raise result.exception
        assert result.exit_code == code, result.output
        return result.output

    return run


@pytest.fixture
def raw(tmp_path):
    return record(tmp_path / "raw", range(10))


def web_episode(number, *, steps=3):
    """Returns an episode of a browser, of which the last action is an answer."""
    records = []
    for index in range(steps + 1):
        seen = {
            "url": f"http://shop.test/{number}/{index}",
            "axtree": f'[1] heading "Lamp {number}"\n[2] text "page {index}"',
        }
        last = index == steps
        action = actions.Answer(f"{number} dollars") if last else actions.Click("2")
        kind = StepType.LAST if last else StepType.MID if index else StepType.FIRST
        records.append(
            StepRecord(index, kind, seen, action, 0.0, float(not last))
            if index
            else StepRecord(0, kind, seen)
        )
    info = EpisodeInfo(episode_id=f"w{number:03}", task="lamp", goal=f"Find the price of {number}.")
    end = EpisodeEnd(reason=EndReason.TERMINATED)
    return EpisodeTrajectory(info, tuple(records), end, start_time=1000.0 + number)


def answer(request):
    """Judges and describes, always the same of the same, and not at once."""
    asked = request.text
    if "description" in asked.lower().split("verdict")[0]:
        reply = {"description": "It opens the page.", "thought": "I look for a price."}
    else:
        verdict = "open" if "Did the site keep the agent" in asked else "success"
        reply = {"reasoning": "It was seen.", "verdict": verdict}
    return Reply(json.dumps(reply), delay=0.02)


def episodes_in(folder):
    return {path.stem for path in (folder / "episodes").glob("[!.]*")}


@pytest.mark.slow
@pytest.mark.gate
def test_the_default_pipeline_with_a_model_is_killed_and_goes_on(tmp_path, run):
    raw, out, calm = tmp_path / "raw", tmp_path / "out", tmp_path / "calm"
    with DatasetWriter(raw) as writer:
        for number in range(7):
            writer.add(web_episode(number, steps=1 if number == 5 else 3))
    with FakeModelServer(answer, vendor="openai") as server:
        told = ["--read", raw, "--model", "fake-model", "--provider", "openai"]
        told += ["--base-url", server.url, "--parallel", "2", "--set", "clean.min_steps=2"]
        shown = run(*told, "--write", calm)
        assert len(server.requests) >= 30
        written: list[tuple[int, set[str]]] = []
        for many in (1, 3):
            child = subprocess.Popen(
                [sys.executable, "-c", COMMAND, *map(str, told), "--write", str(out)],
                stdout=subprocess.DEVNULL,
            )
            while len(episodes_in(out)) < many and child.poll() is None:
                time.sleep(0.005)
            child.send_signal(signal.SIGKILL)
            assert child.wait() == -signal.SIGKILL
            written.append((len(server.requests), episodes_in(out)))
        assert 3 <= len(written[-1][1]) < 6
        run(*told, "--write", out)
        assert not server.errors
        numbers = [int(re.search(r"price of (\d+)\.", one.text)[1]) for one in server.requests]
    for since, there in written:  # What is written is not asked about again.
        assert not there & {f"w{number:03}" for number in numbers[since:]}
    assert contents(out) == contents(calm)
    assert index_lines(out) == index_lines(calm)
    assert ledger_lines(out) == ledger_lines(calm)
    assert verify(out).clean
    made = open_dataset(out)
    assert len(made) == 6
    for one in made:
        assert one.outcome is Outcome.SUCCESS
        assert one.end.judgements[0].model_calls
        assert one.steps[1].decision.metadata["description"] == "It opens the page."
        chain = {derivation.step: derivation for derivation in one.info.derivation}
        assert list(chain) == ["pipeline", "judge", "describe"]
        assert chain["judge"].model.endswith("fake-model")
        assert len(chain["describe"].prompt_sha256) == 64
    assert "too short 1" in shown
    assert "6 episodes from 7 recorded (1 dropped, 0 failed); 7 processed now" in shown


def test_names_of_the_source_script_are_taken(raw, tmp_path, run):
    out = tmp_path / "out"
    shown = run(
        "--read-s3-dir", raw, "--write-s3-dir", out, "--step", "clean:1", "--set",
        "clean.min_steps=2",
    )  # fmt: skip
    assert "too short 1" in shown
    assert len(open_dataset(out)) == 9


def test_a_configuration_says_it_all(raw, tmp_path, run):
    config = tmp_path / "pipeline.yaml"
    config.write_text(
        textwrap.dedent(f"""
            read_s3_dir: {raw}
            write_s3_dir: {tmp_path}/out
            verbose: false
            where: "task != 't2'"
            format: pb
            steps:
              - clean: {{min_steps: 2}}
              - filter-task: {{tasks: ["t*"]}}
              - dedupe
        """)
    )
    run("--config", config)
    assert {one.format for one in open_dataset(tmp_path / "out").summaries} == {"pb"}
    run("--config", config, "--write", tmp_path / "json", "--format", "json", "--step", "clean")
    assert {one.format for one in open_dataset(tmp_path / "json").summaries} == {"json"}


@each(
    ("text", "words"),
    [
        ("reed: x", "reed is unknown; did you mean read?"),
        ("bse_url: x", "bse_url is unknown; did you mean base_url?"),
        ("parallel: 0", "parallel: must be greater"),
        ("read: a\nread_s3_dir: b", "has both read_s3_dir and read"),
        ("steps: [{clean: {}, dedupe: {}}]", "one name with its options"),
        ("steps: [3]", "3 is not a step"),
        ("steps: [{redact: x}]", "These steps take a bare value"),
        ("- a", "is not a mapping"),
        ("read: ${nowhere}", "without a target"),
        ("read: [", "cannot be read as YAML"),
        ("read: !!python/object/apply:os.system [ls]", "cannot be read as YAML"),
    ],
)
def test_wrong_configurations_are_refused(tmp_path, text, words):
    path = tmp_path / "pipeline.yaml"
    path.write_text(text)
    with pytest.raises(errors.InvalidInputError, match=words.replace("[", r"\[")):
        configuration.load_config(path, {}).choices()


OWN = """
    from webtraj.processing.base import Drop
    from webtraj.processing.registry import step

    @step("only-task", version="1")
    def only_task(trajectory, *, task="t0"):
        return trajectory if trajectory.info.task == task else Drop("another task")
"""


def test_steps_of_one_s_own_are_imported_when_asked_for(raw, tmp_path, run, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own_steps_d.py").write_text(textwrap.dedent(OWN))
    arguments = ("--read", raw, "--write", "out", "--step", "only-task:task=t1")
    with pytest.raises(errors.InvalidInputError, match="No step is named 'only-task'"):
        run(*arguments)
    (tmp_path / "p.yaml").write_text("imports: [own_steps_d]\nsteps: [only-task]\n")
    with pytest.raises(errors.InvalidInputError, match="add --import own_steps_d"):
        run("--config", "p.yaml", "--read", raw, "--write", "out")
    assert "another task 7" in run(*arguments, "--import", "own_steps_d")
    assert {one.info.task for one in open_dataset("out")} == {"t1"}
    with pytest.raises(errors.InvalidInputError, match="No module named 'not_there'"):
        run(*arguments, "--import", "not_there")


@each(
    ("arguments", "words"),
    [
        (["--step", "cleen"], "Did you mean 'clean'"),
        (["--step", "clean:steps=3"], "does not take 'steps'; its options: min_steps"),
        (["--step", "clean:min_steps=few"], "min_steps"),
        (["--step", "redact:x"], "These steps take a bare value"),
        (["--step", "describe"], "model"),
        (["--step", "filter"], "needs 'where'"),
        (["--base-url", "http://127.0.0.1:9/v1"], "give model too"),
        (["--provider", "vllm"], "give model too"),
        (["--model", "m", "--step", "clean"], "--model has no effect: none of the steps clean"),
        (["--model", "m", "--step", "judge:environment"], "--model has no effect"),
        (["--read-option", "region=x"], "--read-option has no effect: it needs a bucket's URL"),
        (["--write-option", "region=x"], "--write-option has no effect"),
        (["--option", "region=x"], "--option has no effect"),
        (["--set", "judge.by=environment"], "expected STEP.KEY=VALUE"),
        (["--where", "nothing =="], "Invalid condition"),
    ],
)  # fmt: skip
def test_wrong_steps_are_refused(raw, tmp_path, run, arguments, words):
    with pytest.raises(errors.InvalidInputError, match=words):
        run("--read", raw, "--write", tmp_path / "out", *arguments)


def test_ctrl_c_says_that_it_can_go_on(raw, tmp_path, capsys):
    @registry.step("ends-it", version="1")
    async def ends_it(trajectory):
        os.kill(os.getpid(), signal.SIGINT)
        await asyncio.Event().wait()

    arguments = ("--read", raw, "--write", tmp_path / "out", "--step", "ends-it", "--parallel", 1)
    app = typer.Typer()
    app.command()(postprocess)
    with pytest.raises(SignalReceivedError):
        app(list(map(str, arguments)), standalone_mode=False)
    assert "run the same command" in capsys.readouterr().err
    assert not episodes_in(tmp_path / "out")


def test_a_function_is_a_step():
    @registry.step("test-longer-than", version="3")
    def longer_than(trajectory, least=1, *, words=("a",)):
        return trajectory if trajectory.num_steps > least else Drop("short")

    made = longer_than(least=2)
    assert (made.name, made.version, dict(made.settings)) == (
        "test-longer-than", "3", {"least": 2, "words": ("a",)},
    )  # fmt: skip
    assert made(web_episode(1, steps=2)) == Drop("short")
    assert registry.make_step("test-longer-than", {"least": 5}).settings["least"] == 5
    assert Pipeline([made]).identity.hash != Pipeline([longer_than()]).identity.hash
    with pytest.raises(errors.InvalidInputError, match="does not take 'most'"):
        longer_than(most=3)
    with pytest.raises(errors.InvalidInputError, match="A step named 'test-longer-than'"):
        registry.step("test-longer-than", version="1")(lambda trajectory: trajectory)
    with pytest.raises(errors.InvalidInputError, match="A step named 'clean'"):
        registry.step("clean", version="1")(lambda trajectory: trajectory)
    with pytest.raises(errors.InvalidInputError, match="is not a valid step name"):
        registry.step("pipeline", version="1")

    @registry.step("test-asks", version="1")
    def asks(trajectory, *, client):
        return trajectory

    with pytest.raises(errors.InvalidInputError, match="needs a model"):
        registry.make_step("test-asks")
