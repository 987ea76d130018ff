"""The law of who counts: everything that counts episodes agrees with a plain reference.

Runs are drawn with every mixture of tries, failures of the machinery, retries, late tries,
cut-offs, cancellations, verdicts and groups; beside them lie episodes without a plan.
"""

import asyncio
import collections
import contextlib
import dataclasses
import importlib.util
import json
import math
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import hypothesis
import pytest
from hypothesis import strategies as st

from webtraj import EndReason, Outcome, errors, open_dataset
from webtraj.datasets.exporters import export_dataset
from webtraj.datasets.exporters.base import read_manifest
from webtraj.datasets.partition import split
from webtraj.datasets.transfer import copy
from webtraj.datasets.writer import DatasetWriter
from webtraj.environments.actions import Click
from webtraj.judging.judged import judge_dataset
from webtraj.metrics import measure, measure_results, measure_trajectories
from webtraj.metrics.comparison import subjects_of
from webtraj.metrics.live import MetricsObserver
from webtraj.processing import Pipeline, process
from webtraj.rollouts import RolloutSummary, plan_episodes
from webtraj.runs.run import RetryPolicy, Run, progress_of
from webtraj.store.places import open_storage
from webtraj.training.export.export_folder import read_export
from webtraj.training.export.preferences import export_selection, find_rejected, preferences_of
from webtraj.training.replay import Filters, ReplayBuffer
from webtraj.training.sft.policy_gradient import Advantages
from webtraj.training.sft.settings import PolicySettings
from webtraj.trajectory import (
    Decision,
    EpisodeEnd,
    EpisodeInfo,
    EpisodeTrajectory,
    Judgement,
    ModelCall,
    StepRecord,
    StepType,
)  # fmt: skip
from webtraj.view.episode import episode_data
from webtraj.view.status import Rows
from webtraj.view.table import Query, Row, Table

O, R = Outcome, EndReason  # noqa: E741
BY_ITSELF = (R.TERMINATED, R.TRUNCATED)
MACHINERY = (O.ENV_ERROR, O.MODEL_ERROR, O.TIMEOUT)
RUN = "20261128T000000-000-aaaaaaaa"
KEPT = Filters(
    filter_successful_only=False, distinct=False, filter_same_screenshot=False,
    valid_actions_only=False,
)  # fmt: skip

MEMORY = "/dev/shm" if Path("/dev/shm").is_dir() else None
"""Where syncing a file costs nothing."""
ROOT = Path(__file__).parents[3]
INSPECT = Path(os.environ.get("WEBTRAJ_INSPECT_PYTHON", ROOT / ".venv-inspect/bin/python"))
"""Inspect needs an environment of its own."""
HAS = {
    name: importlib.util.find_spec(name.partition(".")[0]) is not None
    for name in ("pyarrow", "opentelemetry.sdk")
}

# The reference: a dataset's episodes in, all numbers out.


def counts(one):
    by_itself = one.end.reason in BY_ITSELF and one.outcome not in (*MACHINERY, O.CANCELLED)
    return by_itself or one.outcome is O.AGENT_ERROR


def broke(one):
    judged = one.outcome in (O.SUCCESS, O.FAILURE, O.UNKNOWN)
    died = judged and one.end.reason in (R.ERRORED, R.CRASHED)
    return one.outcome in (*MACHINERY, O.JUDGE_ERROR) or died


def total(one):
    given = [step.reward for step in one.steps[1:] if step.reward is not None]
    scored = counts(one) and one.outcome in (O.SUCCESS, O.FAILURE, O.UNKNOWN)
    return sum(given) if given and scored else None


def worth(one):
    if not counts(one) or one.outcome not in (O.SUCCESS, O.FAILURE):
        return None
    verdicts = [v for v in one.end.judgements if v.outcome]
    last = verdicts[-1].reward if verdicts and verdicts[-1].outcome is one.outcome else None
    return float(one.outcome is O.SUCCESS) if last is None else last


