"""A fork repeats its parent exactly, or says where it could not; then the agent goes on."""

import asyncio
import contextlib
import json
from dataclasses import replace

import dm_env
import numpy as np
import pytest
from typer.testing import CliRunner

from webtraj import (
    Decision,
    EndReason,
    EpisodeEnd,
    EpisodeInfo,
    EpisodeTrajectory,
    ModelCall,
    Outcome,
    StepRecord,
    errors,
    open_dataset,
    registry,
)
from webtraj.agents.base import seed_text
from webtraj.cli.app import make_app
from webtraj.datasets import copy
from webtraj.environments import actions
from webtraj.rollouts import RunSpec, collect, forks
from webtraj.rollouts.configuration.selection import plan_run
from webtraj.rollouts.forks import difference, plan_forks
from webtraj.runs.plan import ForkPoint, plan_from_bytes, plan_to_bytes
from webtraj.runs.spec import ForkConfig
from webtraj.training.export.preferences import find_rejected, preferences_of
from webtraj.training.replay import Filters, ReplayBuffer, samples_of
from webtraj.trajectory import StepType


class Model:
    """Goes up as a model would: with a call on record. Notes what it is shown."""

    name = "model/up"

    def __init__(self):
        self.seen = []

    def begin_episode(self, environment):
        seen = []
        self.seen.append(seen)
        return _Actor(seen)


class _Actor:
    def __init__(self, seen):
        self._seen = seen

    async def act(self, observation):
        self._seen.append(("asked", int(observation)))
        call = ModelCall(messages=({"role": "user", "content": str(observation)},), text="up")
        return Decision(action="up", model_calls=(call,))

    def remember(self, observation, decision):
        self._seen.append(("shown", int(observation), decision.action, len(decision.model_calls)))


@pytest.fixture
async def parent(tmp_path):
    """Gives a dataset of one episode that climbs, and its id."""
    spec = RunSpec(preset=["ladder/climb"], out=tmp_path / "d")
    summary = await collect(spec, agent=Model())
    return open_dataset(tmp_path / "d"), summary.results[0].episode_id


async def forked(dataset, point, agent, *, size=1, **settings):
    fork = ForkConfig(dataset=dataset.path, episodes=[point.episode_id], at=[point.step])
    spec = RunSpec(fork=fork, group_size=size, out=dataset.path, **settings)
    summary = await collect(spec, agent=agent)
    ids = [result.episode_id for result in summary.results]
    after = dataset.refresh()
    return summary.results, [after[name] for name in ids if name]


@pytest.mark.parametrize("step", [0, 1, 2])
async def test_fork_repeats_its_parent_up_to_the_step(step, parent):
    dataset, name = parent
    agent = Model()
    results, episodes = await forked(dataset, ForkPoint(name, step), agent, size=2)
    assert [result.outcome for result in results] == [Outcome.SUCCESS] * 2
    first = dataset[name]
    for attempt, episode in enumerate(sorted(episodes, key=lambda e: e.info.attempt)):
        info = episode.info
        assert info.parent_episode_id == name
        assert info.metadata["rollout"]["fork"] == step
        assert (info.seed, info.policy, info.attempt) == (first.info.seed, agent.name, attempt)
        assert [s.observation for s in episode.steps] == [s.observation for s in first.steps]
        decisions = [s.decision for s in episode.steps[1:]]
        assert [bool(d.model_calls) for d in decisions] == [i >= step for i in range(3)]
        sources = [d.metadata.get("fork") for d in decisions]
        assert sources[:step] == [
            {"episode_id": name, "step": step, "repeats": i + 1} for i in range(step)
        ]
        assert not any(sources[step:])
        assert [sample.key.step for sample in samples_of(episode)] == list(range(step + 1, 4))
    assert len({episode.info.group_id for episode in episodes}) == 1
    for seen in agent.seen:
        assert seen == [
            *(("shown", i, "up", 1) for i in range(step)),
            *(("asked", i) for i in range(step, 3)),
        ]


async def test_forks_at_each_step_sample_anew(parent):
    dataset, name = parent
    chances = []

    class Sampler(Model):
        def begin_episode(self, environment):
            chances.append(seed_text(0, environment))
            return super().begin_episode(environment)

    for step in (0, 1):
        await forked(dataset, ForkPoint(name, step), Sampler(), size=2)
    assert len(set(chances)) == 4


