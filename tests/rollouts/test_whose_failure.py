"""A stranger's agents and environment: whose failure is whose, and one success rate everywhere."""

import asyncio
import dataclasses

import dm_env
import pytest

import webtraj
from webtraj import Decision, Outcome, errors, registry
from webtraj.cli.progress import RolloutProgress
from webtraj.metrics import Rate, measure
from webtraj.metrics.comparison import subjects_of
from webtraj.rollouts import RunSpec, collect
from webtraj.view import RunMonitor
from webtraj.view.table import Query, Row, Table


@dataclasses.dataclass(frozen=True)
class Push:
    """An action of this environment."""

    hard: bool = True


class Door:
    """Opens at a push. Its task says what goes wrong."""

    def __init__(self, tasks):
        (self.task,) = tasks
        self.opened = False
        self.seed = None

    def set_seed(self, seed):
        self.seed = seed

    def describe_episode(self):
        return {"task": self.task, "seed": self.seed}

    def episode_outcome(self):
        return Outcome.SUCCESS if self.opened else Outcome.FAILURE

    def reset(self):
        if self.task == "no page":
            raise errors.PageLoadError("the site is down")
        return dm_env.restart(self.task)

    def step(self, action):
        if self.task == "browser":
            raise errors.BrowserCrashedError("it is gone")
        if action not in ("push", "pull", Push()):
            raise errors.InvalidInputError(f"There is no action {action!r}.")
        self.opened = action != "pull"
        return dm_env.termination(float(self.opened), self.task)

    def close(self):
        pass


def act(task):
    """The function that a stranger passes as an agent."""
    if task == "own error":
        return {}["no such key"]
    if task == "server":
        raise errors.ModelUnavailableError("the server is down")
    return {
        "a string": "push", "an object": Push(), "a decision": Decision(action="push"),
        "wrong": "pull", "nothing": None, "a number": 7, "unusable": "open sesame",
    }.get(task, "push")  # fmt: skip


OUTCOMES = {
    "a string": Outcome.SUCCESS,
    "an object": Outcome.SUCCESS,
    "a decision": Outcome.SUCCESS,
    "wrong": Outcome.FAILURE,
    "own error": Outcome.AGENT_ERROR,
    "nothing": Outcome.AGENT_ERROR,
    "a number": Outcome.AGENT_ERROR,
    "unusable": Outcome.AGENT_ERROR,
    "no page": Outcome.ENV_ERROR,
    "browser": Outcome.ENV_ERROR,
    "server": Outcome.MODEL_ERROR,
}
RATE = Rate(3, 8)
BROKEN = 3 * 2  # Each is tried again.


@pytest.fixture
async def rollout(tmp_path):
    registry.register("door", lambda tasks: webtraj.as_async(Door(tasks)), tasks=tuple(OUTCOMES))
    progress = RolloutProgress(str(tmp_path / "data"), bar=False)
    settings = {"max_retries": 1, "retry_pause": 0.0}
    summary = await collect(
        RunSpec(preset="door", out=tmp_path / "data", **settings), agent=act, observer=progress
    )
    return tmp_path / "data", summary, progress


async def test_an_agents_failures_are_its_own_and_final(rollout):
    _, summary, _ = rollout
    tries = {task: [one for one in summary.results if one.task == task] for task in OUTCOMES}
    assert {task: results[-1].outcome for task, results in tries.items()} == OUTCOMES
    again = {task for task, results in tries.items() if len(results) == 2}
    assert again == {"no page", "browser", "server"}
    errored = [one for one in summary.results if one.failed]
    assert all(one.total_reward is None for one in errored)