def row_of(one, known):
    depth = 0
    while one.info.retry_of:
        depth, before = depth + 1, one.info.retry_of
        if before not in known:
            return before, depth
        one = known[before]
    name = one.episode_id
    return (name.rpartition("-")[0] if name.startswith(RUN) else name), depth


def counting(episodes):
    known, rows = {one.episode_id: one for one in episodes}, collections.defaultdict(list)
    for one in episodes:
        row, depth = row_of(one, known)
        number = int(one.episode_id.rpartition("-")[2]) if one.episode_id.startswith(RUN) else 0
        rows[row].append((counts(one), number, depth, one.start_time, one.episode_id))
    return [known[max(tries)[-1]] for tries in rows.values()]


def group_of(one):
    return one.info.group_id or (one.info.policy, one.info.task)


def advantages(counted):
    groups, found = collections.defaultdict(list), {}
    for one in counted:
        if worth(one) is not None:
            groups[group_of(one)].append(one)
    for members in groups.values():
        mean = sum(map(worth, members)) / len(members)
        solved = any(one.outcome is O.SUCCESS for one in members)
        for one in members:
            alone = None if len(members) == 1 else 0.0
            found[one.episode_id] = worth(one) - mean if solved and alone == 0.0 else alone
    return found


# What is drawn.

ENDS = st.sampled_from(
    [(O.SUCCESS, R.TERMINATED), (O.FAILURE, R.TERMINATED), (O.FAILURE, R.TRUNCATED)] * 3
    + [(outcome, R.TERMINATED) for outcome in O]
    + [(O.UNKNOWN, reason) for reason in R]
    + [(outcome, R.ERRORED) for outcome in (*MACHINERY, O.AGENT_ERROR, O.BLOCKED)]
    + [(O.CANCELLED, R.CANCELLED), (O.SUCCESS, R.CLOSED), (O.FAILURE, R.CRASHED)]
)
FAILED = st.just((O.FAILURE, R.TERMINATED))
SHAPED = st.sampled_from([None, 0.0, 0.25, -0.5, 1.0])


@st.composite
def episodes(draw, name, ends, **info):
    outcome, reason = draw(ends)
    steps = [StepRecord(0, StepType.FIRST, {"axtree": f"[1] {name}"})]
    for number in range(1, draw(st.integers(1, 2)) + 1):
        # Attempts at one task begin with the same prompt.
        prompt = f"{name} {number}" if number > 1 else "begin"
        call = ModelCall(
            model="m", provider="vllm", messages=({"role": "user", "content": prompt},),
            text=f"click('1') {draw(st.integers(0, 2))}", finish_reason="stop",
            sampling={"temperature": 1.0}, prompt_token_ids=(1, 2), completion_token_ids=(3, 4),
            logprobs=(-0.5, -0.25), policy_version=draw(st.sampled_from(["1", "2"])),
        )  # fmt: skip
        steps.append(
            StepRecord(
                number, StepType.MID, {"axtree": f"[1] {name} {number}"}, Click("1"),
                draw(st.sampled_from([None, 0.0, 0.0, 0.5, 1.0, -1.0])), 1.0,
                decision=Decision(action=Click("1"), model_calls=(call,)),
            )
        )  # fmt: skip
    verdicts = ()
    if outcome in (O.SUCCESS, O.FAILURE) and draw(st.booleans()):
        verdicts = (Judgement(judge="environment", outcome=outcome, reward=draw(SHAPED)),)
    policy = draw(st.sampled_from(["p", "p", "q"]))
    about = EpisodeInfo(**{"episode_id": name, "task": "t", "policy": policy, **info})
    end = EpisodeEnd(reason=reason, outcome=outcome, judgements=verdicts)
    start = float(draw(st.integers(1, 10**6)))
    return EpisodeTrajectory(about, tuple(steps), end, start_time=start, end_time=start + 1)