async def test_functions_and_agents_without_a_past_go_on_from_the_fork(parent):
    dataset, name = parent
    asked = []

    def up(observation):
        asked.append(int(observation))
        return "up"

    results, _ = await forked(dataset, ForkPoint(name, 2), up)
    assert results[0].outcome is Outcome.SUCCESS
    assert asked == [2]


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"rung": 5}, "at step 0: the observation differs"),
        ({"height": 2}, "at step 1: the reward is 1.0, but 0.5 on record"),
        ({"height": 1}, "at step 1: the episode ends here, but the recorded one goes on"),
    ],
)
async def test_world_that_departs_from_the_record_ends_the_fork(
    change, told, parent, ladder, monkeypatch
):
    dataset, name = parent
    agent = Model()
    reset = ladder.reset

    async def differs(self):
        timestep = await reset(self)
        self.height = change.get("height", self.height)
        if self.height == 2:  # Its second rung is the top, and worth more.
            self.height = 3
            step = self.step

            async def richer(action):
                return (await step(action))._replace(reward=1.0)

            self.step = richer
        return timestep._replace(observation=change.get("rung", timestep.observation))

    monkeypatch.setattr(ladder, "reset", differs)
    settings = {"max_retries": 3, "retry_pause": 0, "max_consecutive_errors": 2}
    results, episodes = await forked(dataset, ForkPoint(name, 2), agent, size=4, **settings)
    assert len(results) == 4  # None is retried, and none is a sign of a broken machine.
    for result, episode in zip(results, episodes, strict=True):
        assert (result.end_reason, result.outcome) == (EndReason.ERRORED, Outcome.ENV_ERROR)
        assert result.total_reward is None
        assert f"The fork of {name!r} at step 2 departs from the record {told}" in result.error
        assert episode.outcome is Outcome.ENV_ERROR
    assert not any(kind == "asked" for seen in agent.seen for kind, *_ in seen)


@pytest.fixture
def copied(ladder, monkeypatch):
    """Makes ladders that can be copied; gives what was done: climbs from the ground, copies."""
    done = {"resets": 0, "copies": 0, "moved": 0}
    reset, step = ladder.reset, ladder.step

    async def counted(self):
        done["resets"] += 1
        self.last = await reset(self)
        return self.last

    async def kept(self, action):
        self.last = await step(self, action)
        return self.last

    def snapshot(self):
        return None if done.get("fixed") else (self.seed, self.rung, self.last)

    async def restore(self, snapshot):
        done["copies"] += 1
        self.seed, self.rung, last = snapshot
        self.rung += done["moved"]
        return last._replace(observation=self.rung)

    monkeypatch.setattr(ladder, "reset", counted)
    monkeypatch.setattr(ladder, "step", kept)
    monkeypatch.setattr(ladder, "snapshot", snapshot, raising=False)
    monkeypatch.setattr(ladder, "restore", restore, raising=False)
    return done


@pytest.mark.parametrize("parallel", [1, 4])
@pytest.mark.parametrize(
    ("world", "resets", "copies"),
    [({}, 1, 3), ({"fixed": True}, 4, 0), ({"moved": 1}, 4, None)],
    ids=["copied", "cannot be copied", "the copy differs"],
)
async def test_forks_at_a_step_repeat_the_record_once_if_the_world_can_be_copied(
    world, resets, copies, parallel, copied, parent
):
    dataset, name = parent
    copied |= {**world, "resets": 0}
    agent = Model()
    results, episodes = await forked(dataset, ForkPoint(name, 2), agent, size=4, parallel=parallel)
    assert [result.outcome for result in results] == [Outcome.SUCCESS] * 4
    assert copied["resets"] == resets
    assert copied["copies"] == copies or (copies is None and 1 <= copied["copies"] <= 3)
    first = dataset[name]
    for episode in episodes:
        assert [s.observation for s in episode.steps] == [s.observation for s in first.steps]
        assert [s.reward for s in episode.steps] == [s.reward for s in first.steps]
        assert (episode.info.seed, episode.info.parent_episode_id) == (first.info.seed, name)
        assert [bool(s.decision.metadata.get("fork")) for s in episode.steps[1:]] == [
            True,
            True,
            False,
        ]
    assert agent.seen == [[("shown", 0, "up", 1), ("shown", 1, "up", 1), ("asked", 2)]] * 4


