"""`webtraj rollout submit`, as far as it needs no cluster."""

import json
import stat

import dm_env
import pytest
from typer.testing import CliRunner

from webtraj import errors, registry
from webtraj.cli.app import make_app
from webtraj.rollouts import RunSpec
from webtraj.rollouts.distributed import Cluster, collect_on_ray, job
from webtraj.rollouts.distributed.job import Job
from webtraj.rollouts.rollout import Rollout

pytest.importorskip("ray")

KEY = "sk-very-secret"


@pytest.fixture
def submitted(monkeypatch):
    """What reached Ray's client, with the module that went along."""
    sent = []

    class Client:
        def submit_job(self, *, entrypoint, runtime_env):
            from pathlib import Path

            module = Path(runtime_env["py_modules"][0])
            files = {path.name: path.read_text() for path in module.iterdir()}
            modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in module.iterdir()}
            sent.append((entrypoint, runtime_env, files, modes))
            return "job-1"

    monkeypatch.setattr(job, "_client", lambda address: Client())
    return sent


def run(*arguments, **environment):
    return CliRunner().invoke(make_app(), ["rollout", "submit", *arguments], env=environment)


def test_fields_of_the_source_come_from_the_environment(submitted):
    result = run(
        "--no-wait", "--model=gpt-5", SOURCE_S3_URI="s3://a/tasks.jsonl", SAVE_S3_URI="s3://a/out",
        OPENAI_API_KEY=KEY, MAX_TRAJS="7", MAX_STEPS="9",
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    assert result.output == "job-1\n"
    ((entrypoint, runtime_env, files, modes),) = submitted
    spec = RunSpec(**json.loads(files["job.json"])["spec"])
    assert (spec.preset, spec.out) == (["s3://a/tasks.jsonl"], "s3://a/out")
    assert (spec.episodes, spec.max_steps) == (7, 9)
    assert (spec.agent, spec.agents_options) == ("model", {"model": "gpt-5"})
    assert json.loads(files["variables.json"]) == {"OPENAI_API_KEY": KEY}
    assert modes["variables.json"] == 0o600
    assert KEY not in entrypoint + repr(runtime_env) + files["job.json"] + repr(spec)


def test_the_defaults_are_the_sources(submitted):
    result = run("--no-wait", "--preset=miniwob/all", "--out=s3://a/out", OPENAI_API_KEY="")
    assert result.exit_code == 0, result.output
    ((_, _, files, _),) = submitted
    spec = RunSpec(**json.loads(files["job.json"])["spec"])
    assert (spec.max_steps, spec.agent, spec.max_retries) == (15, "model", 3)
    assert "variables.json" not in files


def test_the_flags_of_a_rollout_are_those_of_a_job(submitted):
    given = ("--agent=random", "--seed=4", "max_repetitive_actions=2", "--timeout=60")
    result = run("--no-wait", "--preset=a,b", "--out=s3://a/out", "--episodes=7", *given)
    assert result.exit_code == 0, result.output
    ((_, _, files, _),) = submitted
    one = RunSpec(**json.loads(files["job.json"])["spec"])
    assert (one.preset, one.seed, one.timeout) == (["a", "b"], 4, 60.0)
    assert one.max_repetitive_actions == 2
    record = one.record()
    assert RunSpec(**record).record() == record


def test_keys_override_the_flags_of_a_job(submitted):
    keys = ("preset=b", "out=s3://a/b", "episodes=9", "judge_options.model=${model}")
    result = run("--no-wait", "--preset=a", "--episodes=7", "--model=m", *keys)
    assert result.exit_code == 0, result.output
    ((_, _, files, _),) = submitted
    one = RunSpec(**json.loads(files["job.json"])["spec"])
    assert (one.preset, one.out, one.episodes) == (["b"], "s3://a/b", 9)
    assert one.judge_options == {"model": "m"}


def test_a_job_needs_a_source_and_a_place(submitted):
    result = run("--no-wait", "--preset=miniwob/all")
    assert isinstance(result.exception, errors.InvalidInputError)
    assert "SAVE_S3_URI" in str(result.exception)
    assert submitted == []


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"address": "ray://10.0.0.1:10001"}, "webtraj rollout submit"),
        ({"lease": 0}, "lease"),
    ],
    ids=["client address", "no lease"],
)
async def test_what_cannot_be_played_on_many_machines(options, words, climber, tmp_path):
    with pytest.raises(errors.InvalidInputError, match=words):
        await collect_on_ray(
            RunSpec(preset="ladder/climb", out=tmp_path / "out"),
            agent=climber,
            cluster=Cluster(**options),
        )
    assert not (tmp_path / "out").exists()