@st.composite
def datasets(draw):
    """Return a plan, episodes in the order of recording, and later verdicts."""
    ends = draw(st.sampled_from([ENDS, ENDS, FAILED]))
    plan = plan_episodes("ladder/climb", episodes=4, group_size=draw(st.sampled_from([1, 2, 4])))
    made = []
    for planned in plan:
        before = ""
        for number in draw(st.sets(st.sampled_from([0, 1, 2, 1000]), max_size=3).map(sorted)):
            name = f"{RUN}-{planned.row:06d}-{number:02d}"
            # A lost try may turn up later, and its retry knew nothing of it.
            retry_of = draw(st.sampled_from([before, before, ""]))
            group = f"{RUN}/{planned.group}" if planned.group is not None else ""
            made.append(
                draw(episodes(name, ends, task=planned.task, group_id=group, retry_of=retry_of))
            )
            before = name
    for number in range(draw(st.integers(0, 5))):
        earlier = [f"e{other}" for other in range(number)]
        retry_of = draw(st.sampled_from(["", "", "gone", *earlier]))
        group = draw(st.sampled_from(["", "g", "g", "h"]))
        made.append(draw(episodes(f"e{number}", ends, group_id=group, retry_of=retry_of)))
    judged = {}
    for one in made if ends is ENDS else ():
        open_to = one.outcome in (O.UNKNOWN, O.SUCCESS, O.FAILURE, O.BLOCKED, O.JUDGE_ERROR)
        if one.end.reason in BY_ITSELF and open_to and draw(st.integers(0, 2)) == 0:
            verdict = draw(st.sampled_from([O.SUCCESS, O.FAILURE, O.JUDGE_ERROR, O.BLOCKED]))
            reward = draw(SHAPED) if verdict in (O.SUCCESS, O.FAILURE) else None
            judged[one.episode_id] = Judgement(judge="j", outcome=verdict, reward=reward)
    return plan, draw(st.permutations(made)), judged


@hypothesis.settings(max_examples=5, deadline=None)
@hypothesis.given(datasets())
def test_everything_that_counts_agrees_with_the_reference(drawn):
    record_and_check(*drawn)


@pytest.mark.slow
@hypothesis.settings(max_examples=80, deadline=None)
@hypothesis.given(datasets())
def test_everything_that_counts_agrees_with_the_reference_in_many_examples(drawn):
    record_and_check(*drawn)


@pytest.mark.slow
@pytest.mark.skipif(not INSPECT.exists(), reason="needs .venv-inspect, or WEBTRAJ_INSPECT_PYTHON")
@hypothesis.settings(max_examples=3, deadline=None, phases=[hypothesis.Phase.generate])
@hypothesis.given(datasets())
def test_logs_of_inspect_agree_with_the_reference(drawn):
    with recorded(*drawn) as (dataset, _, folder):

        def run(command, *arguments):
            known = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
            line = [INSPECT.parent / command, *arguments]
            return subprocess.run(line, env=known, check=True, stdout=subprocess.PIPE).stdout

        run("webtraj", "export", dataset.path, "--format", "inspect", "--out", folder / "inspect")
        every = {one.episode_id: one for one in dataset}
        counted = {one.episode_id for one in counting(every.values())}
        samples = [
            sample
            for path in (folder / "inspect").glob("*.eval")
            for sample in json.loads(run("inspect", "log", "dump", path))["samples"]
        ]
    assert {sample["uuid"] for sample in samples} == every.keys()
    for sample in samples:
        one = every[sample["uuid"]]
        graded = counts(one) and one.outcome in (O.SUCCESS, O.FAILURE, O.AGENT_ERROR)
        score = (sample.get("scores") or {}).get("outcome")
        expected = "C" if one.outcome is O.SUCCESS else "I"
        expected = expected if graded and one.episode_id in counted else None
        assert (score and score["value"]) == expected
        assert sample["metadata"]["superseded"] is (one.episode_id not in counted)
        cancelled = R.CANCELLED is one.end.reason or O.CANCELLED is one.outcome
        assert (sample.get("error") is not None) is (broke(one) or cancelled)


def record_and_check(plan, made, judged):
    """Record episodes and verdicts, and compare everything that counts them."""
    with recorded(plan, made, judged) as (dataset, run, folder):
        check(dataset, plan, run, folder)