async def test_forks_do_not_wait_for_a_copy_that_does_not_come(copied, parent, ladder, monkeypatch):
    dataset, name = parent
    step, broken = ladder.step, []

    async def breaks_once(self, action):
        if not broken:
            broken.append(self)
            raise errors.BrowserCrashedError("the ladder broke")
        return await step(self, action)

    monkeypatch.setattr(ladder, "step", breaks_once)
    settings = {"parallel": 4, "max_retries": 1, "retry_pause": 0}
    results, _ = await forked(dataset, ForkPoint(name, 2), Model(), size=4, **settings)
    assert [result.outcome for result in results].count(Outcome.SUCCESS) == 4
    assert copied["copies"] == 0


async def test_a_failure_is_the_worse_reply_where_its_last_forks_succeeded(
    ladder, tmp_path, monkeypatch
):
    class Faller(Model):
        def begin_episode(self, environment):
            act = super().begin_episode(environment).act

            async def fall(observation):
                decision = await act(observation)
                if observation < 2:
                    return decision
                (call,) = decision.model_calls
                return Decision(action="down", model_calls=(replace(call, text="down"),))

            return fall

    climb = ladder.step

    async def step(self, action):
        self.last = action
        return await climb(self, action)

    monkeypatch.setattr(ladder, "step", step)
    monkeypatch.setattr(ladder, "_won", lambda self: self.last == "up")
    out = tmp_path / "d"
    played = await collect(RunSpec(preset=["ladder/climb"], out=out), agent=Faller())
    name = played.results[0].episode_id
    for at in (1, 2):
        await forked(open_dataset(out), ForkPoint(name, at), Model(), size=2)
    every = Filters(min_steps=1, distinct=False, filter_successful_only=False)
    buffer = ReplayBuffer.from_datasets([out], filters=every)
    (pair,) = preferences_of(buffer.all)
    worse = find_rejected(pair)
    assert (pair.key.step, pair.completion, pair.reward) == (3, "up", 1.0)
    assert (worse.sample, worse.completion, worse.reward) == (f"{name}/3/0", "down", 0.0)


async def test_only_what_was_recorded_can_be_forked(parent):
    dataset, name = parent
    with pytest.raises(errors.InvalidInputError, match=r"at the steps 0 to 2; got 3"):
        plan_forks(dataset, [ForkPoint(name, 3)])
    with pytest.raises(errors.UnknownEpisodeError):
        plan_forks(dataset, [ForkPoint("nobody", 0)])
    with pytest.raises(errors.InvalidInputError, match="got none"):
        plan_forks(dataset, [])
    with pytest.raises(errors.InvalidInputError, match=r"after step 99: .* 3 actions.* smaller"):
        fork(dataset.path, "--at", 99, "--agent", "oracle")
    with pytest.raises(errors.InvalidInputError, match="no episode of it was cut off"):
        fork(dataset.path, "--at", "cut-off", "--agent", "oracle")
    with pytest.raises(errors.InvalidInputError, match="no step where success falls"):
        fork(dataset.path, "--at", "last-good", "--agent", "oracle")


async def test_an_episode_that_was_cut_off_continues_from_its_end(tmp_path):
    class Killed(Model):
        def begin_episode(self, environment):
            act = super().begin_episode(environment).act

            async def kill(observation):
                if observation == 2:
                    raise asyncio.CancelledError
                return await act(observation)

            return kill

    out = tmp_path / "d"
    spec = RunSpec(preset=["ladder/climb", "ladder/slip"], out=out)
    with contextlib.suppress(errors.AgentError, asyncio.CancelledError):
        await collect(spec.model_copy(update={"preset": ["ladder/climb"]}), agent=Killed())
    await collect(spec.model_copy(update={"preset": ["ladder/slip"]}), agent=Model())
    agent = Model()
    fork = ForkConfig(dataset=out, at=["cut-off"])
    (result,) = (await collect(RunSpec(fork=fork, out=out), agent=agent)).results
    assert (result.outcome, result.num_steps) == (Outcome.SUCCESS, 3)
    assert agent.seen == [[("shown", 0, "up", 1), ("shown", 1, "up", 1), ("asked", 2)]]