async def test_a_rollout_on_many_machines_needs_a_place_to_record(climber):
    with pytest.raises(errors.InvalidInputError, match="out is needed"):
        await collect_on_ray(RunSpec(preset="ladder/climb"), agent=climber)


async def test_tasks_that_the_oracle_cannot_play_are_named_before_anything_starts(ladder, tmp_path):
    class Unsolved(ladder):
        has_oracle = False

    registry.register("ladder/unsolved", Unsolved, tasks=("climb",))
    with pytest.raises(errors.InvalidInputError, match="cannot play 1 of 2 tasks: ladder/unsolved"):
        await collect_on_ray(
            RunSpec(
                preset=["ladder/climb", "ladder/unsolved"], agent="oracle", out=tmp_path / "out"
            )
        )
    assert not (tmp_path / "out").exists()


@pytest.fixture
def played(monkeypatch):
    """The rollouts that jobs build, instead of playing them on a cluster."""
    registry.register("still", Still, tasks=("a", "b"))
    built = []

    async def play(self, **options):
        built.append(self)
        return await play_here(self)

    play_here = Rollout.play
    monkeypatch.setattr(Rollout, "play", play)
    return built


class Still:
    """Ends at the first step."""

    def __init__(self, tasks):
        self.task = tasks[0]

    async def reset(self):
        return dm_env.restart(0)

    async def step(self, action):
        return dm_env.termination(1.0, 1)


@pytest.mark.parametrize(
    ("given", "episodes"),
    [({}, 100), ({"group_size": 8}, 104), ({"attempts": 3}, 6), ({"episodes": 4}, 4)],
)
async def test_a_job_plays_whole_groups(given, episodes, played, tmp_path):
    fields = {"preset": ["still"], "out": str(tmp_path / "d"), "agent": "random", **given}
    await job._play(Job.of(fields), {})
    assert len(played[0].plan) == episodes


async def test_a_job_plays_and_resumes_an_iteration(played, tmp_path):
    given = {"out": str(tmp_path / "d"), "iteration": {"sampler": "sequential", "repeat": 3}}
    await job._play(Job.of({"preset": ["still"], "agent": "random", **given}), {})
    await job._play(Job.of(given, resume=True), {})
    first, again = played
    assert len(first.plan) == 6
    assert (again.run_id, again.plan, again.spec.agent) == (first.run_id, first.plan, "random")


async def test_a_resumed_job_is_as_it_was_begun(played, tmp_path):
    place = str(tmp_path / "d")
    begun = {"agent": "random", "max_steps": 40, "max_retries": 1, "seed": 9, "episodes": 2}
    await job._play(Job.of({"preset": ["still"], "out": place, **begun}), {})
    sent = job._JOB.dump_json(
        Job.of({"out": place, "preset": ["x"], "parallel": 3}, resume=True), exclude_unset=True
    )
    await job._play(job._JOB.validate_json(sent), {})
    first, again = played
    assert again.spec.agents_options == first.spec.agents_options
    assert (again.spec.max_steps, again.spec.max_retries) == (40, 1)
    assert (again.plan, again.spec.parallel) == (first.plan, 3)
    with pytest.raises(errors.InvalidInputError, match="seed cannot be changed"):
        await job._play(Job.of({"out": place, "seed": 7}, resume=True), {})
