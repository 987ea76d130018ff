"""The commands together, their errors and exit codes."""

import io
import json
import os
import subprocess
import sys

import pytest
from rich.console import Console

from rows import each
from webtraj.cli import app as app_lib
from webtraj.cli import terminal
from webtraj.datasets.writer import DatasetWriter
from webtraj.trajectory import EndReason, EpisodeEnd, EpisodeInfo, EpisodeTrajectory


def test_help_names_every_command_and_loads_nothing_heavy(run_webtraj):
    program = (
        "import sys, webtraj.cli\n"
        "sys.argv = ['webtraj', '--help']\n"
        "try: webtraj.cli.main()\n"
        "except SystemExit: pass\n"
        "print([name for name in ('playwright', 'gymnasium', 'numpy', 'httpx', 'pydantic', 'rich',"
        " 'asyncio', 'webtraj.cli.rollout') if name in sys.modules], file=sys.stderr)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True
    )
    for command in app_lib.COMMANDS:
        assert " " in command or f"\n  {command} " in done.stdout
    assert done.stderr == "[]\n"


def test_names_in_every_script_are_printed_whatever_the_locale(tmp_path):
    info = EpisodeInfo(episode_id="one", task="ünï-日本")
    end = EpisodeEnd(reason=EndReason.CLOSED)
    with DatasetWriter(tmp_path / "runs") as writer:
        writer.add(EpisodeTrajectory(info, (), end))
    for words in (("ls",), ("ls", "--json"), ("show",)):
        done = subprocess.run(
            [sys.executable, "-m", "webtraj.cli", words[0], tmp_path / "runs", *words[1:]],
            env={**os.environ, "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
            capture_output=True, timeout=60, check=False,
        )  # fmt: skip
        assert "ünï-日本" in done.stdout.decode(), done.stderr


def test_help_groups_commands_one_per_line(call):
    _, out, _ = call("--help")
    play, look = out.index("\nPlay:\n"), out.index("\nLook:\n")
    assert play < out.index("\n  rollout ") < look < out.index("\n  ls ")
    top = [name for name in app_lib.COMMANDS if " " not in name]
    listed = out[play : out.index("\nOther packages:\n")].splitlines()
    assert len([line for line in listed if line.startswith("  ")]) == len(top)


def test_ctrl_c_before_there_is_a_command_ends_without_a_traceback():
    program = (
        "import sys, webtraj.cli\n"
        "class Impatient:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name == 'typer': raise KeyboardInterrupt\n"
        "sys.meta_path.insert(0, Impatient())\n"
        "webtraj.cli.main()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


@pytest.fixture
def call(monkeypatch, tmp_path, capsys):
    """Calls the command in this process; returns its exit code and what it printed."""

    def call(*arguments):
        monkeypatch.chdir(tmp_path)
        monkeypatch.setattr(sys, "argv", ["webtraj", *arguments])
        with pytest.raises(SystemExit) as ended:
            app_lib.main()
        return ended.value.code, *capsys.readouterr()

    return call


@each("command", app_lib.COMMANDS)
def test_each_command_explains_itself(command, call):
    code, out, _ = call(*command.split(), "--help")
    assert code == 0
    assert f"webtraj {command}" in out


def test_the_help_of_a_rollout_fits_two_screens(call, monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")
    assert len(call("rollout", "--help")[1].splitlines()) <= 100


def test_only_commands_that_take_every_setting_suggest_them(call):
    assert "step_timeout=VALUE" in call("rollout", "--step-timeout", "3")[2]
    assert "=VALUE" not in call("propose", "data", "--seed", "3")[2]


@each(
    ("arguments", "code", "words"),
    [
        (["rollout", "--preset", "miniwob/click-tset"], 2, "mean 'miniwob/click-test'"),
        (["rollout", "--preset", "miniwob/all:999"], 2, "from 0 to 124"),
        (["rollout", "--preset", "a b"], 2, "'a b'"),
        (["rollout", "--preset", "miniwob/click-test", "--agent", "oracel"], 2, "mean 'oracle'"),
        (["rollout", "--preset", "miniwob/click-test", "--episodes", "0"], 2, "got 0"),
        (["rollout", "--preset", "miniwob/click-test", "--parallel", "0"], 2, "parallel: must be"),
        (["rollout", "--preset", "miniwob/click-test", "--set", "steps"], 2, "got 'steps'"),
        (["rollout", "--preset", "miniwob/click-test", "--set", "stepz=3"], 2, "stepz=3"),
        (["rollout", "--preset", "web"], 2, "the preset 'web' has no start_url"),
        (["ls", "nowhere"], 2, "nowhere"),
        (["rollout"], 2, "--preset"),
        (["no-such-command"], 2, "no-such-command"),
    ],
)
def test_wrong_input_is_exit_code_2_without_traceback(arguments, code, words, call):
    ended, _, told = call(*arguments)
    assert ended == code, told
    assert words in told
    assert "Traceback" not in told


@pytest.mark.slow
def test_failure_is_exit_code_1_and_one_line(run_webtraj):
    env = {**os.environ, "WEBTRAJ_BROWSER": "no-such-browser"}
    done = run_webtraj("rollout", "--preset", "miniwob/click-test", env=env)
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert line.startswith("webtraj: No browser was found: WEBTRAJ_BROWSER='no-such-browser'")


@pytest.mark.slow
def test_rollout_of_nothing_but_errors_is_exit_code_1(run_webtraj, tmp_path):
    browser = tmp_path / "browser-that-dies"
    browser.write_text("#!/bin/sh\necho Chromium 1.2.3\n")
    browser.chmod(0o755)
    done = run_webtraj(
        "rollout", "--preset", "miniwob/click-test", "--episodes", "2",
        env={**os.environ, "WEBTRAJ_BROWSER": str(browser)},
    )  # fmt: skip
    assert done.returncode == 1
    assert "errored 2" in done.stdout
    assert "miniwob/click-test, attempt 1: Browser" in done.stdout
    assert "Traceback" not in done.stderr


def test_verbose_shows_the_traceback(run_webtraj):
    done = run_webtraj("-v", "ls", "nowhere")
    assert done.returncode == 2  # As without -v.
    assert "Traceback" in done.stderr
    assert "NotADatasetError" in done.stderr
    assert done.stderr.splitlines()[-1].startswith("webtraj: No dataset at 'nowhere'")


def test_verbose_shows_what_a_rollout_logs(play_corridor):
    told = play_corridor("-v", "rollout", "--out", "loud").stderr
    assert "INFO Episode " in told
    assert " of corridor: terminated, unknown, steps: 1.\n" in told
    assert "INFO Episode " not in play_corridor("rollout", "--out", "quiet").stderr


def test_presets_are_json_for_machines(call):
    code, out, _ = call("presets", "click-tab-2", "--json")
    assert code == 0
    assert {"name", "description", "num_tasks"} <= set(json.loads(out)[0])


def test_a_table_leaves_out_columns_without_a_value(capsys):
    rows = [("a", "-", "", 0), ("-", "", "-", 1), ()]
    terminal.make_console().print(terminal.make_table("one", "two", ">three", ">four", rows=rows))
    assert capsys.readouterr().out.split() == ["one", "four", "a", "0", "-", "1"]
    terminal.make_console().print(terminal.make_table("one", "two"))
    assert capsys.readouterr().out.split() == ["one", "two"]


def test_a_narrow_terminal_keeps_whole_words_and_names_the_columns_left_out(monkeypatch):
    out = io.StringIO()
    narrow = Console(file=out, width=60, force_terminal=True, color_system=None)
    monkeypatch.setattr(terminal, "make_console", lambda **_: narrow)
    columns = ("episode", "outcome", ">steps", "why", "began", "policy")
    row = ("20261128T182411-000001", "success", 12, "It was asked for, " * 3, "2026-11-28", "m" * 9)
    narrow.print(terminal.make_table(*columns, rows=[row]))
    table, _, rest = out.getvalue().partition("No room for: ")
    assert max(map(len, table.splitlines())) <= 60
    assert {"20261128T182411-000001", "success", "12", "for,"} <= set(table.split())
    assert rest.startswith("began, policy.")
