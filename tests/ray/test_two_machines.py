"""A rollout on two machines: one is lost in the middle, then the driver; no record is."""

import collections
import json
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from rollout_driver import SLOW
from two_machines import wait_until

from webtraj import EndReason, open_dataset
from webtraj.datasets.verification import verify
from webtraj.rollouts.scheduler import RetryPolicy
from webtraj.runs.run import Run, progress_of
from webtraj.store.places import open_storage

PORT = 6399
LEASE = 6.0
IN_A_BROWSER = ["miniwob/click-test", "miniwob/click-button", "miniwob/enter-text"] * 2
BEFORE_WALKS = len(IN_A_BROWSER)


class Driver:
    """A driver's process on a machine, and what it says."""

    def __init__(self, machine, **options):
        self.ended = []
        self.lines = []
        program = Path(__file__).with_name("rollout_driver.py")
        address = f"{machine.address}:{PORT}"
        # A node that has not started after `join_timeout` is given up, and started again.
        waits = {"lease": LEASE, "close_timeout": 20, "join_timeout": 90}
        options = {"address": address, **waits, **options}
        self.process = subprocess.Popen(
            machine.command(sys.executable, str(program), json.dumps(options)),
            env=machine.environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self):
        for line in self.process.stdout:
            self.lines.append(line)
            if line.startswith("ended "):
                self.ended.append(line.split()[1])

    def said(self, words):
        return any(words in line for line in self.lines)

    def wait_until(self, condition, *, seconds, what):
        """Waits for a condition while the driver runs. The error quotes the driver's output."""

        def holds():
            assert self.process.poll() is None, "The driver has ended."
            return condition()

        try:
            wait_until(holds, seconds=seconds, what=what)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.told()}") from None

    def told(self):
        return "".join(self.lines[-300:])

    def kill(self):
        self.process.kill()  # `ip netns exec` has become the program itself.
        self.process.wait(30)
        self.stop_reading()

    def finish(self, *, seconds):
        try:
            self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.process.send_signal(signal.SIGUSR1)  # It says what it waits for.
            time.sleep(5)
            raise AssertionError(f"Still runs after {seconds} s.\n{self.told()}") from None
        finally:
            self.kill()
        assert self.process.returncode == 0, self.told()

    def stop_reading(self):
        self._reader.join(10)
        self.process.stdout.close()


@pytest.fixture
def start_driver():
    """Starts drivers, none of which outlives its test."""
    drivers = []

    def start(machine, **options):
        drivers.append(Driver(machine, **options))
        return drivers[-1]

    yield start
    for driver in drivers:
        driver.kill()


@pytest.fixture
def machines(network, store):
    one, two = network.add(), network.add()
    one.start_ray("--head", f"--port={PORT}", "--include-dashboard=false")
    two.start_ray(f"--address={one.address}:{PORT}")
    return one, two


def begins_a_slow_one(machine):
    """Returns whether a machine plays an episode that will be open for long."""
    return any(
        (int(episode_id.split("-")[1]) - BEFORE_WALKS) % SLOW == 0 and 1 < records < 6
        for episode_id, records in machine.plays().items()
    )


@pytest.mark.timeout(1200)
@pytest.mark.parametrize("how", ["cut off", "killed"])
def test_a_machine_is_lost_and_then_the_driver(how, machines, store, start_driver):
    one, two = machines
    url = store.make_bucket()
    where = {"out": url, "storage_options": store.reached_by_machines()}
    tasks = [*IN_A_BROWSER, "walk"]
    first = start_driver(one, tasks=tasks, run_id="two", **where)
    first.wait_until(
        lambda: len(first.ended) >= 40 and begins_a_slow_one(two),
        seconds=150,
        what="both machines play",
    )
    if how == "cut off":
        two.cut()
    else:
        two.kill_all()
        assert two.plays()  # What it leaves behind are journals.
    begun = len(two.plays())  # Fewer than its slots, if some are between two episodes.
    on_two = two.spooled()
    first.wait_until(
        lambda: first.said("Lost the node"), seconds=60, what="the machine's loss is noticed"
    )
    again = {episode_id[:-3] for episode_id in on_two}

    def are_played_again():
        tries = [one_id for one_id in first.ended if one_id[-2:] != "00"]
        return sum(one_id[:-3] in again for one_id in tries) >= min(4, begun)

    first.wait_until(are_played_again, seconds=240, what="its rows are played elsewhere")
    first.kill()
    on_one = one.spooled()
    if how == "cut off":
        # It has ended by itself what it had begun, also after it was cut off.
        wait_until(lambda: not two.plays(), seconds=60, what="the lost machine ends its episodes")
        on_two |= two.spooled()

    two.kill_all()  # Its browsers, too: none sees its network come back.
    two.mend()
    two.start_ray(f"--address={one.address}:{PORT}")
    # Only a machine that is there when the driver begins is waited for.
    second = start_driver(one, resume="two", **where)
    second.finish(seconds=450)

    dataset = open_dataset(url, storage_options=store.options())
    assert verify(url, storage_options=store.options()).problems == ()
    run = Run(open_storage(url, store.options()), "two")
    plan = run.read_plan()
    progress = progress_of(run, plan, dataset.summaries, RetryPolicy())
    assert progress.left == ()
    counted = progress.counting
    assert [result.row for result in counted] == list(range(len(plan)))
    assert {result.end_reason for result in counted} == {EndReason.TERMINATED}
    assert {result.total_reward for result in counted} == {1.0}
    # Whatever was recorded anywhere is there, and can be read.
    assert on_one | on_two <= set(dataset.episode_ids)
    assert {*first.ended, *second.ended} <= set(dataset.episode_ids)
    assert not one.spooled()
    for episode in dataset:
        assert episode.end is not None
    ends = {summary.episode_id: summary.end_reason for summary in dataset.summaries}
    partial = EndReason.CANCELLED if how == "cut off" else EndReason.CRASHED
    assert partial in {ends[episode_id] for episode_id in on_two}
    # What was over is not played again, but for what the lost machine had kept to itself.
    tries = collections.Counter(result.row for result in progress.done if result.finished)
    twice = {row for row, number in tries.items() if number > 1}
    assert twice <= {int(episode_id.split("-")[1]) for episode_id in on_two}


@pytest.mark.timeout(600)
def test_a_driver_that_is_asked_to_end_leaves_nothing_open(machines, store, start_driver):
    one, two = machines
    url = store.make_bucket()
    where = {"out": url, "storage_options": store.reached_by_machines()}
    # Ray aborts a process that takes longer than three seconds over a SIGTERM, if it is let.
    driver = start_driver(one, tasks=["walk"], run_id="ends", closes_in=5.0, **where)
    driver.wait_until(lambda: two.plays() and one.plays(), seconds=120, what="both machines play")
    open_ones = {*one.plays(), *two.plays()}
    driver.process.terminate()
    driver.process.wait(60)
    driver.stop_reading()
    assert driver.process.returncode == 1, driver.told()
    assert any("SignalReceivedError" in line for line in driver.lines), driver.told()
    assert not one.spooled() | two.spooled(), driver.told()
    dataset = open_dataset(url, storage_options=store.options())
    ids = set(dataset.episode_ids)
    assert open_ones <= ids
    # An episode may be cancelled while it waits for its collector, before it has any record.
    assert ids <= {*driver.ended}
    assert len({*driver.ended} - ids) <= 4
    reasons = {summary.end_reason for summary in dataset.summaries}
    assert EndReason.CANCELLED in reasons
    assert reasons <= {EndReason.CANCELLED, EndReason.TERMINATED}
