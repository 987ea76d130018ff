"""Configured rollouts, played: iterations, resuming, ranks, and what is kept of them."""

import asyncio
import collections
import dataclasses
import json
import logging
import sys

import pytest

from webtraj import EndReason, Outcome, errors, open_dataset
from webtraj.cli.app import main
from webtraj.cli.playing import naming
from webtraj.rollouts.configuration import (
    ConfiguredRollout,
    build_rollout,
    load_configuration,
    selection,
)
from webtraj.rollouts.configuration.building import resume_run, start_run
from webtraj.runs.iterations import Iterations
from webtraj.runs.plan import plan_episodes
from webtraj.runs.run import EpisodeResult, Run
from webtraj.runs.spec import RunSpec
from webtraj.store.places import open_storage

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
    kept = open_storage(rollout.out).read(f"runs/{rollout.run_id}/config.yaml").decode()
    assert kept == rollout.source
    (world / "kept.yaml").write_text(kept)
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
    second = dataclasses.replace(build(*ORACLE, "iteration=1"), run_id="20991231T000000-later")
    await first.play()
    await second.play()
    assert build(*ORACLE, resume=True).run_id == second.run_id
    assert build(*ORACLE, resume=first.run_id).run_id == first.run_id
    gone = ("policy_config.agent=oracle", "env_config.train_tasks=gone.jsonl")
    assert build(*gone, resume=True).plan == second.plan
    with pytest.raises(errors.InvalidInputError, match="no task file"):
        build(*gone)


async def test_nothing_to_go_on_with_is_told(build, world):
    with pytest.raises(errors.InvalidInputError, match="No run to resume in"):
        build(*ORACLE, resume=True)
    await build(*ORACLE).play()
    with pytest.raises(errors.InvalidInputError, match="No run 'x' to resume in"):
        build(*ORACLE, resume="x")


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


async def test_a_rollout_that_cannot_be_begun_gives_its_number_back(build, world, monkeypatch):
    monkeypatch.setenv("WEBTRAJ_BROWSER", str(world / "no-such-browser"))
    wants_a_browser = build("policy_config.agent=oracle")
    assert wants_a_browser.iteration == 1
    with pytest.raises(errors.BrowserNotFoundError):
        await wants_a_browser.play()
    whole = build(*ORACLE)
    spec = whole.spec.model_copy(update={"agent_options": {"no": "option"}})
    broken = dataclasses.replace(whole, spec=spec)
    with pytest.raises(errors.InvalidInputError):
        await broken.play()
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


async def test_a_number_stays_where_anything_lies(build, world):
    rollout = build(*ORACLE)
    place = world / "runs" / "train_trajectories" / "iteration_0001"
    (place / "notes").mkdir(parents=True)
    (place / "notes" / "mine.txt").write_text("kept")
    iterations = Iterations(str(world / "runs"), "train")
    assert rollout.iteration == 1
    assert not iterations.release(1)
    assert (place / "notes" / "mine.txt").read_text() == "kept"
    assert iterations.numbers() == (1,)
    assert iterations.release(iterations.claim())
    assert iterations.numbers() == (1,)


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


@pytest.mark.parametrize("attempts", [1, 3])
@pytest.mark.parametrize("weights", ["[1, 1]", "[3, 1, 2]", "'5,1'"])
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


async def test_ranks_agree_even_if_their_blocklists_do_not(build, world, task_row, write_rows):
    from webtraj.rollouts.sampling import Blocklist

    write_rows(world / "s.jsonl", [task_row(i, website=f"s{i}.example") for i in range(8)])
    common = (
        "iteration=1",
        "env_config.multinode_total_workers=2",
        "env_config.train_tasks=s.jsonl",
    )
    first = build(*common, "env_config.multinode_rank=0")
    Blocklist(world / "runs" / "blocklist.jsonl").add("s3.example")
    second = build(*common, "env_config.multinode_rank=1")
    assert len({planned.task for planned in (*first.plan, *second.plan)}) == 8


