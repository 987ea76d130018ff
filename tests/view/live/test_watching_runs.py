"""Watching runs that real processes play: in folders and buckets, alive, dead, judged."""

import asyncio
import collections
import dataclasses
import io
import time
from pathlib import Path

import orjson
import pytest
from rich.console import Console

from webtraj import Outcome, errors, open_dataset
from webtraj.datasets.recovery import recover
from webtraj.judging.base import Judgement
from webtraj.judging.judged import judge_dataset
from webtraj.rollouts.judging import judge_rollout
from webtraj.runs.iterations import Iterations
from webtraj.runs.underway import Away, Underway
from webtraj.store.journal import claim
from webtraj.view import Cell, RunMonitor, Writer
from webtraj.view.screen import render

HELD = ("climb", "slip", "crash", "hold-reset", "hold-ask", "hold-act", "flaky")
SEEN = "+-erqa+"


class Strict:
    """A judge that calls everything a failure."""

    name = "strict"
    version = "1"

    async def judge(self, trajectory):
        return Judgement(
            judge="strict", version="1", outcome=Outcome.FAILURE, reward=0.0, reason="strict"
        )


def everything_in(folder):
    return {
        str(path.relative_to(folder)): path.stat().st_size
        for path in folder.rglob("*")
        if path.is_file()
    }


@pytest.mark.slow
def test_each_phase_is_seen_from_outside_and_then_the_end(held_rollout, wait, tmp_path):
    rollout = held_rollout(*HELD)
    monitor = rollout.monitor()
    status = wait(monitor, lambda seen: seen.cells == SEEN)
    assert status.writer is Writer.PLAYING
    assert (status.planned, status.over, status.tries) == (7, 4, 6)
    assert status.parallel == 8
    assert status.counts[Cell.ACTING] == 1
    assert {one.task: (one.cell, one.steps) for one in status.underway} == {
        "hold-reset": (Cell.RESETTING, 0),
        "hold-ask": (Cell.ASKING, 1),
        "hold-act": (Cell.ACTING, 0),
    }
    assert status.outcomes == {"success": 2, "failure": 1, "env_error": 3}
    assert status.success == (2, 3)
    assert status.steps == 10  # Three of each that ended by itself, and one under way.
    assert status.minute.steps_per_second > 0
    faults = {fault.kind: (fault.count, fault.message) for fault in status.faults}
    assert faults == {
        "BrowserCrashedError": (2, "the <i>ladder</i> broke"),
        "BrowserTimeoutError": (1, "the ladder stuck"),
    }
    assert {site.site: site.faults for site in status.sites} == {
        "up.example": 0, "down.example": 2, "flaky": 1
    }  # fmt: skip
    rollout.open("hold-reset", "hold-ask", "hold-act")
    rollout.finish()
    status = monitor.look()
    assert status.cells == "+-e++++"
    assert status.is_over
    assert not status.underway
    dataset = open_dataset(rollout.out)
    assert status.tries == len(dataset)
    assert status.steps == sum(summary.num_steps for summary in dataset.summaries)
    outcomes = collections.Counter(summary.outcome.name.lower() for summary in dataset.summaries)
    assert status.outcomes == outcomes
    assert dataclasses.replace(RunMonitor(rollout.out).look(), time=0, minute=None) == (
        dataclasses.replace(status, time=0, minute=None)
    )
    assert orjson.loads(orjson.dumps(status.to_data()))["counts"] == {
        "success": 5, "failure": 1, "env_error": 1
    }  # fmt: skip


def test_looking_changes_nothing_and_holds_nothing(held_rollout, wait, tmp_path):
    rollout = held_rollout("climb", "hold-ask")
    monitor = rollout.monitor()
    journals = tmp_path / "data" / "journal"
    wait(
        monitor,  # A sealed episode's journal goes a moment after its index line has come.
        lambda seen: seen.cells == "+q" and len(list(journals.glob("*.jsonl"))) == 1,
    )
    before = everything_in(tmp_path / "data")
    for _ in range(3):
        assert monitor.look().cells == "+q"
    assert everything_in(tmp_path / "data") == before
    rollout.kill()
    monitor.look()
    (journal,) = journals.glob("*.jsonl")
    with claim(journal) as claimed:
        assert claimed


