"""`webtraj view --terminal`, and the screen that it and `webtraj rollout --monitor` show."""

import contextlib
import dataclasses
import io
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import typer
from rich.console import Console
from typer.testing import CliRunner

from rows import each
from webtraj import errors
from webtraj.cli.view import view as command
from webtraj.view import Cell, RunMonitor, Writer
from webtraj.view.screen import line_of, render
from webtraj.view.status import FaultCount, OpenEpisode


def run(*arguments):
    app = typer.Typer()
    app.command()(command)
    return CliRunner().invoke(app, ["--terminal", *map(str, arguments)])


def shown(status, width=100):
    console = Console(file=io.StringIO(), width=width, markup=False, highlight=False)
    console.print(render(status, width=width))
    return console.file.getvalue()


@pytest.fixture
def hidden_index():
    """Hides an index, as if nothing had ended; gives what shows it again."""

    def hide(out):
        (Path(out) / "runs" / RunMonitor(out).run_id / "metrics.json").unlink()
        (path,) = (Path(out) / "index").glob("*.jsonl")
        hidden = path.rename(path.with_name(f".{path.name}"))
        return lambda: hidden.rename(path)

    return hide


@pytest.fixture
def status(played):
    return RunMonitor(played("climb", "slip", "crash", "climb")).look()


def test_where_its_output_is_no_terminal_it_looks_once(played):
    out = played("climb", "slip", "crash")
    done = run(out)
    assert done.exit_code == 0
    assert "3 of 3 rows done, 4 tries, success 1/2 = 50.0%" in done.stdout
    assert "the <i>ladder</i> broke" in done.stdout


def test_json_is_a_line_a_look_until_the_run_is_over(played, hidden_index):
    out = played("climb", "slip")
    show = hidden_index(out)
    once = json.loads(run(out, "--json", "--once").stdout)
    assert (once["cells"], once["is_over"]) == ("..", False)
    show()
    (line,) = run(out, "--json").stdout.splitlines()
    assert (json.loads(line)["cells"], json.loads(line)["is_over"]) == ("+-", True)


@each(
    ("arguments", "message"),
    [
        (["nowhere"], "No run in 'nowhere': the folder does not exist."),
        (["."], "No run in '.'. Give a rollout's dataset or save path."),
        ([".", "--run", "one"], "No run 'one' in '.'"),
        ([".", "nowhere"], "got 2 places"),
        ([".", "--port", "0"], "--port has no effect with --terminal"),
        ([".", "--once", "--as", "me"], "--as has no effect with --terminal"),
        ([".", "--once", "--every", "2"], "--every needs --terminal or --json, without --once"),
    ],
)  # fmt: skip
def test_wrong_input_is_named(arguments, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = run(*arguments)
    assert isinstance(done.exception, errors.InvalidInputError)
    assert message in str(done.exception)


def test_names_give_a_terminal_no_commands(status):
    evil = "\x1b[31mred\x1b]0;title\x07[bold]"
    status = dataclasses.replace(
        status,
        run_id=evil,
        trouble=evil,
        underway=(
            OpenEpisode(episode_id=evil, row=0, task=evil, site=evil, cell=Cell.ACTING, steps=1,
                        age=1.0, quiet=1.0),
        ),
        faults=(
            FaultCount(kind=evil, count=1, episode_id=evil, task=evil, message=evil, time=0.0),
        ),
    )  # fmt: skip
    text = shown(status, width=200)
    assert "\x1b" not in text
    assert "\x07" not in text
    assert text.count("\\x1b[31mred") >= 5


@each("writer", Writer)
def test_each_state_of_the_writer_is_told(status, writer):
    left = dataclasses.replace(status, writer=writer, over=3, remaining=5.0)
    assert f"({writer})" in line_of(left)
    assert ("--resume" in shown(left)) == (writer in (Writer.GONE, Writer.OVER))
    assert ("about 5 s left" in line_of(left)) == (writer is not Writer.OVER)


@pytest.mark.slow
def test_a_rollout_shows_itself_in_its_terminal_if_asked(tmp_path):
    out = tmp_path / "data"
    code = (
        "import held_rollout as held; from webtraj import registry; from webtraj.cli import app;"
        "registry.register('held/climb', held.Held, tasks=('climb',)); app.main()"
    )
    arguments = ["rollout", "--monitor", "--preset", "held/climb", "--episodes", "3", "--agent",
                 "oracle", "--out", str(out), "--set", f"gates={tmp_path}"]  # fmt: skip
    ours, theirs = os.openpty()
    environ = {**os.environ, "PYTHONPATH": str(Path(__file__).parent), "COLUMNS": "100",
               "LINES": "50", "TERM": "xterm"}  # fmt: skip
    rollout = subprocess.Popen([sys.executable, "-c", code, *arguments], env=environ,
                               stdout=subprocess.PIPE, stderr=theirs)  # fmt: skip
    os.close(theirs)
    shown = b""
    with contextlib.suppress(OSError):  # The terminal is gone when the process is.
        while chunk := os.read(ours, 65536):
            shown += chunk
    os.close(ours)
    said, _ = rollout.communicate(timeout=60)
    assert rollout.returncode == 0, shown.decode()
    assert b"3 of 3 rows done" in shown
    assert "■".encode() * 3 in re.sub(rb"\x1b\[[0-9;]*m", b"", shown)
    assert b"Playing" not in shown  # That is the bar.
    assert b"3/3 (100%)" in said
