"""Configured rollouts, played: iterations, resuming, ranks, and what is kept of them."""

import asyncio
import collections
import dataclasses
import json
import logging
import sys

import pytest

from rows import each
from webtraj import EndReason, errors, open_dataset
from webtraj.rollouts import RunSpec
from webtraj.rollouts.configuration import (
    load_configuration,
)
from webtraj.rollouts.configuration.builder import build_rollout, resume_run
from webtraj.runs.iterations import Iterations

ORACLE = ("policy_config.agent=oracle", "env_config.train_tasks=[ladder/climb, ladder/slip]")


def played(place):
    return sorted((episode.info.task, episode.info.attempt) for episode in open_dataset(place))


def seeds(rollout):
    return [(planned.task, planned.seed) for planned in rollout.plan]


async def test_each_rollout_is_an_iteration_of_its_own(build, world):
    first, second = build(*ORACLE), build(*ORACLE)
    assert (first.iteration, second.iteration) == (1, 2)
    await first.play()
    await second.play()
    for rollout in (first, second):
        assert len(open_dataset(rollout.out)) == 2
    assert sorted(path.name for path in (world / "runs" / "train_trajectories").iterdir()) == [
        "claims", "iteration_0001", "iteration_0002",
    ]  # fmt: skip
    test = build(*ORACLE, "env_config.split=test", "env_config.test_tasks=ladder/climb")
    assert test.out.endswith("test_trajectories/iteration_0001")


async def test_same_seed_and_iteration_give_the_same_plan(build, world):
    def plan(*overrides):
        return build("env_config.train_tasks_rollout_size=5", "iteration=1", *overrides).plan

    assert plan() == plan() == plan(f"save_path={world}/elsewhere")
    assert plan() != plan("seed=1")
    assert plan() != build("env_config.train_tasks_rollout_size=5", "iteration=2").plan


async def test_test_split_plays_the_same_in_each_iteration(build):
    one, two = (build("env_config.split=test", f"iteration={number}") for number in (1, 2))
    assert seeds(one) == seeds(two)


async def test_attempts_of_a_task_are_a_group_with_seeds_of_their_own(build, world):
    rollout = build(*ORACLE, "env_config.attempts_per_task=3")
    await rollout.play()
    episodes = list(open_dataset(rollout.out))
    assert played(rollout.out) == [
        (task, attempt) for task in ("ladder/climb", "ladder/slip") for attempt in range(3)
    ]
    assert len({episode.info.group_id for episode in episodes}) == 2
    assert len({episode.info.seed for episode in episodes}) == 6


async def test_configuration_is_kept_beside_the_plan(build, world):
    rollout = build(*ORACLE, "seed=3")
    await rollout.play()
    kept = rollout.run.read_settings()["configuration"]
    (world / "kept.yaml").write_text(json.dumps(kept))
    again = load_configuration("kept", config_dir=world)
    assert again == load_configuration("own", (*ORACLE, "seed=3"), config_dir=world)


async def test_what_is_cut_off_is_played_on_resume_and_no_more(build, ladder, monkeypatch):
    cut = ("env_config.train_tasks=[ladder/climb, ladder/hang]", ORACLE[0])
    rollout = build(*cut, "env_config.run_timeout_minutes=0.005")
    summary = await rollout.play()
    assert [result.end_reason for result in summary.results] == [
        EndReason.TERMINATED, EndReason.CANCELLED,
    ]  # fmt: skip
    mended = lambda self, action, step=ladder.step: step(_mended(self), action)  # noqa: E731
    monkeypatch.setattr(ladder, "step", mended)
    resumed = build(*cut, resume=True)
    assert (resumed.run_id, resumed.plan, resumed.iteration) == (rollout.run_id, rollout.plan, 1)
    summary = await resumed.play()
    assert [result.outcome.name for result in summary.last_tries] == ["SUCCESS", "SUCCESS"]
    assert played(rollout.out) == [
        ("ladder/climb", 0), ("ladder/hang", 0), ("ladder/hang", 0),
    ]  # fmt: skip


def _mended(environment):
    environment.task = "climb"
    return environment


