"""The driver: every row is over exactly once, whatever becomes of nodes."""

import asyncio
import collections
import random

import pytest

from webtraj import (
    EndReason,
    EpisodeEnd,
    EpisodeInfo,
    JsonTrajectoryCollector,
    Outcome,
    StepRecord,
    errors,
    open_dataset,
)
from webtraj.datasets.verification import verify
from webtraj.rollouts import RunSpec
from webtraj.rollouts.distributed.node import Played
from webtraj.rollouts.results import NullRolloutObserver
from webtraj.runs.run import EpisodeResult, RetryPolicy, Run, progress_of
from webtraj.store.places import open_storage
from webtraj.store.tries import pick_counting
from webtraj.trajectory import StepType

QUICK = {"max_retries": 2, "retry_pause": 0}


def counted_rows(results):
    return [result.row for result in pick_counting(results)]


def record_end(out, episode_id):
    with JsonTrajectoryCollector(out) as collector:
        recorder = collector.begin_episode(EpisodeInfo(episode_id=episode_id))
        recorder.record_step(StepRecord(0, StepType.FIRST, 0))
        recorder.end_episode(EpisodeEnd(reason=EndReason.TERMINATED, outcome=Outcome.SUCCESS))


class Looker:
    """Does something at the end of the n-th episode."""

    def __init__(self, number, act):
        self.number = number
        self.act = act
        self.ended = []

    def rollout_planned(self, plan):
        pass

    def episode_ended(self, result):
        self.ended.append(result)
        if len(self.ended) == self.number:
            self.act()


async def test_all_machines_play_and_every_row_is_over(machines):
    cluster = machines(one=2, two=3)
    cluster.play_together()
    results, driver = await cluster.play("ladder/climb", episodes=40)
    assert counted_rows(results) == list(range(40))
    assert {result.outcome for result in results} == {Outcome.SUCCESS}
    assert all(line.accepted for line in cluster.lines.values())
    assert driver.lost_nodes == 0
    dataset = open_dataset(cluster.out)
    assert len(dataset) == 40
    assert verify(cluster.out).problems == ()


async def test_no_more_are_played_at_once_than_asked_for(machines, ladder):
    cluster = machines(one=4, two=4)
    await cluster.play("ladder/climb", episodes=40, parallel=3)
    assert ladder.most_playing <= 3


async def test_rows_of_a_machine_that_is_cut_off_are_played_elsewhere(machines, ladder):
    cluster = machines(one=2, two=2)
    cluster.play_together()
    observer = Looker(6, lambda: cluster.cut("two"))
    results, driver = await cluster.play("ladder/climb", episodes=60, observer=observer)
    assert driver.lost_nodes == 1
    assert counted_rows(results) == list(range(60))
    await cluster.lines["two"].node.close()
    dataset = open_dataset(cluster.out)
    assert verify(cluster.out).problems == ()
    run = Run(open_storage(cluster.out), "one")
    progress = progress_of(
        run, run.read_plan(), dataset.summaries, RetryPolicy.of(RunSpec(**QUICK))
    )
    assert progress.left == ()
    assert [result.row for result in progress.counting] == list(range(60))


async def test_a_machine_that_hears_nothing_ends_what_is_open_as_cancelled(machines):
    cluster = machines(one=1, two=1)
    settings = {}
    rollout = asyncio.ensure_future(
        cluster.play(["ladder/hang", "ladder/climb"], settings=settings)
    )
    while len(cluster.lines) < 2 or not all(line.accepted for line in cluster.lines.values()):
        await asyncio.sleep(0.01)
    (hanging,) = (name for name, line in cluster.lines.items() if line.accepted[0].planned.row == 0)
    cluster.cut(hanging)
    node = cluster.lines[hanging].node
    while not open_dataset(cluster.out).filter(end_reason="cancelled"):
        await asyncio.sleep(0.05)
    (left,) = open_dataset(cluster.out).filter(end_reason="cancelled").summaries
    assert left.episode_id == "one-000000-00"
    await node.close()
    rollout.cancel()
    with pytest.raises(asyncio.CancelledError):
        await rollout
    # The other machine had it as the next try, and ended that too when the rollout was cancelled.
    cancelled = open_dataset(cluster.out).filter(end_reason="cancelled").episode_ids
    assert set(cancelled) == {"one-000000-00", "one-000000-01"}