async def test_forks_find_the_step_that_lost_and_the_step_that_is_open(
    ladder, tmp_path, monkeypatch
):
    """Of three forks at each step two, all, and none succeed."""
    out = tmp_path / "d"
    (first,) = (await collect(RunSpec(preset=["ladder/climb"], out=out), agent=Model())).results
    luck = iter([True, True, False, True, True, True, False, False, False])
    reset = ladder.reset

    async def draw(self):
        self.luck = next(luck)
        return await reset(self)

    monkeypatch.setattr(ladder, "reset", draw)
    monkeypatch.setattr(ladder, "_won", lambda self: self.luck)
    values = ForkConfig(dataset=out)
    await collect(RunSpec(fork=values, group_size=3, out=out), agent=Model())
    for word, step in (("last-good", 1), ("most-open", 0)):
        fork = ForkConfig(dataset=out, at=[word])
        (planned,) = plan_run(RunSpec(fork=fork, out=out))
        assert planned.fork == ForkPoint(first.episode_id, step), word


async def test_forks_of_all_that_ended_leave_forks_out_and_resume_by_their_own_settings(parent):
    dataset, _ = parent
    spec = RunSpec(fork=ForkConfig(dataset=dataset.path, at=[1]), out=dataset.path)
    for known in (2, 3):  # The second time, there is a fork in the dataset.
        summary = await collect(spec, agent=Model())
        assert [result.row for result in summary.results] == [0]
        assert len(dataset.refresh()) == known
    again = await collect(spec, agent=Model(), resume=True)
    assert again.earlier == 1
    assert len(dataset.refresh()) == 3
    longer = spec.model_copy(update={"fork": ForkConfig(dataset=dataset.path, at=[2])})
    with pytest.raises(errors.InvalidInputError, match="cannot be changed"):
        await collect(longer, agent=Model(), resume=True)


async def test_fork_has_the_options_that_its_episode_was_recorded_with(tmp_path, caplog):
    """Those of each episode, also of a fork and in a copy without the runs."""
    out, copied = tmp_path / "d", tmp_path / "copied"
    for height in (4, 2):
        spec = RunSpec(preset=["ladder/climb"], environment_options={"height": height}, out=out)
        await collect(spec, agent=Model())
    spec = RunSpec(fork=ForkConfig(dataset=out, at=[1]), out=out)
    summary = await collect(spec, agent=Model())
    assert [result.num_steps for result in summary.results] == [4, 2]
    assert [result.outcome for result in summary.results] == [Outcome.SUCCESS] * 2
    copy(out, copied)
    plan = plan_forks(
        open_dataset(copied), [ForkPoint(one.episode_id, 1) for one in summary.results]
    )
    assert [planned.options for planned in plan] == [{"height": 4}, {"height": 2}]
    assert plan_from_bytes(plan_to_bytes(plan, seed=0), "plan") == plan
    assert not caplog.records
    override = {"environment_options": {"height": 3}}
    results, _ = await forked(open_dataset(copied), plan[0].fork, Model(), **override)
    assert (results[0].num_steps, results[0].outcome) == (3, Outcome.SUCCESS)
    assert "height=3 instead of 4" in caplog.text
    point = ForkPoint(plan[0].fork.episode_id, 3)
    results, _ = await forked(open_dataset(copied), point, Model(), **override)
    assert "at step 3: the episode ends here, but the recorded one goes on" in results[0].error


async def test_fork_asks_for_an_option_that_is_not_on_record(ladder, tmp_path):
    class Ladder(ladder):
        def __init__(self, tasks, *, password=""):
            super().__init__(tasks)
            assert password == "correct horse"

    registry.register("ladder/locked", Ladder, tasks=("climb",))
    out, options = tmp_path / "d", {"environment_options": {"password": "correct horse"}}
    spec = RunSpec(preset=["ladder/locked"], out=out, **options)
    (first,) = (await collect(spec, agent=Model())).results
    assert not any(b"correct horse" in one.read_bytes() for one in out.rglob("*") if one.is_file())
    point = ForkPoint(first.episode_id, 1)
    with pytest.raises(errors.InvalidInputError, match=r"password .* not on record.* --set"):
        await forked(open_dataset(out), point, Model())
    (result,), _ = await forked(open_dataset(out), point, Model(), **options)
    assert result.outcome is Outcome.SUCCESS