async def test_resume_takes_the_run_that_is_named_and_needs_no_task_file(build, world):
    first = build(*ORACLE, "iteration=1")
    second = build(*ORACLE, "iteration=1")
    second.run = dataclasses.replace(second.run, run_id="20991231T000000-later")
    await first.play()
    await second.play()
    assert build(*ORACLE, resume=True).run_id == second.run_id
    assert build(*ORACLE, resume=first.run_id).run_id == first.run_id
    gone = ("policy_config.agent=oracle", "env_config.train_tasks=gone.jsonl")
    assert build(*gone, resume=True).plan == second.plan
    with pytest.raises(errors.InvalidInputError, match="no task file"):
        build(*gone)


async def test_failed_start_takes_no_number(build, world):
    for wrong in (
        "env_config.train_tasks=gone.jsonl",
        "context_config.dialect=klingon",
        "policy_config.base_model=null",
        "env_config.train_tasks=[]",
    ):
        with pytest.raises(errors.InvalidInputError):
            build(wrong)
    assert not (world / "runs").exists()
    assert build(*ORACLE).iteration == 1


def test_a_bucket_of_episodes_goes_with_a_model_in_a_folder(build, world):
    model = world / "work" / "model.pt"
    model.mkdir(parents=True)
    for path, name in ((str(model), str(model)), ("model.pt", "some-model")):
        built = build("save_path=memory://of-a-model", f"policy_config.checkpoint_path={path}")
        assert built.spec.model == name


async def test_a_rollout_that_cannot_be_begun_gives_its_number_back(build, world, monkeypatch):
    monkeypatch.setenv("WEBTRAJ_BROWSER", str(world / "no-such-browser"))
    wants_a_browser = build("policy_config.agent=oracle")
    assert wants_a_browser.iteration == 1
    with pytest.raises(errors.BrowserNotFoundError):
        await wants_a_browser.play()
    wrong = build(*ORACLE, "env_config.environment_options={depth: 1}")
    with pytest.raises(errors.InvalidInputError, match="depth"):
        await wrong.play()
    assert not Iterations(str(world / "runs"), "train").numbers()
    assert build(*ORACLE).iteration == 1


@pytest.mark.parametrize("split", ["train", "test"])
async def test_what_was_planned_keeps_its_number(build, world, split):
    rollout = build("env_config.train_tasks=ladder/shut", "env_config.test_tasks=ladder/shut",
                    "policy_config.agent=oracle", f"env_config.split={split}",
                    "env_config.max_consecutive_errors=1")  # fmt: skip
    with pytest.raises(errors.RolloutStoppedError):
        await rollout.play()
    assert Iterations(str(world / "runs"), split).numbers() == (1,)
    assert open_dataset(rollout.out).filter(end_reason="errored")


async def test_two_rollouts_that_begin_at_once_take_different_numbers(build, world):
    iterations = Iterations(str(world / "runs"), "train")
    numbers = await asyncio.gather(*(asyncio.to_thread(iterations.claim) for _ in range(8)))
    assert sorted(numbers) == list(range(1, 9))
    assert iterations.numbers() == tuple(range(1, 9))
    assert iterations.claim(4) == 4


async def test_iterations_in_a_bucket(build, world):
    place = "memory://test-iterations/runs"
    overrides = (f"save_path={place}", *ORACLE)
    first, second = build(*overrides), build(*overrides)
    await first.play()
    assert second.iteration == 2
    assert first.out == f"{place}/train_trajectories/iteration_0001"
    assert len(open_dataset(first.out)) == 2
    resumed = build(*overrides, "iteration=1", resume=True)
    summary = await resumed.play()
    assert len(summary.results) == 2


@pytest.mark.parametrize("s3_server", ["rclone"], indirect=True)
async def test_a_bucket_has_its_own_blocklist(
    build, world, bucket_url, bucket_options, task_row, write_rows
):
    write_rows(world / "s.jsonl", [task_row(i, website=f"s{i}.example") for i in range(3)])
    options = json.dumps(dict(bucket_options))
    place = (f"save_path={bucket_url}/run", f"storage_options={options}")
    first = build(*place, *ORACLE)
    await first.play()
    assert len(open_dataset(first.out, storage_options=bucket_options)) == 2
    first.blocklist.add("https://s1.example")
    tasks = {planned.spec.site for planned in build(*place, "env_config.train_tasks=s.jsonl").plan}
    assert tasks == {"s0.example", "s2.example"}


