"""The files of an update, checkpoints, steps, and publishing. LLaMA-Factory is not needed here."""

import datetime
import json
import os
import pickle
import shlex
import subprocess
import sys
import zipfile

import pytest
import yaml
from llamafactory_runs import ON_A_CPU, make_episode, record, record_some
from typer.testing import CliRunner

from rows import each
from webtraj import errors
from webtraj.cli import app
from webtraj.serving import interpreters
from webtraj.training.llamafactory import load_update_config, prepare_update, publish
from webtraj.training.llamafactory.checkpoints import (
    base_rates,
    find_checkpoint,
    incomplete,
    steps_for,
)
from webtraj.training.llamafactory.configuration import LogConfig
from webtraj.training.llamafactory.process import TrainingFailedError, run_training
from webtraj.training.llamafactory.train_config import CONFIGS, environment, script
from webtraj.trajectory import Outcome

SOURCE_KEYS = [
    "model_output_name",
    "samples_to_train",
    "recency_bias_power",
    "val_split_ratio",
    "cutoff_len",
    "per_device_train_batch_size",
    "per_device_eval_batch_size",
    "gradient_accumulation_steps",
    "learning_rate",
    "max_grad_norm",
    "weight_decay",
    "num_train_epochs",
    "warmup_steps",
    "lr_scheduler_type",
    "logging_steps",
    "bf16",
    "do_eval",
    "eval_strategy",
    "save_strategy",
    "save_steps",
    "save_total_limit",
    "save_only_model",
    "preprocessing_num_workers",
    "dataloader_num_workers",
    "dataloader_pin_memory",
    "remove_unused_columns",
    "min_token_length",
    "gradient_checkpointing",
    "plot_loss",
    "deepspeed_config_filename",
    "report_to",
]


def weights(folder, value=1, name="model.safetensors"):
    """Writes a model of one number."""
    folder.mkdir(parents=True, exist_ok=True)
    header = json.dumps({"w": {"dtype": "U8", "shape": [1], "data_offsets": [0, 1]}}).encode()
    content = len(header).to_bytes(8, "little") + header + bytes([value])
    (folder / name).write_bytes(content)
    (folder / "config.json").write_text('{"model_type": "qwen3_vl"}')
    return folder


def configuration(tmp_path, *more):
    model = weights(tmp_path / "base")
    return load_update_config(
        "update_online", [f"save_path={tmp_path}", f"policy_config.base_model={model}", *more]
    )


def test_every_key_of_the_source_is_taken_and_the_defaults_are_its(tmp_path):
    config = configuration(tmp_path).algorithm_config
    assert set(SOURCE_KEYS) <= set(type(config).model_fields)
    assert (config.learning_rate, config.cutoff_len, config.num_train_epochs) == (1e-6, 16384, 2)
    assert config.deepspeed_config_filename == "ds_config_b200_zero2.json"
    assert config.report_to == "wandb"


@each(
    ("override", "said"),
    [
        pytest.param("algorithm_config.lerning_rate=1", "learning_rate", id="near"),
        pytest.param("log_config.run_nam=a", "run_name", id="log"),
        pytest.param("sav_path=a", "save_path", id="top"),
        pytest.param("algorithm_config.learning_rate=-1", "learning_rate", id="value"),
        pytest.param("algorithm_config", "key=value", id="form"),
    ],
)
def test_wrong_keys_and_values_are_refused(tmp_path, override, said):
    with pytest.raises(errors.InvalidInputError, match=said):
        configuration(tmp_path, override)


def test_a_key_is_never_taken_for_the_name_of_its_variable(tmp_path):
    secret = "0123456789abcdef0123456789abcdef01234567"
    with pytest.raises(errors.InvalidInputError) as caught:
        configuration(tmp_path, f"log_config.wandb_key_env_var={secret}")
    assert "environment variable" in str(caught.value)


