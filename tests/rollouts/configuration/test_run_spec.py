"""One model is the flags, the YAML keys, the Python call and the record."""

import json
import sys

import pytest

from rows import each
from webtraj import errors, open_dataset
from webtraj.cli import flags, rollout_run
from webtraj.cli.app import make_command
from webtraj.rollouts import RunSpec, collect
from webtraj.rollouts.configuration import build_rollout, load_configuration
from webtraj.rollouts.configuration.builder import resume_run
from webtraj.runs.run import Run
from webtraj.settings.configuration import validate
from webtraj.store.places import open_storage

SPEC = {"preset": ["ladder/climb", "ladder/slip"], "episodes": 4, "seed": 3, "max_steps": 5}


@pytest.fixture(scope="module")
def options():
    """The command's options by the names of their parameters."""
    return {one.name: one for one in make_command("rollout").params}


@each(
    ("given", "fields"),
    [
        ({"parallel": "auto"}, {"parallel": "auto"}),
        ({"parallel": "4"}, {"parallel": 4}),
        ({"base_url": ["a"]}, {"base_url": "a"}),
        ({"base_url": ["a", "b"]}, {"base_url": ["a", "b"]}),
        ({"agent_options": ["mode=marks", "full_rounds=2"]},
         {"agent_options": {"mode": "marks", "full_rounds": 2}}),
        ({"judge_options": ["votes=3", "model=a"], "judge_model": "b"},
         {"judge_options": {"votes": 3, "model": "b"}}),
        ({"storage_options": ["region=here"]}, {"storage_options": {"region": "here"}}),
    ],
)  # fmt: skip
def test_flags_make_fields(given, fields):
    assert flags.fields_of(given) == fields


def test_keys_set_any_field_and_override_flags():
    given = {"environment_options": ["har=true", "size=1"], "seed": 3}
    keys = ["metrics.wandb.project=p", "environment_options.size=2", "seed=4", "observe=[text]"]
    assert flags.fields_of(given, keys) == {
        "metrics": {"wandb": {"project": "p"}},
        "environment_options": {"har": True, "size": 2},
        "seed": 4,
        "observe": ["text"],
    }
    with pytest.raises(errors.InvalidInputError, match="did you mean wait_timeout"):
        flags.fields_of({}, ["wait_timeot=3"])


def test_keys_may_refer_to_flags_whose_texts_are_no_references():
    given = {"model": "m", "agent_options": ["instruction=costs ${x}"]}
    assert flags.fields_of(given, ["judge_options.model=${model}"]) == {
        "model": "m",
        "agent_options": {"instruction": "costs ${x}"},
        "judge_options": {"model": "m"},
    }


def test_flags_of_the_commands_own_stay_beside_keys():
    fields = flags.fields_of({"run_id": "one", "imports": ["mine"]}, ["step_timeout=60"])
    assert fields == {"run_id": "one", "imports": ["mine"], "step_timeout": 60}


def test_a_file_without_out_is_played_into_a_new_folder(world, monkeypatch):
    (world / "mine.yaml").write_text(json.dumps({"kind": "run", **SPEC}))
    built = []
    monkeypatch.setattr(rollout_run, "play", lambda rollout, *_, **__: built.append(rollout))
    make_command("rollout").main(["--config", "mine.yaml"], standalone_mode=False)
    assert built[0].out.startswith("runs/")


def test_a_null_out_is_left_out():
    assert flags.fields_of({"out": "data"}, ["out=null", "seed=3"]) == {"seed": 3}


@each(
    ("given", "told"),
    [
        (["out=null", "--resume"], "--resume needs the run's dataset"),
        (["model=${modle}"], "The command line has a reference without a target"),
        (["preset=null"], "Nothing to run: give --preset"),
        (["--out=data", "--resume", "--print-config"], "Give only one of them"),
    ],
)
def test_wrong_settings_of_the_command_are_explained(given, told):
    with pytest.raises(errors.InvalidInputError, match=told):
        make_command("rollout")(given, standalone_mode=False)


