"""`webtraj rollout` from end to end: a real browser, a real dataset, real signals."""

import collections
import contextlib
import os
import signal
import subprocess
import sys
import time

import psutil
import pytest

from processes import browsers, descendants
from webtraj import EndReason, Outcome, open_dataset
from webtraj.datasets.verification import verify

pytestmark = [pytest.mark.browser, pytest.mark.slow]

WAIT = 60.0
"""Seconds that a starting browser may take on a busy machine."""


def command(out, *arguments):
    return [sys.executable, "-m", "webtraj", "rollout", "--out", str(out), *arguments]


def run(out, *arguments):
    return subprocess.run(
        command(out, *arguments), capture_output=True, text=True, timeout=120, check=True
    )


def seeds_and_outcomes(dataset):
    return {(t.info.task, t.info.seed, t.outcome, t.num_steps) for t in dataset}


def test_oracle_solves_what_it_plays(tmp_path):
    presets = ("--preset", "miniwob/click-test", "--preset", "miniwob/login-user")
    done = run(
        tmp_path / "data", *presets, "--agent", "oracle", "--episodes", "6", "--parallel", "3",
        "--format", "pb.zst", f"metrics.tensorboard={tmp_path / 'events'}",
    )  # fmt: skip
    dataset = open_dataset(tmp_path / "data")
    assert len(list((tmp_path / "data" / "episodes").glob("*.pb.zst"))) == 6
    (events,) = (tmp_path / "events").glob("*/events.out.tfevents.*")
    assert b"rollout/success_rate" in events.read_bytes()
    assert collections.Counter((t.info.task, t.outcome) for t in dataset) == {
        ("miniwob/click-test", Outcome.SUCCESS): 3,
        ("miniwob/login-user", Outcome.SUCCESS): 3,
    }
    assert all(t.total_reward == 1.0 and t.terminated for t in dataset)
    assert all(t.info.policy == "oracle" and t.info.goal for t in dataset)
    assert all(step.decision is not None for t in dataset for step in t.steps[1:])
    rows = {line.split()[0]: line.split() for line in done.stdout.splitlines() if line.strip()}
    assert rows["miniwob/login-user"][1:4] == ["3", "3/3", "(100%)"]
    assert rows["all"][1:4] == ["6", "6/6", "(100%)"]


def test_random_agent_plays_the_same_again_however_many_at_a_time(tmp_path):
    arguments = ("--preset", "miniwob/click-test-2", "--agent", "random", "--episodes", "6")
    run(tmp_path / "one", *arguments, "--seed", "5", "--parallel", "1")
    run(tmp_path / "many", *arguments, "--seed", "5", "--parallel", "4")
    one, many = (open_dataset(tmp_path / name) for name in ("one", "many"))
    assert len(one) == 6
    assert seeds_and_outcomes(one) == seeds_and_outcomes(many)
    assert {t.info.goal for t in one} == {t.info.goal for t in many}


@pytest.mark.parametrize(
    ("signum", "to_whom"), [(signal.SIGINT, "group"), (signal.SIGTERM, "process")]
)
def test_signal_ends_it_in_good_order(signum, to_whom, tmp_path):
    out = tmp_path / "data"
    rollout = psutil.Popen(
        command(out, "--preset", "miniwob/click-checkboxes-transfer", "--agent", "random",
                "--episodes", "100000", "--parallel", "3"),
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    try:
        wait_for_episodes(out, rollout)
        children = descendants(rollout.pid)
        assert browsers(rollout.pid)
        # A terminal's Ctrl-C goes to the whole group, the browser's driver among it.
        os.killpg(rollout.pid, signum) if to_whom == "group" else rollout.send_signal(signum)
        stdout, stderr = rollout.communicate(timeout=WAIT)
    finally:
        if rollout.poll() is None:
            rollout.kill()
    assert rollout.returncode == 128 + signum
    assert "Traceback" not in stderr
    assert f"ended by {signum.name}" in stdout
    _, alive = psutil.wait_procs(children, timeout=WAIT)
    assert not alive
    dataset = open_dataset(out)
    reasons = collections.Counter(trajectory.end_reason for trajectory in dataset)
    assert set(reasons) <= {EndReason.TERMINATED, EndReason.TRUNCATED, EndReason.CANCELLED}
    assert 1 <= reasons[EndReason.CANCELLED] <= 3
    assert not dataset.open_episodes
    assert verify(out).clean
    played = len(dataset) - reasons[EndReason.CANCELLED]
    assert f"{played} of 100000 episodes are in" in stdout


@pytest.mark.gate
def test_killed_browser_costs_its_own_episodes_and_the_rollout_goes_on(tmp_path):
    out = tmp_path / "data"
    rollout = psutil.Popen(
        command(out, "--preset", "miniwob/click-checkboxes-transfer", "--agent", "random",
                "--episodes", "24", "--parallel", "2"),
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        wait_for_episodes(out, rollout)
        for browser in browsers(rollout.pid):
            with contextlib.suppress(psutil.NoSuchProcess):
                browser.kill()
        stdout, stderr = rollout.communicate(timeout=WAIT)
    finally:
        if rollout.poll() is None:
            rollout.kill()
    assert rollout.returncode == 0, stderr
    dataset = open_dataset(out)
    errored = [t for t in dataset if t.end_reason is EndReason.ERRORED]
    assert len(dataset) == 24
    assert 1 <= len(errored) <= 4
    assert all(t.outcome is Outcome.ENV_ERROR for t in errored)
    assert f"errored {len(errored)}" in stdout
    assert verify(out).clean


def wait_for_episodes(out, rollout):
    deadline = time.monotonic() + WAIT
    while not (out / "episodes").is_dir() or len(list((out / "episodes").iterdir())) < 4:
        assert rollout.poll() is None, rollout.communicate()
        assert time.monotonic() < deadline, "no episodes were recorded"
        time.sleep(0.05)