@pytest.mark.slow
def test_a_killed_run_is_told_from_one_that_waits_and_from_one_that_was_sealed(
    held_rollout, wait, tmp_path
):
    rollout = held_rollout("climb", "hold-act", "hold-reset")
    monitor = rollout.monitor()
    wait(monitor, lambda seen: seen.cells == "+ar")
    later = RunMonitor(rollout.out, clock=lambda: time.time() + 3600)
    assert later.look().writer is Writer.PLAYING  # It is slow, and alive.
    rollout.kill()
    assert monitor.look().writer is Writer.UNKNOWN  # It may have just begun to write.
    status = later.look()
    assert (status.writer, status.cells) == (Writer.GONE, "+xx")
    assert status.remaining is None
    assert not status.is_over
    recover(rollout.out)
    status = later.look()
    assert (status.writer, status.cells, status.tries) == (Writer.GONE, "+cc", 3)
    assert {fault.kind: fault.count for fault in status.faults} == {"crashed": 2}


def test_a_judge_is_followed_and_has_the_last_word(played, tmp_path):
    out = played("climb", "slip", "crash")
    monitor = RunMonitor(out)
    assert monitor.look().cells == "+-e"

    def first(summary):
        return "-000000-" in summary.episode_id

    asyncio.run(judge_dataset(out, Strict(), when="always", where=first))
    assert monitor.look().success == (0, 2)  # Half way through its judging.
    asyncio.run(judge_rollout(out, monitor.run_id, Strict(), when="always"))
    status = monitor.look()
    assert status.cells == "--e"
    assert status.success == (0, 2)
    assert status.judged == 2
    assert status.outcomes == {"failure": 2, "env_error": 2}


def test_a_save_path_means_the_latest_run_of_its_iterations(played, tmp_path):
    saved = str(tmp_path / "saved")
    iterations = Iterations(saved, "train")
    for tasks in (("slip",), ("climb", "climb")):
        played(*tasks, out=iterations.dataset(iterations.claim()))
    monitor = RunMonitor(saved)
    assert monitor.place == iterations.dataset(2)
    assert monitor.look().cells == "++"
    assert RunMonitor(saved, RunMonitor(iterations.dataset(1)).run_id).look().cells == "-"
    assert monitor.row(1)["tries"][0]["outcome"] == "success"
    with pytest.raises(errors.InvalidInputError, match="No row 2: the plan has rows 0 to 1"):
        monitor.row(2)
    with pytest.raises(errors.InvalidInputError, match="No run 'other' in"):
        RunMonitor(saved, "other")


def test_what_other_machines_play_is_seen_by_the_drivers_note(played):
    out = Path(played("climb", "slip"))
    run_id = RunMonitor(str(out)).run_id
    _, second = sorted(open_dataset(str(out)).summaries, key=lambda one: one.task)
    for index in (out / "index").glob("*.jsonl"):
        kept = index.read_bytes()
        index.write_bytes(b"")  # As if no record had come yet.
    now = [1000.0]
    monitor = RunMonitor(str(out), clock=lambda: now[0])
    assert monitor.look().cells == ".."
    away = {second.episode_id: Away("far", 990.0), "of-another-run": Away("far", 990.0)}
    note = out / "runs" / run_id / "underway.json"
    note.write_bytes(orjson.dumps(Underway(1009.0, 10.0, away)))
    assert monitor.look().cells == ".."  # No more often than it is written.
    now[0] = 1010.0
    status = monitor.look()
    assert (status.cells, status.writer) == (".m", Writer.PLAYING)
    (episode,) = status.underway
    assert (episode.machine, episode.cell, episode.age) == ("far", Cell.ELSEWHERE, 20.0)
    assert (episode.steps, episode.quiet) == (None, None)
    assert "far" in shown(status)
    index.write_bytes(kept)
    assert monitor.look().cells == "+-"
    index.write_bytes(b"")
    now[0] = 1040.0
    assert RunMonitor(str(out), clock=lambda: now[0]).look().cells == ".."  # The driver is gone.
    note.write_bytes(b"torn")
    assert RunMonitor(str(out), clock=lambda: now[0]).look().cells == ".."


def shown(status):
    console = Console(width=120, record=True, file=io.StringIO())
    console.print(render(status, width=120))
    return console.export_text()


def test_what_has_no_run_is_refused(tmp_path):
    with pytest.raises(errors.InvalidInputError, match="Give a rollout's dataset"):
        RunMonitor(str(tmp_path))