async def test_what_a_lost_machine_had_stored_is_not_played_again(machines, ladder):
    cluster = machines(one=8)

    # It plays all that it was given after it was cut off; then another machine comes.
    def cut():
        cluster.cut("one")
        cluster.sizes["two"] = 1

    results, _ = await cluster.play("ladder/climb", episodes=30, observer=Looker(1, cut))
    assert counted_rows(results) == list(range(30))
    await cluster.lines["one"].node.close()
    tries = collections.Counter(
        one.rsplit("-", 1)[0]
        for one in open_dataset(cluster.out).filter(end_reason="terminated").episode_ids
    )
    # Only what it finished after the driver had looked at the store can be there twice.
    assert sum(number == 1 for number in tries.values()) >= 22


async def test_errors_are_tried_again_anywhere_and_linked(machines):
    cluster = machines(one=1, two=1)
    results, _ = await cluster.play(["ladder/crash", "ladder/climb"], settings={**QUICK})
    tries = [result for result in results if result.row == 0]
    assert [result.number for result in tries] == [0, 1, 2]
    assert {result.outcome for result in tries} == {Outcome.ENV_ERROR}
    dataset = open_dataset(cluster.out)
    links = {episode.episode_id: episode.info.retry_of for episode in dataset}
    assert links["one-000000-02"] == "one-000000-01"


async def test_an_agent_that_is_wrong_is_not_tried_again(machines, climber):
    cluster = machines(one=1)
    cluster.agent = lambda: climber(ValueError("a bug"))
    results, _ = await cluster.play("ladder/climb", settings={**QUICK})
    assert [result.outcome for result in results] == [Outcome.AGENT_ERROR]
    assert "a bug" in results[0].error


async def test_what_a_machine_brings_that_comes_back_is_not_played_again(machines, slow_climber):
    cluster = machines(one=1)
    cluster.agent = slow_climber
    row = 59

    def record_it(place):
        """Plays the row as a driver of before had it played, out of sight until now."""
        if place.name != "two":
            return
        record_end(cluster.out, f"one-{row:06d}-00")

    cluster.before_start = record_it
    cluster.found["two"] = (f"one-{row:06d}-00",)
    observer = Looker(3, lambda: cluster.sizes.update(two=3))
    results, _ = await cluster.play("ladder/climb", episodes=60, observer=observer)
    assert counted_rows(results) == list(range(60))
    assert len(open_dataset(cluster.out)) == 60
    (brought,) = (result for result in results if result.row == row)
    assert (brought.number, brought.num_steps) == (0, 0)


async def test_an_end_is_told_once_although_its_record_is_lost_and_comes_back(machines):
    cluster = machines(one=1)
    start = cluster.start

    async def start_at(place):
        line, status = await start(place)
        if len(cluster.started) > 1:
            return line, status

        async def play(turn):
            asyncio.get_running_loop().call_later(0.1, line.cut.set)
            result = EpisodeResult.of(
                turn.planned, 0, task="ladder/climb", seed=0, episode_id="one-000000-00",
                end_reason=EndReason.TERMINATED, outcome=Outcome.SUCCESS, num_steps=0,
                total_reward=None, seconds=1.0,
            )  # fmt: skip
            return Played(result, again=False, stored=False)

        line.play = play
        return line, status

    def bring(place):
        if cluster.started:
            cluster.found["one"] = ("one-000000-00",)
            record_end(cluster.out, "one-000000-00")

    cluster.start, cluster.before_start = start_at, bring
    observer = Looker(0, None)
    results, driver = await cluster.play("ladder/climb", observer=observer)
    assert driver.lost_nodes == 1
    assert [result.episode_id for result in results] == ["one-000000-00"]
    assert [result.episode_id for result in observer.ended] == ["one-000000-00"]


