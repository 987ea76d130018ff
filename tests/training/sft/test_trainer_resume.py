"""A run that dies goes on as if nothing had happened, or says why it cannot."""

import os
import signal
import time

import pytest
from training_runs import same, sample, settings, start_command, weights, write_rows

from webtraj import errors
from webtraj.training.rows import SampleFile
from webtraj.training.sft import publish, read_log, train
from webtraj.training.sft.checkpoints import find_latest

SAMPLES = [sample(number, loss_weight=1.0 + number % 2) for number in range(11)]
LORA = {"method": "lora", "lora": {"rank": 4, "dropout": 0.2}, "learning_rate": 1e-2}


def test_killed_and_resumed_ends_with_the_same_weights(text_model, tmp_path):
    rows = write_rows(tmp_path / "rows.jsonl", SAMPLES)
    options = {"batch_size": 2, "accumulation": 2, "max_steps": 60, "save_steps": 5}
    undisturbed = train(settings(text_model, tmp_path / "whole", **options), SampleFile(rows))
    command = (
        f"--model={text_model}",
        f"--data={rows}",
        f"--out={tmp_path / 'killed'}",
        "learning_rate=0.001",
        *(f"{key}={value}" for key, value in options.items()),
    )
    process = start_command(*command)
    deadline = time.monotonic() + 120
    while len(read_log(tmp_path / "killed")) < 8 and time.monotonic() < deadline:
        time.sleep(0.01)
    process.kill()
    process.communicate()
    assert process.returncode == -signal.SIGKILL
    killed = find_latest(tmp_path / "killed")
    assert killed is not None
    assert 5 <= killed.step < 60
    again = start_command(*command)
    out, err = again.communicate()
    assert again.returncode == 0, err
    assert f"Resuming from step {killed.step}." in err
    assert "60 of 60 steps done." in out
    resumed = find_latest(tmp_path / "killed")
    assert same(weights(undisturbed.checkpoint / "model"), weights(resumed.model))
    losses = [
        [entry["loss"] for entry in read_log(tmp_path / name)] for name in ("whole", "killed")
    ]
    assert losses[0] == losses[1]


@pytest.mark.parametrize("options", [{}, LORA], ids=["full", "adapters with dropout"])
def test_stopped_and_resumed_ends_with_the_same_weights(text_model, tmp_path, options):
    whole = train(settings(text_model, tmp_path / "whole", **options), SAMPLES)
    asked = iter([False, False, True])
    wanted = settings(text_model, tmp_path / "stopped", **options)
    first = train(wanted, SAMPLES, stopped=lambda: next(asked))
    assert (first.steps, first.finished) == (3, False)
    second = train(wanted, SAMPLES)
    assert (second.resumed_from, second.steps, second.finished) == (3, 6, True)
    assert same(weights(whole.checkpoint / "model"), weights(second.checkpoint / "model"))


def test_sigterm_saves_and_ends(text_model, tmp_path):
    rows = write_rows(tmp_path / "rows.jsonl", SAMPLES)
    process = start_command(
        f"--model={text_model}", f"--data={rows}", f"--out={tmp_path / 'run'}", "max_steps=5000"
    )
    deadline = time.monotonic() + 120
    while not read_log(tmp_path / "run") and time.monotonic() < deadline:
        time.sleep(0.01)
    os.kill(process.pid, signal.SIGTERM)
    out, _ = process.communicate()
    assert process.returncode == 128 + signal.SIGTERM
    assert find_latest(tmp_path / "run").step == read_log(tmp_path / "run")[-1]["step"]
    assert "of 5,000 steps done." in out


def test_a_run_that_is_over_stays_as_it_is(text_model, tmp_path):
    wanted = settings(text_model, tmp_path / "run", max_steps=2)
    first = train(wanted, SAMPLES)
    before = weights(first.checkpoint / "model")
    again = train(wanted, SAMPLES)
    assert (again.resumed_from, again.finished, again.loss) == (2, True, None)
    assert same(before, weights(again.checkpoint / "model"))


def test_other_data_or_settings_are_refused(text_model, tmp_path):
    wanted = settings(text_model, tmp_path / "run", max_steps=2)
    train(wanted, SAMPLES)
    with pytest.raises(errors.InvalidInputError, match="a run with other samples"):
        train(wanted, SAMPLES[:-1])
    other = wanted.model_copy(update={"learning_rate": 0.5, "max_steps": 3})
    with pytest.raises(errors.InvalidInputError, match=r"settings: learning_rate, max_steps\."):
        train(other, SAMPLES)
    with pytest.raises(errors.InvalidInputError, match="already holds a run"):
        train(wanted.model_copy(update={"resume": False}), SAMPLES)
    assert train(wanted.model_copy(update={"log_steps": 5}), SAMPLES).finished


def test_what_a_death_left_half_written_is_no_checkpoint(text_model, tmp_path):
    wanted = settings(text_model, tmp_path / "run", max_steps=4, save_steps=2, keep_checkpoints=1)
    half = tmp_path / "run" / "checkpoint-2.draft"
    (half / "model").mkdir(parents=True)
    (half / "model" / "model.safetensors").write_bytes(b"half")
    (tmp_path / "run" / "checkpoint-9").mkdir()  # Saved, but killed before the pointer moved.
    assert find_latest(tmp_path / "run") is None
    train(wanted, SAMPLES)
    assert find_latest(tmp_path / "run").step == 4
    found = sorted(path.name for path in (tmp_path / "run").glob("checkpoint-*"))
    assert found == ["checkpoint-4"]


def test_publishing_replaces_what_was_published(text_model, tmp_path):
    for number in (1, 2):
        run = train(settings(text_model, tmp_path / str(number), max_steps=number), SAMPLES)
        folder = publish(tmp_path / str(number), tmp_path / "out")
        assert same(weights(folder), weights(run.checkpoint / "model"))
        assert [path.name for path in (tmp_path / "out").iterdir()] == ["model.pt"]
    with pytest.raises(errors.InvalidInputError, match="No checkpoint in"):
        publish(tmp_path / "none", tmp_path / "out")