async def test_task_that_its_environment_describes_is_played_by_its_preset(
    ladder, tmp_path, monkeypatch
):
    """Such a description is for judges, and names no preset."""
    described = {"name": "ladder/climb", "goal": "Climb.", "metadata": {"split": "test"}}
    monkeypatch.setattr(
        ladder,
        "describe_episode",
        lambda self: {"task": "ladder/climb", "seed": self.seed, "metadata": {"task": described}},
    )
    out, copied = tmp_path / "d", tmp_path / "copied"
    (first,) = (await collect(RunSpec(preset=["ladder/climb"], out=out), agent=Model())).results
    assert open_dataset(out)[0].info.metadata["task"] == described
    copy(out, copied)  # Without the run's plan.
    for place in (out, copied):
        point = ForkPoint(first.episode_id, 1)
        (result,), _ = await forked(open_dataset(place), point, Model())
        assert result.outcome is Outcome.SUCCESS


async def test_limit_within_the_repeated_part_is_refused(parent):
    dataset, _ = parent
    fork = ForkConfig(dataset=dataset.path, at=[2])
    with pytest.raises(errors.InvalidInputError, match=r"max_steps=2 counts repeated steps too"):
        await collect(RunSpec(fork=fork, max_steps=2, out=dataset.path), agent=Model())


@pytest.mark.parametrize("typed", ["<secret:password>", "<not recorded: it is too long>"])
async def test_an_incompletely_recorded_action_is_not_repeated(typed, tmp_path):
    def agent(observation):
        return actions.Fill("1", typed)

    out = tmp_path / "d"
    (first,) = (await collect(RunSpec(preset=["ladder/climb"], out=out), agent=agent)).results
    results, _ = await forked(open_dataset(out), ForkPoint(first.episode_id, 1), agent)
    assert "Step 1 cannot be repeated" in results[0].error


async def test_plan_keeps_the_forks(parent):
    dataset, name = parent
    plan = plan_forks(dataset, [ForkPoint(name, 0), ForkPoint(name, 2)], group_size=2)
    assert [(p.row, p.group, p.attempt, p.fork.step) for p in plan] == [
        (0, 0, 0, 0), (1, 0, 1, 0), (2, 1, 0, 2), (3, 1, 1, 2)
    ]  # fmt: skip
    assert {(p.spec.name, p.spec.preset) for p in plan} == {("climb", "ladder/climb:0")}
    assert plan_from_bytes(plan_to_bytes(plan, seed=0), "plan") == plan


def fork(*arguments):
    """Calls the command; raises what it raises."""
    done = CliRunner().invoke(make_app(), ["fork", *map(str, arguments)])
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done


def test_command_reports_the_values_of_its_own_forks(parent, tmp_path):
    dataset, name = parent
    file = tmp_path / "values.csv"
    done = fork(dataset.path, name, "--values", "--agent", "oracle", "--csv", file)
    assert done.exit_code == 0
    assert f"{name} 2 1 1 100.0% 20.7% to 100.0%" in " ".join(done.output.split())
    header, *rows = file.read_text().splitlines()
    assert header == "episode,step,succeeded,of,rate,interval,not counted"
    assert len(rows) == 3
    keys = ("fork.at=[1]", "out=null")  # They override what the flags say, and nothing else.
    again = fork(dataset.path, name, "--at", 0, "--agent", "oracle", "--json", *keys)
    (value,) = json.loads(again.stdout)["values"][name]
    assert (value["step"], value["success"]["numerator"]) == (1, 1)


def test_command_that_cannot_play_says_why(parent, tmp_path, monkeypatch):
    """There are no values to report then."""
    dataset, _ = parent
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    model = ("--model", "m", "--provider", "openai", "--out", tmp_path / "other")
    with pytest.raises(errors.MissingKeyError, match="OPENAI_API_KEY"):
        fork(dataset.path, "--values", *model)
    with pytest.raises(errors.InvalidInputError, match="The command line is wrong: a fork plays"):
        fork(dataset.path, "--at=1", "attempts=2")


def page(tree='[1] button "Go"\n  [2] link "On"', **channels):
    return {"url": "http://a.test/", "axtree": tree, "timings": {"act": 1.0}, **channels}


