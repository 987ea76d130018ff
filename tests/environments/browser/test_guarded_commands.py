"""A guarded command runs once, not at all after it was aborted, and as long as its parent."""

import subprocess
import sys
import threading
import time

import pytest

from webtraj.environments.browser.processes import RunFolder, process_alive


@pytest.fixture
def folder(monkeypatch, tmp_path):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    folder = RunFolder()
    yield folder
    folder.remove()


def test_the_program_gets_its_arguments_and_leads_a_group_of_its_own(folder):
    command = folder.guard("/bin/sh")
    told = subprocess.run(
        [command.path, "-c", 'echo "$0 $1" $$; ps -o pgid= -p $$', "a b", "c"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    assert told[:3] == ["a", "b", "c"]
    assert told[3] == told[4] == str(command.pid)


def test_an_aborted_command_never_starts(folder, tmp_path):
    command = folder.guard("/bin/touch")
    command.abort()
    command.abort()
    assert subprocess.run([command.path, tmp_path / "touched"], check=False).returncode == 1
    assert not (tmp_path / "touched").exists()


def test_nothing_starts_once_the_folder_is_gone(folder, tmp_path):
    command = folder.guard("/bin/touch")
    copy = tmp_path / "copy"
    copy.write_text(command.path.read_text())
    folder.remove()
    command.abort()
    result = subprocess.run(
        ["/bin/sh", copy, tmp_path / "touched"], capture_output=True, check=False
    )
    assert result.returncode != 0
    assert not (tmp_path / "touched").exists()


def test_aborting_kills_what_was_started(folder):
    command = folder.guard("/bin/sh")
    process = subprocess.Popen(
        [command.path, "-c", "echo up; read forever"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with process:
        assert process.stdout.readline() == "up\n"
        assert process_alive(command.pid)
        command.abort()
        assert process.wait() == -9


SLEEPER = """
import subprocess, sys
process = subprocess.Popen([sys.argv[1], "-c", "echo $$; read forever"], stdin=subprocess.PIPE)
sys.stdin.read()
"""


def test_a_command_started_in_a_thread_outlives_the_thread_and_says_how_it_ended(folder):
    command = folder.guard("/bin/sh", by_thread=True)
    started = []

    def start():
        started.append(
            subprocess.Popen(
                [command.path, "-c", "echo up; read word; exit 7"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
        )
        assert started[0].stdout.readline() == "up\n"

    thread = threading.Thread(target=start)
    thread.start()
    thread.join()
    with started[0] as process:
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.5)
        process.communicate("go\n")
        assert process.returncode == 7


def test_a_command_started_in_a_thread_ends_with_its_process(folder, tmp_path):
    command = folder.guard("/bin/sh", by_thread=True)
    parent = subprocess.Popen(
        [sys.executable, "-c", SLEEPER, command.path],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with parent:
        program = int(parent.stdout.readline())
        assert program != command.pid
        parent.kill()
    for pid in (program, command.pid):
        while process_alive(pid):
            time.sleep(0.05)