def test_printing_settings_needs_omegaconf(monkeypatch):
    monkeypatch.setitem(sys.modules, "omegaconf", None)
    with pytest.raises(errors.MissingDependencyError, match="OmegaConf"):
        make_command("rollout")(["--preset=ladder/climb", "--print-config"], standalone_mode=False)


def test_the_printed_settings_are_a_configuration(tmp_path, capsys):
    given = ["--preset", "ladder/climb", "--agent", "random", "step_timeout=5.0", "--seed", "7"]
    given += ["--agent-set", "instruction=costs ${x}"]
    make_command("rollout")([*given, "--print-config"], standalone_mode=False)
    (tmp_path / "mine.yaml").write_text(capsys.readouterr().out)
    printed = load_configuration(tmp_path / "mine.yaml").spec
    assert printed == RunSpec(
        preset="ladder/climb",
        agent="random",
        agent_options={"instruction": "costs ${x}"},
        step_timeout=5.0,
        seed=7,
    )


@each(
    ("given", "agent", "judge"),
    [
        ({}, "oracle", None),
        ({"model": "m"}, "model", None),
        ({"agent": "random"}, "random", None),
        ({"judge_options": {"model": "j"}}, "oracle", "model"),
        ({"judge": "environment", "judge_options": {"votes": 3}}, "oracle", "environment"),
    ],
)
def test_a_model_implies_who_plays_and_who_judges(given, agent, judge):
    spec = RunSpec(preset="ladder/climb", **given)
    assert (spec.agent, spec.judge, spec.preset) == (agent, judge, ["ladder/climb"])


async def test_flags_yaml_and_python_play_the_same(world):
    (world / "mine.yaml").write_text(json.dumps({"kind": "run", "out": "yaml", **SPEC}))
    await build_rollout(load_configuration("mine", config_dir=world)).play()
    await build_rollout(RunSpec(**SPEC, out="flags")).play()
    await collect(RunSpec(**SPEC, out="python"))
    plans = [next(world.glob(f"{out}/runs/*/plan.jsonl")) for out in ("yaml", "flags", "python")]
    assert len({plan.read_text() for plan in plans}) == 1
    assert all(len(open_dataset(plan.parents[2])) == 4 for plan in plans)
    records = [Run.last(open_storage(out)).read_record() for out in ("flags", "python")]
    assert records[0] == records[1]
    recorded = {**records[0], "format": None}
    assert RunSpec(**recorded) == RunSpec(**SPEC)
    assert not {"out", "storage_options"} & recorded.keys()


def test_a_flag_overrides_a_file_and_key_value_overrides_both(world):
    (world / "mine.yaml").write_text(json.dumps({"kind": "run", "out": "yaml", **SPEC}))
    loaded = load_configuration(world / "mine.yaml", ["seed=9"], flags={"seed": 8, "max_steps": 6})
    assert (loaded.spec.seed, loaded.spec.max_steps, loaded.spec.episodes) == (9, 6, 4)


async def test_iterations_of_python_are_sampled_and_resumed_by_the_folder_of_all(world):
    given = {"preset": SPEC["preset"], "iteration": {"sampler": "sequential", "size": 1}}
    for number in (1, 2):
        await collect(RunSpec(**given, out="runs"))
        assert len(open_dataset(f"runs/train_trajectories/iteration_000{number}")) == 1
    again = build_rollout(RunSpec(**given, out="runs"), resume=True)
    assert (again.iteration, len((await again.play()).results)) == (2, 1)
    with pytest.raises(errors.InvalidInputError, match="leave out fork and episodes"):
        validate({**given, "episodes": 2}, RunSpec, "mine")


async def test_a_run_of_python_is_resumed_by_the_command(world):
    await collect(RunSpec(**SPEC, out="data"))
    again = resume_run({"parallel": 3}, out="data")
    assert again.spec.parallel == 3
    assert len((await again.play()).results) == 4
    assert len((await collect(RunSpec(**SPEC, out="data"), resume=True)).results) == 4