@contextlib.contextmanager
def recorded(plan, made, judged):
    """Record episodes and verdicts; yield the dataset, its run and a folder beside it."""
    hypothesis.assume(made)
    with tempfile.TemporaryDirectory(dir=MEMORY) as folder:
        path = Path(folder, "d")
        with DatasetWriter(path) as writer:
            for one in made:
                writer.add(one)
        run = Run(open_storage(path), RUN)
        run.write_plan(plan, seed=0, settings={})
        open_dataset(path).judgements.add(judged.items())
        yield open_dataset(path), run, Path(folder)


def check(dataset, plan, run, folder):
    """Compare everything that counts a dataset's episodes with the reference."""
    every = list(dataset)
    counted = counting(every)
    graded = [one for one in counted if counts(one)]
    graded = [one for one in graded if one.outcome in (O.SUCCESS, O.FAILURE, O.AGENT_ERROR)]
    rate = (sum(one.outcome is O.SUCCESS for one in graded), len(graded))
    failed = sum(map(broke, every))
    gone = {one.episode_id for one in every} - {one.episode_id for one in counted}

    # The index and the records.
    assert dataset.superseded == gone
    assert dataset[:1].filter(task="t").superseded == gone
    for summary, one in zip(dataset.summaries, every, strict=True):
        assert summary.total_reward == one.total_reward == total(one)

    # Metrics.
    for report in (measure(dataset), measure(dataset, steps=False), measure_trajectories(every)):
        assert report.overall.success_rate.counts == rate
        assert report.overall.infrastructure_failures == failed
        scored = [total(one) for one in counted if total(one) is not None]
        assert report.overall.reward.count == len(scored)
        if scored:
            assert math.isclose(report.overall.reward.mean, sum(scored) / len(scored), abs_tol=1e-9)

    # Comparisons: the n-th graded attempt at a task and seed is paired with another subject's.
    (subject,) = subjects_of(str(dataset.path), steps=False)
    assert subject.main.report.overall.success_rate.counts == rate
    seeded = [one for one in graded if one.info.seed is not None]
    pairs = (sum(one.outcome is O.SUCCESS for one in seeded), len(seeded))
    assert (sum(subject.main.graded.values()), len(subject.main.graded)) == pairs

    # The viewer.
    table = Table()
    table.put(Row("d", summary) for summary in dataset.summaries)
    page = table.page(Query())
    assert (page.success.counts, page.broken) == (rate, failed)
    tasks = table.success({"d"}).get("d", {}).values()
    assert tuple(map(sum, zip(*(one.counts for one in tasks), strict=True))) == (
        rate if rate[1] else ()
    )
    for one in every:
        assert episode_data(one, lambda data: "")["total_reward"] == total(one)

    # A judge sees what ended by itself, once for each row. A copy, so that nothing else changes.
    shutil.copytree(dataset.path, folder / "judged")
    judge = Noting()
    asyncio.run(judge_dataset(folder / "judged", judge, when="always"))
    judgeable = [one for one in counted if counts(one) and one.outcome is not O.AGENT_ERROR]
    assert sorted(judge.seen) == sorted(one.episode_id for one in judgeable)

    # What postprocessing keeps, and the dataset that it makes.
    made = asyncio.run(process(dataset.path, folder / "processed", Pipeline(())))
    assert made.superseded == len(gone)
    processed = open_dataset(folder / "processed")
    assert set(processed.episode_ids) == {one.episode_id for one in counted}
    assert measure(processed).overall.success_rate.counts == rate

    # A part counts as the whole does, also in datasets of its own.
    def rate_of(place, episodes):
        graded = [one for one in episodes if one.outcome in (O.SUCCESS, O.FAILURE, O.AGENT_ERROR)]
        graded = [one for one in graded if counts(one)]
        expected = (sum(one.outcome is O.SUCCESS for one in graded), len(graded))
        assert measure(open_dataset(place), steps=False).overall.success_rate.counts == expected

    short = [one for one in counted if one.num_steps == 1]
    copy(dataset.path, folder / "short", where=lambda summary: summary.num_steps == 1)
    rate_of(folder / "short", short)
    split(dataset.path, folder / "halves", {"a": 0.5, "b": 0.5})
    for name in ("a", "b"):
        there = set(open_dataset(folder / "halves" / name).episode_ids)
        rate_of(folder / "halves" / name, [one for one in counted if one.episode_id in there])

    check_exports_of_episodes(dataset, {one.episode_id: one for one in every}, gone, folder)

    # The run: its summary, live metrics, status, and what is left to resume.
    ours = [one for one in counted if run.place_of(one.episode_id) is not None]
    ours_graded = [one for one in graded if one in ours]
    of_run = (sum(one.outcome is O.SUCCESS for one in ours_graded), len(ours_graded))
    progress = progress_of(run, plan, dataset.summaries, RetryPolicy())
    summary = RolloutSummary(results=progress.done, seconds=1.0)
    assert (summary.total.successes, summary.total.failures) == (of_run[0], of_run[1] - of_run[0])
    assert {one.episode_id for one in summary.last_tries} == {one.episode_id for one in ours}
    assert measure_results(progress.done).overall.success_rate.counts == of_run
    assert measure(dataset, run=RUN).overall.success_rate.counts == of_run
    assert measure(dataset, run=RUN).played == sum(map(counts, ours))
    with MetricsObserver() as observer:
        for result in sorted(progress.done, key=lambda result: result.episode_id[::-1]):
            observer.episode_ended(result)
        assert observer.metrics.success_rate.counts == of_run
    rows = Rows(plan, RetryPolicy())
    for one in dataset.summaries:
        if (place := run.place_of(one.episode_id)) is not None:
            rows.add(one, *place)
    assert rows.summarize_judged({}, waiting=False)[2].counts == of_run
    done = {run.place_of(one.episode_id)[0] for one in ours if counts(one)}
    assert not done & {turn.planned.row for turn in progress.left}

    # The replay buffer and the exports.
    buffer = ReplayBuffer.from_datasets([dataset.path], filters=KEPT)
    usable = [
        one for one in counted
        if counts(one) and one.outcome in (O.SUCCESS, O.FAILURE, O.UNKNOWN)
    ]  # fmt: skip
    assert set(buffer.all.episode_ids) == {one.episode_id for one in usable}
    rewards = {one.episode_id: worth(one) for one in usable}
    wanted = advantages(counted)
    for sample in buffer.all:
        name = sample.key.episode_id
        assert sample.reward == rewards[name]
        assert close(sample.advantage, wanted.get(name))
    known = {one.episode_id: one for one in usable}
    with_reward = {one.episode_id for one in usable if worth(one) is not None}
    for format_name in ("tokens", "sharegpt", "openai", *(["trl"] if HAS["pyarrow"] else [])):
        out = folder / format_name
        expected = with_reward if format_name == "tokens" else set(rewards)
        assert exported(buffer, out, format_name) == expected
    if HAS["pyarrow"] and rewards:
        for row in rows_of(folder / "trl", "data/*.parquet"):
            name = row["sample"].partition("/")[0]
            assert row["reward"] == rewards[name]
            assert close(row["advantage"], wanted.get(name))
    if with_reward:
        samples = list(read_export(folder / "tokens"))
        ours_too = Advantages(samples, PolicySettings())
        for sample in samples:
            name = sample.key.episode_id
            assert close(sample.advantage, wanted[name])
            assert close(ours_too.of(sample), wanted[name] or 0.0)
    pairs = pairs_of(buffer)
    for format_name in ("preferences", *(["trl-preferences"] if HAS["pyarrow"] else [])):
        assert exported(buffer, folder / format_name, format_name) == {one for one, _ in pairs}
    for chosen, rejected in pairs:
        better, worse = known[chosen], known[rejected]
        assert group_of(better) == group_of(worse)
        members = [one for one in counted if group_of(one) == group_of(better)]
        assert any(one.outcome is O.SUCCESS and counts(one) for one in members)
    only = ReplayBuffer.from_datasets([dataset.path], filters=dataclasses.replace(
        KEPT, filter_successful_only=True))  # fmt: skip
    won = {one.episode_id for one in usable if one.outcome is O.SUCCESS}
    assert set(only.all.episode_ids) == won
    for sample in only.all:
        assert close(sample.advantage, wanted.get(sample.key.episode_id))


