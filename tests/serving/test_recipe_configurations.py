"""Recipes of `webtraj loop`, examples' too: what cannot run here is checked as far as it can be.

Each phase's command is read by the real command line, and what it says by the real settings.
"""

import dataclasses
import importlib.util
import sys
from pathlib import Path

import pytest

from webtraj.cli.app import COMMANDS, make_command
from webtraj.cli.flags import fields_of
from webtraj.loop import load_loop_config
from webtraj.loop.commands import check_first, make_phase
from webtraj.loop.phases import Policy, lanes
from webtraj.processing.configuration import make_pipeline
from webtraj.rollouts.configuration import build_rollout
from webtraj.runs.spec import RunSpec
from webtraj.serving import VllmLaunch, prepare_launch, vllm
from webtraj.training.llamafactory import load_update_config
from webtraj.training.sft.settings import load_train_config

ROOT = Path(__file__).resolve().parents[2]
SHIPPED = sorted((ROOT / "src/webtraj/loop/files").glob("*.yaml"))
RECIPES = [*SHIPPED, *sorted((ROOT / "examples/two_cores").glob("*.yaml"))]


@pytest.fixture(params=RECIPES, ids=lambda path: path.stem)
def recipe(request, tmp_path, monkeypatch):
    """A recipe, in a folder of its own with what it expects to find."""
    for name in ("SHARED", "NODE", "TASKS", "JUDGE_MODEL", "JUDGE_URL", "LLAMAFACTORY_PYTHON"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TASKS", str(tmp_path))
    for split in ("train", "test"):
        task = '{"preset": "miniwob/click-test", "name": "click-test", "difficulty": 1}\n'
        (tmp_path / f"{split}.jsonl").write_text(task)
    return load_loop_config(request.param, [f"out={tmp_path / 'loop'}"])


def commands(recipe):
    """Yields the command of each phase of the first two iterations, with the phase's name."""
    for slot in (slot for lane in lanes(recipe) for slot in lane if slot.iteration <= 2):
        trained = slot.iteration - (slot.name != "evaluate")
        weights = recipe.first.policy if recipe.first.agent is None else ""
        policy = Policy(version=0, weights=weights, model=weights)
        if trained > 0:
            policy = Policy(
                version=trained, weights="model.pt", model="policy", urls=("http://a/v1",)
            )
        yield slot.name, make_phase(recipe, slot, policy).command


def parsed(command):
    """Returns the name and the parameters that the command line reads of a phase's command."""
    words = list(command[command.index("webtraj") + 1 :])
    name = " ".join(words[:2]) if " ".join(words[:2]) in COMMANDS else words[0]
    context = make_command(name).make_context(name, words[len(name.split()) :])
    return name, context.params


def test_command_line_takes_the_command_of_every_phase(recipe):
    check_first(recipe)
    names = set()
    for name, command in commands(recipe):
        names.add(name)
        if "webtraj" in command:
            assert parsed(command)[1]
        else:
            assert importlib.util.find_spec(command[command.index("-m") + 1])
    assert {"rollout", "train", "publish", "evaluate"} <= names


def test_postprocessing_has_these_steps():
    with_steps = []
    for path in RECIPES:
        given = load_loop_config(path).postprocess
        if given is not None:
            with_steps.append(path.stem)
            make_pipeline(given.choices())
    assert with_steps == ["one_gpu", "all_tasks", "two_cores"]


def test_rollouts_can_be_built(recipe):
    seen = 0
    for name, command in commands(recipe):
        if name in ("rollout", "evaluate"):
            _, params = parsed(command)
            build_rollout(RunSpec(**fields_of({}, params["arguments"])))
            seen += 1
    assert seen >= 3


def test_trainings_settings_are_its_own(recipe):
    for name, command in commands(recipe):
        if name != "train":
            continue
        which, params = parsed(command)
        if which == "train update":
            config = load_update_config(params["config"], params["overrides"])
            assert config.algorithm_config.deepspeed_config_filename == "ds_config_zero2.json"
        else:
            assert which == "train"
            given = {name: params[name] for name in ("model", "data", "out")}
            assert load_train_config(None, params["overrides"], given).seed


def test_server_is_one_that_can_be_launched(recipe):
    known = {field.name for field in dataclasses.fields(VllmLaunch)}
    assert set(recipe.serve.options) <= known
    given = VllmLaunch(model="some/model", python=sys.executable, **recipe.serve.options)
    launch = prepare_launch(recipe.serve.update, given)
    if recipe.serve.while_training != "keep":
        vllm.check(recipe.serve.while_training, launch)
    assert launch.command(recipe.serve.host, 8000)


def test_server_of_one_gpu_may_sleep_and_take_adapters():
    changes = ["train.begin=base", "serve.update=lora", "serve.while_training=sleep"]
    given = load_loop_config("one_gpu", [
        *changes, "serve.options.sleep_mode=true"
    ])  # fmt: skip
    launch = prepare_launch(given.serve.update, VllmLaunch(model="a/b", **given.serve.options))
    vllm.check(given.serve.while_training, launch)
    assert {"--enable-lora", "--enable-sleep-mode"} <= set(
        dataclasses.replace(launch, python=sys.executable).command("127.0.0.1", 0)
    )


def test_there_are_these_recipes():
    assert [path.stem for path in SHIPPED] == ["node_of_8", "one_gpu", "ray_cluster"]