async def test_tasks_that_an_iteration_finished_are_left_out_of_the_next(build):
    tasks = "env_config.train_tasks=[ladder/climb, ladder/crash, ladder/slip, ladder/tire]"
    once = ("env_config.deduplicate_across_iterations=true", tasks, ORACLE[0])
    first = build(
        *once, "env_config.train_tasks_sampler=sequential", "env_config.train_tasks_rollout_size=3"
    )
    await first.play()
    second = build(*once)
    # The one that an error ended has not been played.
    assert sorted(planned.task for planned in second.plan) == ["crash", "tire"]
    await second.play()
    assert [planned.task for planned in build(*once).plan] == ["crash"]


@each("attempts", [1, 3])
@each("weights", ["[1, 1]", "[3, 1, 2]", "'5,1'"])
async def test_ranks_share_a_plan_without_gap_or_overlap(weights, attempts, build):
    common = (
        f"env_config.all_rank_weights={weights}", "iteration=1",
        "env_config.train_tasks_rollout_size=12", f"env_config.attempts_per_task={attempts}",
    )  # fmt: skip
    shares = [float(part) for part in weights.strip("[]'").split(",")]
    ranks = [build(*common, f"env_config.multinode_rank={rank}") for rank in range(len(shares))]
    whole = build(*common[1:])
    assert sorted(row for rank in ranks for row in seeds(rank)) == sorted(seeds(whole))
    for rank, share in zip(ranks, shares, strict=True):
        assert len(rank.plan) == 12 * attempts * share / sum(shares)
        assert [planned.row for planned in rank.plan] == list(range(len(rank.plan)))
        # A group of attempts is never torn.
        assert len({planned.task for planned in rank.plan}) * attempts == len(rank.plan)


async def test_no_rank_is_idle_if_another_with_as_little_for_its_weight_has_more(build):
    common = (
        "env_config.all_rank_weights=[2, 1]", "iteration=1",
        "env_config.train_tasks_rollout_size=2",
    )  # fmt: skip
    ranks = [build(*common, f"env_config.multinode_rank={rank}") for rank in range(2)]
    assert [len(rank.plan) for rank in ranks] == [1, 1]


@each(
    ("overrides", "told"),
    [
        (["multinode_rank=0", "multinode_total_workers=2"], "iteration=1"),
        (["multinode_rank=2", "multinode_total_workers=2"], "multinode_rank is 2 of 2"),
        (["multinode_rank=0"], "multinode_total_workers"),
        (["multinode_total_workers=2"], "env_config.multinode_rank is missing"),
        (["rank_load_weight=1", "total_load_weight=2"], "env_config.multinode_rank is missing"),
        (
            ["multinode_rank=0", "multinode_total_workers=3", "rank_load_weight=1",
             "total_load_weight=4"],
            "does not determine the shares of all 3 ranks",
        ),
        (["multinode_rank=0", "all_rank_weights='1,x'"], "all_rank_weights is '1,x'"),
        (["multinode_rank=0", "all_rank_weights=[1, 2]", "total_load_weight=5"], "ranks give 3"),
    ],
)  # fmt: skip
def test_ranks_that_do_not_fit_together_are_told(overrides, told, build):
    with pytest.raises(errors.InvalidInputError, match=told):
        build(*(f"env_config.{override}" for override in overrides))


def test_of_two_unequal_ranks_each_knows_the_other(build):
    weights = {0: 4, 1: 1}
    plans = [
        build(
            f"env_config.multinode_rank={rank}", "env_config.multinode_total_workers=2",
            f"env_config.rank_load_weight={weight}", "env_config.total_load_weight=5",
            "env_config.server_size=10", "iteration=0",
        )
        for rank, weight in weights.items()
    ]  # fmt: skip
    assert [rank.spec.parallel for rank in plans] == [8, 2]
    tasks = [{planned.task for planned in rank.plan} for rank in plans]
    assert not tasks[0] & tasks[1]
    assert len(tasks[0]) > len(tasks[1]) > 0
    assert {rank.iteration for rank in plans} == {0}
    assert plans[0].out.endswith("iteration_0000")