def test_the_files_say_what_was_asked_for(tmp_path):
    record_some(tmp_path, 1, 6)
    record(tmp_path, 2, [make_episode("lost", 99, outcome=Outcome.FAILURE)])
    config = configuration(
        tmp_path, *ON_A_CPU, "algorithm_config.extra={packing: false}",
        "algorithm_config.deepspeed_config_filename=ds_config_b200_zero2.json",
    )  # fmt: skip
    update = prepare_update(config)
    values = yaml.safe_load((update.data / "train_config.yaml").read_text())
    assert values == update.values
    assert values["disable_gradient_checkpointing"] is True
    assert values["packing"] is False
    assert values["mask_history"] is True
    assert "eval_dataset" not in values
    assert json.loads((update.data / "ds_config_b200_zero2.json").read_bytes()) == json.loads(
        json.dumps(CONFIGS["ds_config_b200_zero2.json"])
    )
    for name in ("finetune_train.json", "finetune_val.json", "dataset_info.json", "wandb_env.sh"):
        assert (update.data / name).is_file()
    samples = {
        row["sample"].partition("/")[0]
        for name in ("train", "val")
        for row in json.loads((update.data / f"finetune_{name}.json").read_bytes())
    }
    assert samples == {f"i1e{n}" for n in range(6)}  # No failure.
    first = (update.data / "finetune_train.json").read_bytes()
    again = prepare_update(config, now=datetime.datetime(2026, 1, 1))
    assert (again.data / "finetune_train.json").read_bytes() == first