def test_pages_agree_by_content():
    same = page('[7] button "Go"\n  [9] link "On"', timings={"act": 2.0}, screenshot=b"else")
    assert difference(page(), same) == ""
    aria = {"url": "u", "aria": '- button "Go" [ref=e1]'}
    assert difference(aria, {"url": "u", "aria": '- button "Go" [ref=e8]'}) == ""
    marks = {"refs": ["1"], "roles": ["button"], "names": ["Go"]}
    assert difference({"set_of_marks": marks}, {"set_of_marks": {**marks, "refs": ["5"]}}) == ""
    for other, told in (
        (page('[1] button "Stop"'), "the line 'button \"Stop\"', but 'button \"Go\"' on record"),
        (page('[1] button "Go"'), "the line '(no line)', but 'link \"On\"' on record"),
        (page(url="http://b.test/"), "the url is 'http://b.test/', but 'http://a.test/'"),
        ({"screenshot": b""}, "no channel that shows the page is in both"),
    ):
        assert told in difference(page(), other)
    assert "'button' 'Go'" not in difference({"set_of_marks": marks}, {"set_of_marks": {}})
    assert difference({"screenshot": b"a"}, {"screenshot": b"b"}) == "the screenshot differs"


class Pages:
    """Shows one page after another, whatever is done."""

    def __init__(self, trees):
        self._trees = iter(trees)

    async def reset(self):
        return dm_env.restart(page(next(self._trees)))

    async def step(self, action):
        return dm_env.transition(0.0, page(next(self._trees)))


SENT = '[5] alert\n  [6] generic "Sent"\n'
BUSY = '[7] status "Loading"\n'
LIST = "[1] list\n"


@pytest.mark.parametrize(
    ("recorded", "shown", "told"),
    [
        ([SENT + LIST, SENT + LIST], [SENT + LIST, LIST], ""),
        ([SENT + LIST, LIST], [SENT + LIST, SENT + LIST], ""),
        ([LIST, SENT + LIST], [SENT + LIST, LIST], "step 0: the page has the line 'alert'"),
        ([LIST, BUSY + LIST], [LIST, LIST], "step 1: the page has the line 'list', but 'status"),
        ([SENT, SENT + LIST], [SENT, BUSY + SENT], "step 1: the page has the line 'status"),
    ],
)
async def test_notice_that_both_have_shown_may_go_sooner_or_later(recorded, shown, told):
    records = [
        StepRecord(at, StepType.MID if at else StepType.FIRST, page(tree), reward=0.0)
        for at, tree in enumerate(recorded)
    ]
    parent = EpisodeTrajectory(
        EpisodeInfo(), tuple(records), EpisodeEnd(reason=EndReason.TRUNCATED)
    )
    world = forks.ForkedEnvironment(Pages(shown), parent, len(records))
    departs = pytest.raises(errors.ForkDepartedError, match=told or "at step")
    with departs if told else contextlib.nullcontext():
        await world.reset()
        await world.step("wait")


def test_other_observations_agree_as_they_would_be_recorded():
    world = {"grid": np.arange(4).reshape(2, 2), "at": (1, 2), "nan": float("nan")}
    assert difference(world, {**world, "at": (1, 2)}) == ""
    for change in ({"at": (1, 3)}, {"grid": np.zeros((2, 2), int)}, {"more": 1}):
        assert difference(world, {**world, **change}) == "the observation differs"


def test_refs_are_those_of_the_same_channel():
    marks = {"refs": ["3", "6"], "roles": ["textbox", "button"], "names": ["User", "Go"]}
    then = {"set_of_marks": marks}
    tree = '[1] textbox "User"\n[2] button "Go"'
    now = {"set_of_marks": {**marks, "refs": ["1", "2"]}, "axtree": f"[9] heading\n{tree}"}
    assert forks._current_refs(then, now) == {"3": "1", "6": "2"}
    assert forks._current_refs(then, {"axtree": tree}) == {}


def test_refs_are_those_of_the_same_elements_where_only_one_page_shows_a_notice():
    notice = '[4] alert\n  [5] generic "Sent"\n'
    for then, now in ((notice, ""), ("", notice.replace("5", "8"))):
        trees = (
            then + '[6] button "Go"\n[9] button "Go"',
            now + '[7] button "Go"\n[3] button "Go"',
        )
        recorded, current = ({"axtree": "[1] list\n" + tree} for tree in trees)
        assert forks._current_refs(recorded, current) == {"1": "1", "6": "7", "9": "3"}