@pytest.mark.parametrize(
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


def test_a_rank_on_ray_is_refused_before_an_iteration_is_claimed(build, world, monkeypatch, capsys):
    rank = ("iteration=1", "env_config.multinode_rank=0", "env_config.multinode_total_workers=2")
    named = ("--config-name", "own", "--config-dir", str(world), "--ray", "auto")
    monkeypatch.setattr(sys, "argv", ["webtraj", "rollout", *named, *ORACLE, *rank])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    assert "remove multinode_rank" in capsys.readouterr().err
    assert not (world / "runs").exists()


def test_equal_ranks_need_no_list_of_weights(build):
    rank = build(
        "env_config.multinode_rank=1", "env_config.multinode_total_workers=3",
        "env_config.rank_load_weight=2", "env_config.total_load_weight=6", "iteration=1",
        "env_config.server_size=9",
    )  # fmt: skip
    assert (len(rank.plan), rank.settings.parallel) == (10, 3)


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
    assert [rank.settings.parallel for rank in plans] == [8, 2]
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


async def test_milestones_are_told(build, caplog):
    caplog.set_level(logging.INFO, "webtraj.rollouts.configuration.running")
    tasks = "env_config.train_tasks=ladder/climb"
    rollout = build(
        tasks, ORACLE[0], "env_config.attempts_per_task=10", "env_config.save_every_percent=25"
    )
    await rollout.play()
    told = [record.getMessage().partition(" of ")[0] for record in caplog.records]
    assert told == ["30%", "50%", "80%", "100%"]
    assert "(success 10)" in caplog.records[-1].getMessage()


def test_values_make_a_rollout_as_well_as_files(build, world):
    from webtraj.rollouts.configuration.rollout import EnvConfig, PolicyConfig, RolloutConfig

    rollout = build_rollout(
        RolloutConfig(
            save_path=str(world / "runs"),
            env_config=EnvConfig(train_tasks="ladder/climb"),
            policy_config=PolicyConfig(agent="scripted", agent_options={"script": "s.txt ${x"}),
        )
    ) if (world / "s.txt ${x").write_text("click('1')\n") else None  # fmt: skip
    player = rollout.player
    assert (player.name, player.options) == ("scripted", {"script": "s.txt ${x"})
    assert "${x" in rollout.source


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


def test_judge_when_waits_for_a_judge(build):
    assert build(*ORACLE, "judge_when=always").judging is None
    assert build(*ORACLE, "judge_when=always", "judge=environment").judging.when == "always"


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


def test_crawl_reads_coarse_tasks_from_parquet(build, world):
    pa = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    table = pa.table({"url": ["example.org", "b.example"], "description": ["look", "see"]})
    parquet.write_table(table, world / "coarse.parquet")
    rollout = build(f"source_parquet_path={world}/coarse.parquet", name="crawled")
    assert [(p.spec.goal, p.spec.site, p.spec.max_steps, p.spec.coarse) for p in rollout.plan] == [
        ("look", "example.org", 15, True), ("see", "b.example", 15, True),
    ]  # fmt: skip


def test_basic_agent_of_a_crawl_needs_a_model(build):
    with pytest.raises(errors.InvalidInputError, match="agent_model_name"):
        build("agent_model_name=null", "agent_model_provider=vllm", name="crawled")


def test_a_crawl_of_the_documents_keys_asks_its_model_and_has_screenshots(world, monkeypatch):
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant-" + "x" * 40)
    given = (f"source_parquet_path={world}/coarse.jsonl", f"s3_save_uri={world}/crawl")
    rollout = build_rollout(load_configuration("crawl", given))
    assert rollout.player.options["model"] == "claude-3-5-sonnet-20241022"
    assert rollout.player.options["provider"] == "anthropic"
    assert "screenshot" in rollout.environment_options["observe"]


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
    first = start_run({**given, "environment_options": {"height": 2}}, out="quick")
    await first.play()
    again = resume_run({"parallel": 4}, out="quick")
    assert (again.plan, again.spec.seed, again.settings.parallel) == (first.plan, 5, 4)
    assert again.environment_options == {"height": 2}
    assert len((await again.play()).results) == 3
    with pytest.raises(errors.InvalidInputError, match="--seed cannot be changed"):
        resume_run({"seed": 6}, out="quick")
    secret = start_run({**given, "environment_options": options}, out="secret")
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
    await start_run({**given, **secrets}, out="secret").play()
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
    assert (again.plan, again.player, again.judging) == (
        rollout.plan, rollout.player, rollout.judging,
    )  # fmt: skip
    assert (again.settings.order, again.settings.operations) == (
        "longest", rollout.settings.operations,
    )  # fmt: skip
    summary = await again.play()
    assert [result.outcome.name for result in summary.last_tries] == ["SUCCESS", "SUCCESS"]


@pytest.mark.parametrize("proposer", ["null", "hindsight", "model"])
@pytest.mark.parametrize("agent", ["basic", "explorer", "curious", "oracle", "random"])
def test_record_of_a_crawl_gives_the_same_agent_and_proposer(build, world, agent, proposer):
    tasks = f"source_parquet_path={world}/coarse.jsonl"
    crawl = build(
        f"agent_name={agent}", "agent_model_name=null", f"proposer={proposer}", tasks,
        name="crawled",
    )  # fmt: skip
    kept = RunSpec(**crawl.spec.record(), out=crawl.out)
    again = dataclasses.replace(crawl, spec=kept)
    assert again.player.make()
    assert (again.player, again.proposing) == (crawl.player, crawl.proposing)


async def test_crawl_without_a_model_goes_on_by_its_folder_alone(build, world, climber):
    sources = f"source_parquet_path={world}/ladder.jsonl"
    crawl = build(sources, "agent_name=oracle", "num_raw_data=null", name="crawled")
    await crawl.play()
    again = resume_run({}, out=crawl.out)
    assert len((await again.play()).results) == 3
    assert open_dataset(crawl.out)[0].info.task == "ladder/climb"


async def test_run_without_a_record_is_not_gone_on_with_by_its_folder(build, world):
    rollout = build(*ORACLE)
    await rollout.play()
    (world / rollout.out / "runs" / rollout.run_id / "command.json").unlink()
    with pytest.raises(errors.InvalidInputError, match="--config-name"):
        resume_run({}, out=rollout.out)
    assert len((await build(*ORACLE, resume=True).play()).results) == 2
    assert resume_run({}, out=rollout.out).player == rollout.player  # Now it has one.


async def test_quick_rollout_in_a_bucket(world):
    place = "memory://test-quick/runs"
    first = start_run({"preset": ["ladder/climb"], "episodes": 2}, out=place)
    await first.play()
    again = resume_run({}, out=place, run_id=first.run_id)
    assert len((await again.play()).results) == len(open_dataset(place)) == 2


@pytest.mark.parametrize("out", ["s3://bucket/data", "data"])
def test_command_that_names_a_run_has_the_options_of_buckets_but_no_secrets(world, out):
    options = {
        "endpoint": "http://h:9", "allow_http": True, "timeout": 5.5, "access_key_id": "AKIA",
        "secret_access_key": "hush", "region": "https://me:hush@h", "max_concurrency": 4,
    }  # fmt: skip
    spec = RunSpec(preset=["ladder/climb"], out=out, storage_options=options)
    told = naming("rollout", ConfiguredRollout(spec=spec, plan=(), run_id="one"))
    assert told == (
        f"webtraj rollout --out {out} --option endpoint=http://h:9 --option allow_http=true "
        "--option timeout=5.5"
    )


async def test_run_in_a_folder_goes_on_with_the_options_of_its_blocklist(world):
    options = {"endpoint": "http://h:9", "allow_http": True}
    given = {"preset": ["ladder/climb"], "blocklist_path": "s3://bucket/blocked"}
    spec = RunSpec(**given, out="data", storage_options=options)
    rollout = ConfiguredRollout(spec=spec, plan=plan_episodes("ladder/climb"), run_id="one")
    rollout._keep_settings()
    Run(open_storage("data"), "one").write_plan(rollout.plan, seed=0, settings={})
    again = resume_run({}, out="data", storage_options=options)
    assert (again.spec, again.storage_options) == (spec, None)


async def test_run_that_goes_on_with_another_agent_is_warned_of(build, caplog):
    await build(*ORACLE).play()
    await build(*ORACLE, "env_config.server_size=3", resume=True).play()
    assert caplog.records == []
    changed = ("policy_config.agent=random", "policy_config.agent_options={untouched: 0.5}")
    await build(ORACLE[1], *changed, resume=True).play()
    assert [
        record.getMessage().partition(" was started with ")[2] for record in caplog.records
    ] == [
        "agent=oracle and now continues with random.",
        "agent_options.untouched=None and now continues with 0.5.",
    ]


async def test_quick_rollout_needs_no_package_for_configurations(world, monkeypatch):
    monkeypatch.setitem(sys.modules, "omegaconf", None)
    await start_run({"preset": ["ladder/climb"]}, out="quick").play()
    assert len((await resume_run({}, out="quick").play()).results) == 1
    with pytest.raises(errors.MissingDependencyError, match=r"\[config\]"):
        load_configuration("own", config_dir=world)


def test_an_iteration_of_broken_episodes_says_nothing_of_a_task():
    class Played:
        def numbers(self):
            return (1, 2)

        def results(self, number):
            outcome = Outcome.FAILURE if number == 1 else Outcome.ENV_ERROR
            reason = EndReason.TERMINATED if number == 1 else EndReason.ERRORED
            return [
                EpisodeResult(
                    task="climb", seed=0, attempt=0, episode_id=str(number), end_reason=reason,
                    outcome=outcome, num_steps=1, total_reward=None, seconds=1.0,
                )
            ]  # fmt: skip

    assert selection.last_successes(Played(), before=3) == {"climb": (0, 1)}


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