async def test_ranks_of_one_iteration_are_resumed_each_by_itself(build):
    common = (*ORACLE, "iteration=1", "env_config.multinode_total_workers=2")
    ranks = [build(*common, f"env_config.multinode_rank={rank}") for rank in range(2)]
    for rank in ranks:
        await rank.play()
    assert len(open_dataset(ranks[0].out)) == 2
    for number, rank in enumerate(ranks):
        resumed = build(*common, f"env_config.multinode_rank={number}", resume=True)
        assert resumed.run_id == rank.run_id


@pytest.mark.parametrize(
    ("overrides", "told"),
    [
        (["policy_config.agent_options={base_url: 5}"], "wrong. base_url.*valid string"),
        ([*ORACLE, "policy_config.agent_options={model: 5}"], "'oracle' does not take 'model'"),
        (["env_config.train_tasks=['train.jsonl', '']"], "The split 'train' has no tasks"),
    ],
)
def test_values_that_only_a_rollout_shows_to_be_wrong_are_told(overrides, told, build, world):
    with pytest.raises(errors.InvalidInputError, match=told):
        build(*overrides)
    assert not (world / "runs").exists()


async def test_crawl_plays_as_many_as_wanted_and_each_task_before_any_again(build, world, climber):
    sources = f"source_parquet_path={world}/ladder.jsonl"
    rollout = build(sources, "num_raw_data=7", "agent_name=oracle", name="crawled")
    assert [planned.task for planned in rollout.plan] == [
        "climb", "slip", "tire", "climb", "slip", "tire", "climb",
    ]  # fmt: skip
    await rollout.play()
    assert len(open_dataset(world / "crawl")) == 7
    resumed = build(sources, "agent_name=oracle", name="crawled", resume=True)
    assert resumed.plan == rollout.plan
    assert len((await resumed.play()).results) == 7


@pytest.mark.parametrize(("own", "written"), [(None, "pb"), ("json", "json"), ("pb.zst", "pb.zst")])
async def test_a_crawl_writes_pb_unless_its_dataset_has_another_format(
    build, world, climber, own, written
):
    sources = f"source_parquet_path={world}/ladder.jsonl"
    given = (sources, "agent_name=oracle")
    if own is not None:
        await build(*given, f"format={own}", name="crawled").play()
    await build(*given, name="crawled").play()
    assert {summary.format for summary in open_dataset(world / "crawl").summaries} == {written}
    resumed = await build(*given, name="crawled", resume=True).play()
    assert len(resumed.results) == 3


async def test_quick_rollout_goes_on_by_its_folder_alone(world, climber):
    options = {"height": 2, "secrets": {"password": "hush"}}
    given = {"preset": ["ladder/climb"], "episodes": 3, "seed": 5, "parallel": 2}
    first = build_rollout(RunSpec(**{**given, "environment_options": {"height": 2}}, out="quick"))
    await first.play()
    again = resume_run({"parallel": 4}, out="quick")
    assert (again.plan, again.spec.seed, again.spec.parallel) == (first.plan, 5, 4)
    assert again.environment_options == {"height": 2}
    assert len((await again.play()).results) == 3
    with pytest.raises(errors.InvalidInputError, match="seed cannot be changed"):
        resume_run({"seed": 6}, out="quick")
    secret = build_rollout(RunSpec(**{**given, "environment_options": options}, out="secret"))
    assert "hush" not in repr(secret)
    assert secret.environment_options == options


