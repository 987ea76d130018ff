"""A loop's configuration: what it takes, and what it says of what it does not take."""

import pytest

from installed import install
from rows import each
from webtraj import errors
from webtraj.loop import configuration, load_loop_config
from webtraj.loop.commands import make_phase
from webtraj.loop.phases import Policy, Slot, lanes
from webtraj.settings.configuration import override

FILE = """
out: ${oc.env:HOME}/runs
iterations: 4
train: {model: some/model, learning_rate: 0.001, lora: {rank: 4}}
rollout: {preset: [miniwob/click-test], parallel: 2}
"""


def test_given_values_override_the_file_and_key_value_overrides_both(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", "/somewhere")
    path = tmp_path / "loop.yaml"
    path.write_text(FILE)
    given = {"seed": 9, "iterations": 7}
    config = load_loop_config(path, ["iterations=5", "train.lora.rank=8"], given)
    assert (config.out, config.iterations, config.seed) == ("/somewhere/runs", 5, 9)
    assert (config.train.learning_rate, config.train.lora.rank) == (0.001, 8)


LEAST = {
    "out": "runs",
    "train": {"model": "a/b"},
    "rollout": {"preset": ["miniwob/click-test"]},
}


def test_printed_configuration_is_the_same_configuration(tmp_path):
    options = {"instruction": "costs ${model}"}
    text = r"rollout.agent_options.instruction='costs \${model}'"
    config = load_loop_config(overrides=[text], given={**LEAST, "first": {"policy": "random"}})
    assert config.rollout.agent_options == options
    path = tmp_path / "printed.yaml"
    path.write_text(configuration.to_yaml(config))
    assert load_loop_config(path) == config
    assert configuration.to_yaml(load_loop_config(path)) == path.read_text()


@each("name", ["rollout", "export", "train", "publish", "evaluation"])
def test_a_printed_configuration_with_a_command_is_loaded_again(name, tmp_path):
    config = load_loop_config(given={**LEAST, name: {"command": ["{python}"]}})
    path = tmp_path / "printed.yaml"
    path.write_text(configuration.to_yaml(config))
    assert getattr(load_loop_config(path), name).command == ["{python}"]


def test_settings_of_a_command_are_any_text():
    given = {"a": "\N{GRINNING FACE} \x7f\x85\u2028\ufeff"}
    (text,) = configuration.overrides_of({"options": given})
    assert override(text, example="a=1") == {"options": given}


@each(
    ("given", "said"),
    [
        pytest.param({"itertions": 2}, "did you mean iterations?", id="nearest-key"),
        pytest.param({"train": {"modle": "a/b"}}, "did you mean train.model?", id="nested-key"),
        pytest.param({"iterations": 0}, "iterations: must be greater", id="too-small"),
        pytest.param({"train": {}}, "set train.model", id="no-model-to-begin-with"),
        pytest.param(
            {"train": {"model": "a/b", "llamafactory": {}}}, "train.llamafactory.python: missing",
            id="no-python",
        ),
        pytest.param(
            {"train": {"model": "a/b", "epochs": 2, "llamafactory": {"python": "x"}}},
            "takes no epochs", id="two-trainers",
        ),
        pytest.param({"rollout": {}}, "set rollout.preset", id="nothing-to-play"),
        pytest.param({"rollout": {"seed": 1}}, "takes no seed", id="set-by-the-loop"),
        pytest.param(
            {"first": {"rollout": {"out": "x"}}}, "takes no rollout.out", id="set-in-the-first"
        ),
        pytest.param(
            {"groups": {"rollout": {"iteration": {"number": 3}}}},
            "takes no rollout.iteration.number", id="set-in-groups",
        ),
        pytest.param({"judge": {}}, "No judge given", id="no-judge"),
        pytest.param(
            {"judge": {"judges": ["modle"], "options": {"model": "m"}}}, "Did you mean 'model'",
            id="no-such-judge",
        ),
        pytest.param({"export": None}, "needs an export", id="nothing-to-train-on"),
        pytest.param({"serve": {"engine": "external"}}, "needs url", id="no-url"),
        pytest.param(
            {"judge": {"command": ["x"], "when": "always"}}, "both a command and when, which",
            id="two-ways",
        ),
        pytest.param({"judge": {"command": []}}, "empty command", id="empty-command"),
        pytest.param(
            {"extra": [{"name": "train", "command": ["x"], "after": "train"}]},
            "for a built-in phase", id="taken-name",
        ),
        pytest.param({"interpreters": {"tarin": "x"}}, "names 'tarin'", id="no-such-phase"),
        pytest.param({"export": {"format": "opnai"}}, "Did you mean 'openai'", id="no-such-format"),
        pytest.param(
            {"postprocess": {"steps": ["cleen:min_steps=2"]}}, "Did you mean 'clean'",
            id="no-such-step",
        ),
        pytest.param(
            {"train": {"model": "a/b", "lerning_rate": 1e-3}},
            "did you mean train.learning_rate?", id="no-such-key-of-the-trainer",
        ),
        pytest.param(
            {"publish": {"command": ["cp", "{modell}"]}}, "Did you mean 'model'?",
            id="nearest-placeholder",
        ),
        pytest.param({"out": "s3://bucket/loop"}, "expected a folder", id="bucket"),
        pytest.param(
            {"overlap": {"enabled": True}, "serve": {"engine": "vllm", "while_training": "stop"}},
            "takes the server away", id="overlap-without-server",
        ),
        pytest.param(
            {"overlap": {"max_staleness": 2}}, "set overlap.enabled=true", id="no-overlap"
        ),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said(given, said):
    with pytest.raises(errors.InvalidInputError) as raised:
        load_loop_config(given={**LEAST, **given})
    assert said in str(raised.value)


GROUPED = {
    "first": {"policy": "a/b"},
    "groups": {
        "rollout": {"group_size": 4, "attempts": 2, "temperature": 0.7},
        "train": {"learning_rate": 0.5, "policy": {"clip_high": 0.28}},
    },
}


def grouped(algorithm="grpo", **more):
    given = {**PLAYED, **GROUPED, "train": {"model": "a/b", "algorithm": algorithm}, **more}
    return load_loop_config(given={"iterations": 3, **given})


def sampled(**changed):
    """Settings of a rollout of groups, with something else about its agent."""
    return {"groups": {"rollout": {**GROUPED["groups"]["rollout"], **changed}}}


@each(
    ("algorithm", "more", "said"),
    [
        pytest.param("grop", {}, "must be 'sft', 'grpo' or 'mixed'", id="unknown"),
        pytest.param([], {}, "train.algorithm", id="none"),
        pytest.param(
            "grpo", {"first": {"policy": "random"}},
            "which the agent random plays without a model; set sft for the first 1: "
            "train.algorithm=[sft, grpo]", id="random-at-first",
        ),
        pytest.param(
            ["sft", "mixed"],
            {"first": {"policy": "oracle"}, "overlap": {"enabled": True},
             "export": {"format": "openai"}},
            "train.algorithm=[sft, sft, mixed]", id="oracle-longer-by-overlap",
        ),
        pytest.param("mixed", {}, "set export.format to another one", id="tokens-imitated"),
        pytest.param("mixed", {"export": None}, "needs an export", id="nothing-imitated"),
        pytest.param(
            "grpo", {"train": {"model": "a/b", "algorithm": "grpo", "begin": "base"}},
            "set train.begin=previous", id="other-weights",
        ),
        pytest.param(
            "grpo",
            {"train": {"model": "a/b", "algorithm": "grpo", "llamafactory": {"python": "x"}}},
            "needs the built-in trainer", id="llamafactory",
        ),
        pytest.param(
            "grpo", {"groups": {}}, "group_size=8", id="no-group",
        ),
        pytest.param("grpo", sampled(temperature=0.0), "the temperature 0.0", id="greedy"),
        pytest.param("grpo", sampled(temperature=None), "the temperature None", id="servers-own"),
        pytest.param(
            "grpo", sampled(agent_options={"min_p": 0.1}), "Set agent_options.min_p=0",
            id="cut-off",
        ),
        pytest.param(
            "grpo", sampled(agent_options={"enforce_actions": True}), "under a grammar",
            id="grammar",
        ),
        pytest.param("grpo", sampled(agent="oracle"), "the agent 'oracle', whose", id="no-model"),
        pytest.param(
            "grpo", {"groups": {**GROUPED["groups"], "train": {"loss_on": "all_turns"}}},
            "loss_on must be completion", id="no-such-training",
        ),
    ],
)  # fmt: skip
def test_what_an_algorithm_cannot_train_on_is_refused(algorithm, more, said):
    with pytest.raises(errors.InvalidInputError) as raised:
        grouped(algorithm, **more)
    assert said in str(raised.value)


def test_algorithm_is_given_for_all_iterations_or_by_iteration():
    config = grouped(["sft", "grpo"])
    assert [config.algorithm(number) for number in range(1, 5)] == ["sft", "grpo", "grpo", "grpo"]
    assert grouped("grpo").algorithm(7) == "grpo"
    assert load_loop_config(given=PLAYED).algorithm(1) == "sft"


SMALL = """
from webtraj.agents.catalog import AgentKind

SMALL = AgentKind("Asks.", lambda seed, options: None, shared=("model", "temperature"))
"""


@pytest.fixture
def small_agent(tmp_path, monkeypatch):
    """An installed agent that shares a few options with the agent `model`."""
    install(tmp_path, {"small_agents": SMALL}, agents={"small": "small_agents:SMALL"})
    monkeypatch.syspath_prepend(str(tmp_path))


def test_an_installed_agent_is_checked_for_the_options_that_it_shares(small_agent):
    options = {"temperature": 0.5, "top_k": 2}
    grouped(**sampled(agent="small", agent_options=options, temperature=None))
    with pytest.raises(errors.InvalidInputError, match="the temperature None"):
        grouped(**sampled(agent="small", temperature=None))


def test_rollouts_play_groups_where_they_are_trained_on():
    config = grouped(["sft", "grpo"])
    policy = Policy(version=1, weights="w", model="policy")
    alone, in_groups = (
        command(config, Slot(number, "rollout", "rollout"), policy) for number in (1, 2)
    )
    wanted = {"group_size=4", "attempts=2", "temperature=0.7"}
    assert wanted <= set(in_groups)
    assert not wanted & set(alone)
    evaluated = command(config, Slot(2, "evaluate", "rollout"), policy)
    assert not wanted & set(evaluated)


@pytest.mark.parametrize(
    ("algorithm", "phases", "data"),
    [
        ("sft", ["export"], ["runs/exports/iteration_0002"]),
        ("grpo", ["groups"], ["runs/groups/iteration_0002"]),
        (
            "mixed", ["export", "groups"],
            ["runs/groups/iteration_0002", "runs/exports/iteration_0002"],
        ),
    ],
)  # fmt: skip
def test_training_gets_the_data_of_its_algorithm(algorithm, phases, data):
    config = grouped(algorithm, export={"format": "openai"})
    (lane,) = lanes(config)
    in_second = [slot.name for slot in lane if slot.iteration == 2]
    assert [name for name in in_second if name in ("export", "groups")] == phases
    made = command(config, Slot(2, "train", "update"))
    assert [made[place + 1] for place, text in enumerate(made) if text == "--data"] == data
    gradient = {'no_samples="keep"', 'policy={"clip_high": 0.28}', "learning_rate=0.5"}
    assert gradient & set(made) == (set() if algorithm == "sft" else gradient)


def test_policy_gradient_needs_no_settings():
    rollout = GROUPED["groups"]["rollout"]
    made = command(grouped(groups={"rollout": rollout}), Slot(1, "train", "update"))
    assert "policy={}" in made


def test_groups_are_of_the_last_iterations_as_played():
    groups = {**GROUPED["groups"], "iterations": 2}
    more = {
        "judge": {"judges": ["rules"]}, "postprocess": {"steps": ["clean"]}, "groups": groups,
    }  # fmt: skip
    config = grouped(["sft", "grpo"], export={"format": "openai", "held_out": ["a/b"]}, **more)
    place = "runs/train_trajectories/iteration_000"
    made = command(config, Slot(3, "groups", "update"))
    assert made[:5] == ["train", "export", f"{place}2", "--then", f"{place}3"]
    assert {'format="tokens"', 'held_out=["a/b"]'} <= set(made)
    # Iteration 1 played none.
    assert "--then" not in command(config, Slot(2, "groups", "update"))


def test_a_bare_name_is_a_recipe_unless_a_file_has_it(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert load_loop_config("one_gpu").out == "runs/one_gpu"
    (tmp_path / "one_gpu").write_text("{out: mine, train: {model: a/b}, rollout: {preset: [x]}}")
    assert load_loop_config("one_gpu").out == "mine"


def command(config, slot, policy=None):
    phase = make_phase(config, slot, policy or Policy(version=0))
    return list(phase.command[3:])


PLAYED = {
    **LEAST,
    "evaluation": {"preset": ["miniwob/click-test"]},
    "rollout": {"preset": ["miniwob/click-test"], "temperature": 0.5},
}
SERVED = Policy(version=1, weights="w", model="policy", urls=("http://h:1/v1",))


def test_an_agent_without_a_model_may_play_more():
    more = {"attempts": 9}
    config = load_loop_config(given={**PLAYED, "first": {"policy": "random", "rollout": more}})
    assert "attempts=9" in command(config, Slot(1, "rollout", "rollout"))
    assert "attempts=9" not in command(config, Slot(0, "evaluate", "rollout"))
    assert "attempts=9" not in command(config, Slot(2, "rollout", "rollout"), SERVED)


def test_the_loop_makes_iterations_of_rollouts_that_name_none():
    rollout = {**PLAYED["rollout"], "iteration": None}
    made = command(
        load_loop_config(given={**PLAYED, "rollout": rollout}), Slot(1, "rollout", "rollout")
    )
    assert 'iteration={"split": "train", "number": 1}' in made


def played_by(rollout, *, first="random"):
    rollout = {"preset": ["miniwob/click-test"], **rollout}
    config = load_loop_config(given={**PLAYED, "first": {"policy": first}, "rollout": rollout})
    return command(config, Slot(2, "rollout", "rollout"), SERVED)


def test_agents_of_their_own_are_told_of_the_server_by_their_options():
    made = played_by({"agent": "mine", "agent_options": {"temperature": 0.5}})
    assert (
        'agent_options={"model": "policy", "base_url": "http://h:1/v1", "temperature": 0.5}' in made
    )


def test_an_installed_agent_that_shares_the_model_is_told_of_it_like_the_model_agent(small_agent):
    made = played_by({"agent": "small"})
    assert {'model="policy"', 'base_url="http://h:1/v1"'} <= set(made)


def test_any_agent_without_a_model_may_play_first():
    first = {"policy": "curious", "agent_options": {"ends": 0.5}}
    made = command(
        load_loop_config(given={**PLAYED, "first": first}), Slot(1, "rollout", "rollout")
    )
    assert {'agent="curious"', 'agent_options={"ends": 0.5}'} <= set(made)
    assert "temperature=0.5" not in made  # It has no model.


def test_evaluations_play_the_same_and_rollouts_do_not():
    config = load_loop_config(given=PLAYED)
    phases = {
        slot.key: make_phase(config, slot, Policy(version=0))
        for name in ("rollout", "evaluate")
        for slot in (Slot(1, name, "rollout"), Slot(2, name, "rollout"))
    }
    assert phases[1, "evaluate"].seed == phases[2, "evaluate"].seed
    assert phases[1, "rollout"].seed != phases[2, "rollout"].seed
    assert phases[1, "evaluate"].seed not in {phases[n, "rollout"].seed for n in (1, 2)}
    assert phases[1, "evaluate"].outputs[0].path == "runs/test_trajectories/iteration_0002"


@pytest.mark.parametrize(("window", "kinds"), [(None, ["dataset", "kept"]), (1, ["dataset"] * 2)])
def test_an_iteration_may_come_to_nothing_where_earlier_ones_are_trained_on(window, kinds):
    given = {**PLAYED, "postprocess": {"steps": ["clean"]}, "export": {"iterations": window}}
    config = load_loop_config(given=given)
    slots = [Slot(number, "postprocess", "rollout") for number in (1, 2)]
    made = [make_phase(config, slot, Policy(version=0)).outputs[0].kind for slot in slots]
    assert made == kinds


def test_export_replays_the_last_iterations():
    config = load_loop_config(
        given={
            **PLAYED,
            "judge": {"options": {"model": "some/judge", "votes": 3}},
            "postprocess": {"steps": [{"clean": {"min_steps": 2}}]},
            "export": {"iterations": 2, "filters": {"min_steps": 1}, "samples": 64},
        }
    )
    made = command(config, Slot(3, "export", "update"))
    assert made[2:5] == ["runs/processed/iteration_0002", "--then", "runs/processed/iteration_0003"]
    assert {'filters={"min_steps": 1}', "samples=64"} <= set(made)
    processed = command(config, Slot(3, "postprocess", "rollout"))
    assert processed[1:5] == [
        "--read", "runs/train_trajectories/iteration_0003",
        "--write", "runs/processed/iteration_0003",
    ]  # fmt: skip
    assert processed[5:] == ['steps=[{"clean": {"min_steps": 2}}]']
    assert command(config, Slot(3, "judge", "rollout")) == [
        "judge", "run", "runs/train_trajectories/iteration_0003",
        'options={"model": "some/judge", "votes": 3}',
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("begin", "base"),
    [("previous", "runs/training/iteration_0001/model.pt"), ("base", "a/b")],
    ids=["previous", "base"],
)
def test_training_begins_with_the_weights_before_or_with_the_base(begin, base):
    given = {**PLAYED, "train": {"model": "a/b", "begin": begin, "epochs": 2}}
    made = command(load_loop_config(given=given), Slot(2, "train", "update"))
    assert made[made.index("--model") + 1] == base
    assert "epochs=2" in made


def test_llamafactory_finds_what_was_processed_by_links():
    train = {"model": "a/b", "llamafactory": {"python": "lf/bin/python"}}
    given = {**PLAYED, "train": train, "export": None, "postprocess": {}}
    config = load_loop_config(given=given)
    phase = make_phase(config, Slot(2, "train", "update"), Policy(version=1))
    assert phase.links == {
        f"runs/training/iteration_0002/train_trajectories/iteration_000{n}":
            f"runs/processed/iteration_000{n}" for n in (1, 2)
    }  # fmt: skip
    assert 'save_path="runs/training/iteration_0002"' in phase.command
    assert phase.command[5:8] == ("--python", "lf/bin/python", "--train")