async def test_a_setting_given_again_in_another_form_does_not_change_a_run(world):
    await collect(RunSpec(preset="ladder/climb", episodes=2, out="data"))
    again = resume_run({"preset": "ladder/climb", "parallel": 2}, out="data")
    assert again.spec.preset == ["ladder/climb"]
    with pytest.raises(errors.InvalidInputError, match=r"preset cannot be changed from .* 'other'"):
        resume_run({"preset": "other"}, out="data")


async def test_what_a_spec_does_not_say_is_resumed_as_it_was_begun(world):
    begun = {**SPEC, "agent": "random", "agent_options": {"untouched": 0.5}, "out": "data"}
    await collect(RunSpec(**begun))
    again = build_rollout(RunSpec(out="data", parallel=2), resume=True)
    assert (again.spec.agent, again.spec.agents_options) == ("random", {"untouched": 0.5})
    assert (again.spec.max_steps, again.spec.parallel) == (5, 2)
    assert (again.spec.preset, again.spec.seed) == (SPEC["preset"], 3)
    changed = RunSpec(out="data", agent="random", agent_options={"untouched": 0.1})
    changed = build_rollout(changed, resume=True)
    assert changed.spec.agents_options == {"untouched": 0.1}
    with pytest.raises(errors.InvalidInputError, match="seed cannot be changed from 3"):
        build_rollout(RunSpec(out="data", seed=4), resume=True)


async def test_an_iteration_is_resumed_with_the_settings_that_it_began_with(world):
    begun = {**SPEC, "agent": "random", "iteration": {"size": 1}, "out": "runs"}
    del begun["episodes"]
    rollout = build_rollout(RunSpec(**begun))
    rollout.write_plan("json")
    again = build_rollout(
        RunSpec(out="runs", iteration={"size": 1}, parallel=2, max_retries=1), resume=True
    )
    assert (again.run_id, again.plan) == (rollout.run_id, rollout.plan)
    assert (again.spec.agent, again.spec.max_steps, again.spec.seed) == ("random", 5, 3)
    assert (again.spec.parallel, again.spec.max_retries) == (2, 1)
    changed = build_rollout(RunSpec(out="runs", iteration={"size": 1}, agent="oracle"), resume=True)
    assert changed.spec.agent == "oracle"


@each(
    ("fields", "told"),
    [
        ({"proposals": 5}, "proposals has no effect without a proposer"),
        ({"proposer_options": {"max_tokens": 5}}, "proposer_options has no effect"),
        ({"storage_options": {"region": "here"}}, "storage_options .* out is the folder 'data'"),
        ({"judge_when": "always"}, "without a judge"),
    ],
)
def test_fields_without_effect_are_refused(fields, told, world):
    with pytest.raises(errors.InvalidInputError, match=told):
        build_rollout(RunSpec(**SPEC, out="data", **fields))
    assert not (world / "data").exists()


async def test_an_agent_of_ones_own_plays_a_spec(world):
    seen = []

    def climb(observation):
        seen.append(observation)
        return "up"

    summary = await collect(RunSpec(**SPEC, out="data", max_retries=1), agent=climb)
    assert seen
    assert summary.total.episodes == 4
    record = json.loads(next(world.glob("data/runs/*/settings.json")).read_text())
    assert (record["agent"], record["max_retries"]) == ("climb", 1)
    with pytest.raises(errors.InvalidInputError, match="No agent is named 'climb'"):
        resume_run({}, out="data")
    assert len((await collect(RunSpec(out="data"), agent=climb, resume=True)).results) == 4


def test_task_files_are_played_in_rounds(world):
    given = {"preset": [str(world / "ladder.jsonl")], "agent": "random", "episodes": 8}
    rollout = build_rollout(RunSpec(**given, group_size=2, max_steps=4, out="data"))
    assert [(p.task, p.group, p.attempt) for p in rollout.plan] == [
        ("climb", 0, 0), ("climb", 0, 1), ("slip", 0, 0), ("slip", 0, 1),
        ("tire", 0, 0), ("tire", 0, 1), ("climb", 1, 0), ("climb", 1, 1),
    ]  # fmt: skip
    assert rollout.spec.max_steps == 4
    with pytest.raises(errors.InvalidInputError, match="do not divide"):
        build_rollout(RunSpec(**given, group_size=3, out="data"))
