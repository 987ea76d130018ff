"""A rollout in a real browser, watched from another process to its end, then reported of."""

import subprocess
import sys

import pytest

from webtraj import errors, open_dataset
from webtraj.metrics.comparison import subjects_of
from webtraj.metrics.page import make_report
from webtraj.view import Cell, RunMonitor


@pytest.mark.browser
@pytest.mark.slow
def test_a_rollout_in_a_browser_is_watched_and_reported_of(tmp_path, wait):
    out = str(tmp_path / "data")
    presets = ("--preset", "miniwob/click-test", "--preset", "miniwob/login-user")
    rollout = subprocess.Popen(
        [sys.executable, "-m", "webtraj", "rollout", "--out", out, *presets, "--episodes", "4",
         "--parallel", "2"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    try:
        monitor = None
        while monitor is None and rollout.poll() is None:
            try:
                monitor = RunMonitor(out)
            except errors.InvalidInputError:
                continue
        seen = set()
        wait(monitor, lambda status: seen.update(status.cells) or status.is_over)
        said, _ = rollout.communicate(timeout=60)
    finally:
        rollout.kill()
        rollout.communicate()
    assert rollout.returncode == 0, said
    assert Cell.RESETTING.value in seen  # A browser takes a while to start.
    status = monitor.look()
    assert status.cells == "++++"
    assert status.steps == sum(summary.num_steps for summary in open_dataset(out).summaries)
    report = make_report(subjects_of(out))
    phases = report.points[0][1].report.overall.seconds_by_phase
    assert phases.reset > 0
    assert phases.observe > 0
    assert "time_by_phase" in {picture.name for picture in report.pictures()}