class Noting:
    """A judge that says nothing of what it sees."""

    def __init__(self):
        self.seen = []

    async def judge(self, trajectory):
        self.seen.append(trajectory.episode_id)
        return Judgement(outcome=O.UNKNOWN)


def check_exports_of_episodes(dataset, every, gone, folder):
    """Compare what each format says of every episode with the reference."""

    def export(format_name):
        export_dataset(dataset, folder / format_name, format=format_name)
        return folder / format_name

    def says(name, total_reward, finished, superseded):
        one = every[name]
        by_itself = one.end.reason in BY_ITSELF and one.outcome not in (*MACHINERY, O.CANCELLED)
        assert (total_reward, finished, superseded) == (total(one), by_itself, name in gone)

    for path in export("atif").glob("*.json"):
        told = json.loads(path.read_bytes())
        extra = told["extra"]
        says(told["session_id"], extra.get("reward"), "notes" not in told, extra["superseded"])
    _, lines = read_manifest(folder / "atif")
    for line in lines:
        one = every[line["episode_id"]]
        says(one.episode_id, total(one), line["finished"], line["superseded"])
    for row in dataset.episode_rows():
        assert row["total_reward"] == total(every[row["episode_id"]])
        assert row["superseded"] is (row["episode_id"] in gone)
    if HAS["pyarrow"]:
        dataset.to_parquet(folder / "index.parquet")
        for row in rows_of(folder, "index.parquet"):
            assert row["total_reward"] == total(every[row["episode_id"]])
            assert row["superseded"] is (row["episode_id"] in gone)
        for row in rows_of(export("huggingface"), "trajectories/*.parquet"):
            says(row["episode_id"], row["total_reward"], row["finished"], row["superseded"])
    if HAS["opentelemetry.sdk"]:
        for line in (export("otel") / "traces.jsonl").read_text().splitlines():
            (root,) = [
                span
                for scope in json.loads(line)["resourceSpans"][0]["scopeSpans"]
                for span in scope["spans"]
                if not span.get("parentSpanId")
            ]
            told = {item["key"]: item["value"] for item in root["attributes"]}
            one = every[told["gen_ai.conversation.id"]["stringValue"]]
            assert told.get("webtraj.reward", {}).get("doubleValue") == total(one)
            assert told["webtraj.superseded"]["boolValue"] is (one.episode_id in gone)
            failed = root.get("status", {}).get("code") in (2, "STATUS_CODE_ERROR")
            cancelled = one.end.reason is R.CANCELLED
            assert failed is (broke(one) or one.outcome is O.AGENT_ERROR or cancelled)


def rows_of(folder, pattern):
    """Return the rows of a folder's Parquet files."""
    import pyarrow.parquet as pq

    return [row for path in folder.glob(pattern) for row in pq.read_table(path).to_pylist()]


def pairs_of(buffer):
    """Return the episodes of each pair of preferences."""
    try:
        found = preferences_of(buffer.all)
    except errors.InvalidInputError:
        return []
    return [(one.key.episode_id, find_rejected(one).sample.partition("/")[0]) for one in found]


def exported(buffer, out, format_name):
    """Export all samples, and return the ids of their episodes."""
    weighed = buffer.all.with_loss_weights(lambda view: [1.0] * len(view))
    try:
        export_selection(weighed, out, format=format_name)
    except errors.InvalidInputError:
        return set()
    _, lines = read_manifest(out)
    return {line["episode_id"] for line in lines}


def close(one, other):
    if one is None or other is None:
        return one is other
    return math.isclose(one, other, abs_tol=1e-9)