async def test_every_place_shows_the_same_rate(rollout):
    place, summary, progress = rollout
    total = summary.total
    assert (total.successes, total.failures, total.infrastructure_failures) == (3, 5, BROKEN)
    dataset = webtraj.open_dataset(place)
    overall = measure(dataset).overall
    assert (overall.success_rate, overall.infrastructure_failures) == (RATE, BROKEN)
    assert overall.reward.count == 4
    status = RunMonitor(str(place)).look()
    assert status.success == (RATE.numerator, RATE.denominator)
    assert status.interval == RATE.interval
    assert "38% solved" in progress.counts
    table = Table()
    table.put(Row("data", one) for one in dataset.summaries)
    page = table.page(Query())
    assert (page.success, page.broken) == (RATE, BROKEN)
    assert Rate.total(table.success(["data"])["data"].values()) == RATE
    (subject,) = subjects_of(str(place))
    assert subject.main.report.overall.success_rate == RATE
    assert sorted(subject.main.graded.values()) == [False] * 5 + [True] * 3


class Odd(Door):
    """Has hooks that fail."""

    def set_seed(self, seed):
        super().set_seed(seed)
        if self.task == "seed":
            raise RuntimeError("no such seed")

    def describe_episode(self):
        if self.task == "description":
            raise RuntimeError("no words")
        return super().describe_episode()

    def episode_outcome(self):
        if self.task == "outcome":
            raise RuntimeError("who knows")
        return super().episode_outcome()


async def test_a_hook_that_fails_costs_no_other_episode(tmp_path):
    tasks = ("seed", "description", "outcome", "none")
    registry.register("odd", lambda tasks: webtraj.as_async(Odd(tasks)), tasks=tasks)
    summary = await collect(RunSpec(preset="odd", out=tmp_path), agent=lambda task: "push")
    outcomes = {one.task: (one.outcome, one.total_reward) for one in summary.results}
    assert outcomes == {
        "seed": (Outcome.ENV_ERROR, None),
        "description": (Outcome.SUCCESS, 1.0),
        "outcome": (Outcome.UNKNOWN, 1.0),
        "none": (Outcome.SUCCESS, 1.0),
    }
    recorded = {one.task: one.outcome for one in webtraj.open_dataset(tmp_path).summaries}
    assert recorded["outcome"] is Outcome.UNKNOWN
    assert recorded["seed"] is Outcome.ENV_ERROR


class Loose:
    """An asynchronous environment without `close`. Its task says what it does wrong."""

    made = 0

    def __init__(self, tasks, seed=0):
        (self.task,) = tasks
        Loose.made += 1
        if self.task == "constructor" and Loose.made == 2:  # The first is the check's.
            raise ConnectionError("the port is taken")

    async def reset(self):
        return dm_env.restart(self.task)

    async def step(self, action):
        if self.task == "cancelled":
            request = asyncio.ensure_future(asyncio.sleep(60))
            request.cancel()
            await request
        return dm_env.termination(1.0, self.task)


@pytest.mark.parametrize("task", ["constructor", "cancelled", "none"])
async def test_an_environments_faults_cost_its_own_episode(task, tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(Loose, "made", 0)
    registry.register("loose", Loose, tasks=(task,))
    settings = {"max_retries": 1, "retry_pause": 0.0}
    summary = await collect(
        RunSpec(preset="loose", episodes=2, out=tmp_path, **settings), agent=lambda task: "push"
    )
    broken = {"constructor": 1, "cancelled": 4, "none": 0}[task]
    outcomes = [one.outcome for one in summary.results]
    assert outcomes.count(Outcome.ENV_ERROR) == broken
    assert len(outcomes) == 2 + min(broken, 2)
    on_record = [one.outcome for one in webtraj.open_dataset(tmp_path).summaries]
    assert sorted(on_record) == sorted(outcomes)
    assert "close" not in caplog.text


class Stuck(Loose):
    """It fails, and then its `close` never ends."""

    async def step(self, action):
        raise RuntimeError("boom")

    async def close(self):
        await asyncio.Event().wait()


async def test_a_close_that_hangs_is_abandoned(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr("webtraj.rollouts.deadlines._CLOSING", 0.05)
    registry.register("stuck", Stuck, tasks=("none",))
    summary = await collect(
        RunSpec(preset="stuck", episodes=2, out=tmp_path), agent=lambda task: "push"
    )
    assert [one.outcome for one in summary.results] == [Outcome.ENV_ERROR] * 2
    assert len(webtraj.open_dataset(tmp_path)) == 2
    assert "Stuck did not close within 0.05 s; it is abandoned." in caplog.text