def test_the_wandb_script_is_quoted_and_has_no_secret(tmp_path):
    config = LogConfig(
        run_name="it's $(touch /tmp/x) `a`", entity_name="a b", wandb_key_env_var="MY_KEY"
    )
    path = tmp_path / "wandb_env.sh"
    path.write_text(script(config))
    told = subprocess.run(
        ["sh", "-c", f". {shlex.quote(str(path))}; env"],
        env={"MY_KEY": "secret", "PATH": os.environ["PATH"]},
        capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    found = dict(line.partition("=")[::2] for line in told.splitlines())
    assert found["WANDB_RUN_GROUP"] == config.run_name
    assert (found["WANDB_ENTITY"], found["WANDB_API_KEY"]) == ("a b", "secret")
    assert "secret" not in path.read_text()
    assert environment(config, {"MY_KEY": "secret"})["WANDB_API_KEY"] == "secret"


def test_nothing_to_train_on_is_an_error(tmp_path):
    record(tmp_path, 1, [make_episode("lost", 1, outcome=Outcome.FAILURE)])
    with pytest.raises(errors.InvalidInputError, match="not successful"):
        prepare_update(configuration(tmp_path, *ON_A_CPU))


@each(
    ("rows", "devices", "epochs", "steps"),
    [
        pytest.param(1, 8, 1, 1, id="never-none"),
        pytest.param(12, 1, 1, 1, id="exact"),
        pytest.param(13, 1, 1, 2, id="rest"),
        pytest.param(96, 8, 2, 2, id="devices"),
        pytest.param(24, 1, 0.5, 1, id="part"),
    ],
)
def test_steps_are_counted_as_the_trainer_counts(rows, devices, epochs, steps):
    assert steps_for(rows, batch=3, accumulation=4, devices=devices, epochs=epochs) == steps


def checkpoint(folder, step):
    weights(folder)
    (folder / "trainer_state.json").write_text(json.dumps({"global_step": step}))
    (folder / "scheduler.pt").touch()
    return folder


def test_only_what_has_an_optimizer_is_a_checkpoint(tmp_path):
    plain = checkpoint(tmp_path / "run" / "checkpoint-9", 9)
    assert find_checkpoint(tmp_path / "run") is None
    (plain / "optimizer.pt").touch()
    assert find_checkpoint(tmp_path / "run").global_step == 9
    sharded = checkpoint(tmp_path / "run" / "checkpoint-10", 10)
    (sharded / "latest").write_text("global_step10")
    assert find_checkpoint(tmp_path / "run").global_step == 9  # `latest` leads nowhere.
    (sharded / "global_step10").mkdir()
    (sharded / "global_step10" / "bf16_zero_pp_rank_0_mp_rank_00_optim_states.pt").touch()
    found = find_checkpoint(tmp_path / "run")
    assert (found.global_step, found.deepspeed) == (10, True)


def test_the_rates_of_a_scheduler_are_read_without_loading_it(tmp_path):
    state = {"base_lrs": [3e-6, 1], "last_epoch": 4, "_last_lr": [0.0, 0.0], "lr_lambdas": [None]}
    for stored, rates in (
        (state, (3e-6, 1.0)),
        ({"base_lrs": [3e-6], "lr_lambdas": [run_training]}, (3e-6,)),
        ({"base_lrs": [datetime.timedelta(3)]}, None),
        ({"base_lrs": []}, None),
        ({"last_epoch": 4}, None),
    ):
        for protocol in (2, 5):
            with zipfile.ZipFile(tmp_path / "scheduler.pt", "w") as file:
                file.writestr("scheduler/data.pkl", pickle.dumps(stored, protocol))
            assert base_rates(tmp_path) == rates
    (tmp_path / "scheduler.pt").write_bytes(b"PK")
    assert base_rates(tmp_path) is None


def test_an_update_begins_with_the_model_that_was_published(tmp_path):
    record_some(tmp_path, 1, 6)
    config = configuration(tmp_path, *ON_A_CPU)
    weights(tmp_path / "model.pt", 2)
    assert prepare_update(config).values["model_name_or_path"] == str(tmp_path / "model.pt")
    (tmp_path / "model.pt" / "model.safetensors").write_bytes(b"\0" * 4)
    with pytest.raises(errors.InvalidInputError, match="cannot be read"):
        prepare_update(config)


def test_an_optimizer_is_resumed_where_this_machine_can(tmp_path, monkeypatch):
    record_some(tmp_path, 1, 6)
    saved = checkpoint(weights(tmp_path / "model.pt", 2), 9)
    (saved / "optimizer.pt").touch()
    monkeypatch.setattr(interpreters, "find_python", lambda tool: None)
    update = prepare_update(configuration(tmp_path, *ON_A_CPU))
    assert "resume_from_checkpoint" not in update.values
    assert "algorithm_config.num_gpus" in update.why_fresh
    with pytest.raises(errors.InvalidInputError, match="resume=weights"):
        prepare_update(configuration(tmp_path, *ON_A_CPU, "algorithm_config.resume=optimizer"))


def test_publishing_takes_the_last_whole_checkpoint_and_no_half_one(tmp_path):
    run = tmp_path / "run"
    weights(run / "checkpoint-2", 2)
    half = weights(run / "checkpoint-10", 10)
    (half / "optimizer.pt").write_bytes(b"x")
    published = publish(run, tmp_path)
    assert (published / "model.safetensors").read_bytes()[-1] == 10
    assert not (published / "optimizer.pt").exists()
    cut = (half / "model.safetensors").read_bytes()[:-1]
    (half / "model.safetensors").write_bytes(cut)
    assert "part" in incomplete(half)
    assert (publish(run, tmp_path) / "model.safetensors").read_bytes()[-1] == 2
    (run / "checkpoint-2" / "config.json").unlink()
    with pytest.raises(errors.InvalidInputError, match="No complete model"):
        publish(run, tmp_path)
    assert (published / "model.safetensors").read_bytes()[-1] == 2
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model.pt", "run"]


def test_the_command_prepares(tmp_path):
    record_some(tmp_path, 1, 6)
    configuration(tmp_path)
    command = ["train", "update", "--config-name", "update_online", f"save_path={tmp_path}",
               f"policy_config.base_model={tmp_path / 'base'}", *ON_A_CPU]  # fmt: skip
    done = CliRunner().invoke(app.make_app(), command)
    assert done.exit_code == 0, done.output
    data = tmp_path / "llamafactory_data"
    assert "llamafactory-cli train" in done.output
    told = json.loads(CliRunner().invoke(app.make_app(), [*command, "--json"]).stdout)
    assert (told["data"], told["model"]) == (str(data), None)
    assert told["exported"]["splits"]["train"]["rows"] > 0
    assert told["checked_by"] is None


@pytest.fixture
def ready(tmp_path):
    """Gives a function that runs a program in LLaMA-Factory's place, which is not here."""
    record_some(tmp_path, 1, 6)
    update = prepare_update(configuration(tmp_path, *ON_A_CPU))
    package = tmp_path / "bin" / "llamafactory"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    python = tmp_path / "bin" / "python"
    python.write_text(f'#!/bin/sh\nPYTHONPATH={package.parent} exec {sys.executable} "$@"\n')
    python.chmod(0o755)

    def run(program, **options):
        (package / "cli.py").write_text(program)
        return run_training(update.data, python=python, check=False, **options)

    return run


def test_a_trainer_that_dies_leaves_its_last_words(ready):
    with pytest.raises(TrainingFailedError, match=r"exit code 3(.|\n)*out of memory"):
        ready("print('out of memory'); raise SystemExit(3)")


def test_a_trainer_that_takes_too_long_is_ended(ready, tmp_path):
    told = tmp_path / "pid"
    program = f"import os, time; open({str(told)!r}, 'w').write(str(os.getpid())); time.sleep(600)"
    with pytest.raises(TrainingFailedError, match="was stopped after"):
        ready(program, timeout=2)
    if told.exists():
        with pytest.raises(ProcessLookupError):
            os.kill(int(told.read_text()), 0)