async def test_a_machine_that_cannot_begin_is_left_alone(machines, monkeypatch):
    cluster = machines(bad=2, good=2)
    setups = iter([errors.BrowserNotFoundError("no browser here"), None])

    def setup():
        if (error := next(setups, None)) is not None:
            raise error

    cluster.setup = setup
    results, _ = await cluster.play("ladder/climb", episodes=10)
    assert counted_rows(results) == list(range(10))
    assert sorted(cluster.started) == ["bad", "good"]


async def test_what_no_machine_can_do_ends_the_rollout(machines):
    cluster = machines(one=1, two=1)

    def setup():
        raise errors.BrowserNotFoundError("no browser here")

    cluster.setup = setup
    with pytest.raises(errors.BrowserNotFoundError, match=r"On (one|two): no browser here"):
        await cluster.play("ladder/climb", episodes=10)


async def test_rows_of_a_machine_that_can_no_longer_play_are_played_elsewhere(machines, climber):
    cluster = machines(bad=2, good=2)
    cluster.play_together()
    broken = errors.MissingDependencyError("no such package")
    agents = iter([climber(broken), climber()])
    cluster.agent = lambda: next(agents)
    settings = {**QUICK}
    results, driver = await cluster.play("ladder/climb", episodes=20, settings=settings)
    assert counted_rows(results) == list(range(20))
    assert {result.outcome for result in pick_counting(results)} == {Outcome.SUCCESS}
    assert sorted(cluster.started) == ["bad", "good"]
    assert driver.lost_nodes == 1


async def test_politeness_is_for_all_machines_together(machines, ladder):
    settings = {"episodes_per_site": 1}
    cluster = machines(one=2, two=2)
    cluster.play_together(has="shares")
    results, _ = await cluster.play("ladder/climb", episodes=5, settings=settings)
    assert counted_rows(results) == list(range(5))
    assert ladder.most_playing == 1
    assert all(line.shares for line in cluster.lines.values())


@pytest.mark.slow
async def test_what_the_store_does_not_take_is_kept_and_named(machines_of_bucket, monkeypatch):
    cluster = machines_of_bucket("memory://test-distributed/shut", one=2, two=2)
    storage = type(open_storage(cluster.out))
    write = storage.write

    def shut(self, key, data, **options):
        if key.startswith("episodes/"):
            raise errors.StorageDeniedError("The bucket is shut.")
        return write(self, key, data, **options)

    monkeypatch.setattr(storage, "write", shut)
    with pytest.raises(errors.CollectorError, match="webtraj push"):
        await cluster.play("ladder/climb", episodes=6)
    nodes = [line.node for line in cluster.lines.values()]
    assert len({episode_id for node in nodes for episode_id in node._unsent_episodes()}) >= 6
    # No row was played again elsewhere.
    assert sum(len(line.accepted) for line in cluster.lines.values()) == 6


@pytest.mark.parametrize("call", ["read", "write"])
async def test_machines_without_access_to_the_store_play_nothing(
    call, machines_of_bucket, monkeypatch
):
    cluster = machines_of_bucket(f"memory://test-distributed/denied-{call}", one=2, two=2)
    storage = type(open_storage(cluster.out))
    allowed = getattr(storage, call)

    def denied(self, key, *arguments, **options):
        if not key.endswith("/plan.jsonl") or self.size(key) is None:  # By the driver.
            return allowed(self, key, *arguments, **options)
        raise errors.StorageDeniedError("no credentials were found")

    monkeypatch.setattr(storage, call, denied)
    with pytest.raises(errors.StorageDeniedError, match="no credentials"):
        await cluster.play("ladder/climb", episodes=6)
    assert not any(line.accepted for line in cluster.lines.values())


async def test_no_machine_for_long_ends_the_rollout(machines):
    cluster = machines()
    with pytest.raises(errors.RolloutStoppedError, match="no machine was available"):
        await cluster.play("ladder/climb", episodes=10, join_timeout=0.1)