@pytest.mark.slow
async def test_secret_of_a_quick_rollout_has_to_be_given_again(world, ladder, monkeypatch):
    monkeypatch.setattr(
        ladder, "__init__",
        lambda self, tasks, secrets, made=ladder.__init__: made(self, tasks=tasks),
    )  # fmt: skip
    given = {"preset": ["ladder/climb"]}
    secrets = {"environment_options": {"secrets": {"password": "${hush"}}}
    await build_rollout(RunSpec(**{**given, **secrets}, out="secret")).play()
    assert not any("hush" in path.read_text() for path in world.glob("secret/**/*.json*"))
    with pytest.raises(errors.InvalidInputError, match=r"environment_options\.secrets\.password"):
        resume_run({}, out="secret")
    assert resume_run(secrets, out="secret").environment_options == secrets["environment_options"]


async def test_run_of_a_configuration_goes_on_by_its_folder_alone(
    build, world, ladder, monkeypatch
):
    cut = ("env_config.train_tasks=[ladder/climb, ladder/hang]", ORACLE[0])
    limits = ("env_config.run_timeout_minutes=0.005", "env_config.http_pools.navigate=4")
    rollout = build(*cut, *limits, "env_config.task_order=longest", "judge=environment")
    await rollout.play()
    mended = lambda self, action, step=ladder.step: step(_mended(self), action)  # noqa: E731
    monkeypatch.setattr(ladder, "step", mended)
    again = resume_run({"parallel": 2, "run_timeout": 60.0}, out=rollout.out)
    changed = {"parallel": 2, "run_timeout": 60.0}
    assert again.plan == rollout.plan
    assert again.spec.record() == {**rollout.spec.record(), **changed, "format": "json"}
    summary = await again.play()
    assert [result.outcome.name for result in summary.last_tries] == ["SUCCESS", "SUCCESS"]


async def test_run_without_a_record_is_not_gone_on_with_by_its_folder(build, world):
    rollout = build(*ORACLE)
    await rollout.play()
    (world / rollout.out / "runs" / rollout.run_id / "settings.json").unlink()
    with pytest.raises(errors.InvalidInputError, match="with --config and"):
        resume_run({}, out=rollout.out)
    assert len((await build(*ORACLE, resume=True).play()).results) == 2


def warnings(caplog):
    """Return what was warned of; a command that ran before may have asked for more."""
    records = [one for one in caplog.records if one.levelno >= logging.WARNING]
    return [one.getMessage() for one in records]


async def test_run_that_goes_on_with_another_agent_is_warned_of(build, caplog):
    await build(*ORACLE).play()
    await build(*ORACLE, "env_config.server_size=3", resume=True).play()
    assert warnings(caplog) == []
    changed = ("policy_config.agent=random", "policy_config.agent_options={untouched: 0.5}")
    await build(ORACLE[1], *changed, resume=True).play()
    assert [said.partition(" was started with ")[2] for said in warnings(caplog)] == [
        "agent=oracle and now continues with random.",
        "agent_options.untouched=None and now continues with 0.5.",
    ]


async def test_quick_rollout_needs_no_package_for_configurations(world, monkeypatch):
    monkeypatch.setitem(sys.modules, "omegaconf", None)
    await build_rollout(RunSpec(preset=["ladder/climb"], out="quick")).play()
    assert len((await resume_run({}, out="quick").play()).results) == 1
    with pytest.raises(errors.MissingDependencyError, match=r"\[config\]"):
        load_configuration("own", config_dir=world)


async def test_a_curriculum_repeats_what_succeeds_sometimes(build):
    tasks = "env_config.train_tasks=[ladder/climb, ladder/slip, ladder/coin]"
    curriculum = (
        tasks, ORACLE[0], "env_config.train_tasks_sampler=curriculum",
        "env_config.train_tasks_rollout_size=30",
    )  # fmt: skip
    first = build(*curriculum)
    assert collections.Counter(planned.task for planned in first.plan) == {
        "climb": 10, "slip": 10, "coin": 10,
    }  # fmt: skip
    await first.play()
    assert len({episode.info.seed for episode in open_dataset(first.out)}) == 30
    second = build(*curriculum)
    counts = collections.Counter(planned.task for planned in second.plan)
    assert sum(counts.values()) == 30
    # One each, and of the rest 0.08 of 0.39 for 10 of 10, and as much for 0 of 10.
    assert {counts["climb"], counts["slip"]} <= {6, 7}