async def test_too_many_errors_in_a_row_end_the_rollout(machines):
    cluster = machines(one=1)
    settings = {"max_consecutive_errors": 4}
    with pytest.raises(errors.RolloutStoppedError, match="4 episodes in a row"):
        await cluster.play("ladder/crash", episodes=30, settings=settings)


async def test_the_runs_deadline_keeps_what_was_done_and_resume_does_the_rest(machines):
    cluster = machines(one=2)
    tasks = ["ladder/climb", "ladder/hang", "ladder/slip"]
    cut = {"run_timeout": 0.8}
    results, _ = await cluster.play(tasks, settings=cut)
    outcomes = {result.row: result.outcome for result in results}
    assert outcomes == {0: Outcome.SUCCESS, 1: Outcome.CANCELLED, 2: Outcome.FAILURE}
    settings = {"step_timeout": 0.05}
    results, _ = await cluster.play(resume=True, settings=settings)
    (again,) = results
    assert (again.row, again.outcome) == (1, Outcome.TIMEOUT)
    # What another machine may have recorded as the next try cannot collide with it.
    assert again.episode_id == "one-000001-2000"


async def test_slow_ones_get_some_grace(machines):
    cluster = machines(one=4)
    settings = {"completion_threshold": 0.7, "completion_grace_period": 0}
    tasks = ["ladder/hang", "ladder/climb", "ladder/slip", "ladder/tire"]
    results, _ = await cluster.play(tasks, settings=settings)
    ends = {result.row: result.end_reason for result in results}
    assert ends[0] is EndReason.CANCELLED
    assert len(ends) == 4


async def test_another_driver_takes_the_run_over(machines):
    cluster = machines(one=1, two=1)

    async def take_over():
        while "two" not in cluster.lines or not cluster.lines["two"].accepted:
            await asyncio.sleep(0)
        Run(open_storage(cluster.out), "one").begin_session(resumed=True)
        cluster.cut("two")

    # A row that never ends keeps the rollout from being over before, however slow a machine is.
    taking_over = asyncio.ensure_future(take_over())
    with pytest.raises(errors.RolloutStoppedError, match="taken over"):
        await cluster.play(["ladder/hang", "ladder/hang"], episodes=8)
    await taking_over


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0])
@pytest.mark.parametrize("place", ["folder", "bucket"])
@pytest.mark.gate
async def test_machines_come_and_go_and_every_row_is_over_once(
    place, seed, machines, machines_of_bucket, slow_climber
):
    source = random.Random(seed)
    sizes = {name: source.randint(1, 4) for name in ("one", "two", "three")}
    if place == "folder":
        cluster = machines(**sizes)
    else:
        cluster = machines_of_bucket(f"memory://test-distributed/{seed}", **sizes)
    cluster.agent = slow_climber

    class Fate(NullRolloutObserver):
        ended = 0

        def episode_ended(self, result):
            self.ended += 1
            if self.ended % 12 == 0:
                alive = [name for name in cluster.lines if name not in cluster.gone]
                if len(alive) > 1:
                    cluster.cut(source.choice(alive))
                cluster.sizes[f"after {self.ended}"] = source.randint(1, 4)

    tasks = [f"ladder/{task}" for task in ("climb", "slip", "flaky", "crash", "tire")]
    once_more = {"max_retries": 1, "retry_pause": 0}
    results, _ = await cluster.play(
        tasks, episodes=60, observer=Fate(), parallel=source.choice([None, 2, 5]),
        settings={**once_more, "max_consecutive_errors": 1000},
    )  # fmt: skip
    assert counted_rows(results) == list(range(60))
    ids = [result.episode_id for result in results]
    assert len(ids) == len(set(ids))
    assert all(result.total_reward is None for result in results if result.broke)
    for line in cluster.lines.values():
        await line.node.close()
    dataset = open_dataset(cluster.out)
    assert set(ids) <= set(dataset.episode_ids)
    assert verify(cluster.out).problems == ()
    run = Run(open_storage(cluster.out), "one")
    assert (
        progress_of(
            run, run.read_plan(), dataset.summaries, RetryPolicy.of(RunSpec(**once_more))
        ).left
        == ()
    )
