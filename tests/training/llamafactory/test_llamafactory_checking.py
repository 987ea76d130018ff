"""Each fault on which LLaMA-Factory aborts, or goes on without a row, is refused, and named."""

import json
import shutil

import pytest
from llamafactory_runs import ON_A_CPU, make_episode, record, record_some
from omegaconf import OmegaConf
from PIL import Image as Pillow

from rows import each
from webtraj import errors
from webtraj.training.export import export_samples
from webtraj.training.llamafactory import check_export, load_update_config, prepare_update
from webtraj.training.replay import samples_of


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """What a model's folder says of it; no weights are needed to check rows."""
    folder = tmp_path_factory.mktemp("model")
    (folder / "config.json").write_text('{"model_type": "qwen3_vl"}')
    (folder / "preprocessor_config.json").write_text(
        json.dumps(
            {
                "image_processor_type": "Qwen2VLImageProcessor",
                "patch_size": 14,
                "merge_size": 2,
                "size": {"shortest_edge": 784, "longest_edge": 65536},
            }
        )
    )
    return folder


@pytest.fixture(scope="module")
def prepared(tmp_path_factory, model):
    save_path = tmp_path_factory.mktemp("runs")
    record_some(save_path, 1, 8)
    config = load_update_config(
        "update_online", [f"save_path={save_path}", f"policy_config.base_model={model}", *ON_A_CPU]
    )
    return prepare_update(config)


@pytest.fixture
def folder(prepared, tmp_path):
    """A copy of files that are in good order."""
    return copy_of(prepared, tmp_path)


def copy_of(prepared, tmp_path):
    copy = tmp_path / "data"
    shutil.copytree(prepared.data, copy)
    change_config(copy, dataset_dir=str(copy), media_dir=str(copy))
    return copy


def change_config(folder, **values):
    path = folder / "train_config.yaml"
    config = {**OmegaConf.to_container(OmegaConf.load(path)), **values}
    OmegaConf.save(
        OmegaConf.create({key: value for key, value in config.items() if value is not ...}), path
    )


def change_rows(folder, change):
    path = folder / "finetune_train.json"
    rows = json.loads(path.read_text())
    change(rows)
    path.write_text(json.dumps(rows))


def change_info(folder, change):
    path = folder / "dataset_info.json"
    info = json.loads(path.read_text())
    change(info["webtraj_train"])
    path.write_text(json.dumps(info))


def only_problem(folder):
    report = check_export(folder)
    assert len({problem.what for problem in report.problems}) == 1, report.problems
    return report.problems[0]


def test_an_export_for_others_is_told_from_a_broken_one(tmp_path):
    export = tmp_path / "export"
    samples = samples_of(make_episode("e1", 1))
    export_samples({"train": samples}, export, format="openai")
    with pytest.raises(
        errors.InvalidInputError, match=r"in the format openai, .* cannot read; .*sharegpt"
    ):
        check_export(export)
    (export / "webtraj-export.jsonl").unlink()
    with pytest.raises(errors.InvalidInputError, match=r"Cannot read .*dataset_info\.json'"):
        check_export(export)


def test_what_webtraj_writes_is_clean(prepared, folder):
    report = check_export(folder)
    assert report.clean
    assert report.rows == {"webtraj_train": prepared.exported.splits["train"].rows}


def say(row, text, turn=0):
    row["conversations"][turn]["value"] += text


def cut_picture(folder, rows):
    path = folder / rows[0]["images"][0]
    path.write_bytes(path.read_bytes()[:-40])


ROW_FAULTS = {
    "mark in a page's text": (
        lambda f, rows: say(rows[3], " <image>"), 3, "aborts", "3 times <image>, and it has 2"),
    "mark in a reply": (lambda f, rows: say(rows[0], "<image>", -1), 0, "aborts", "<image>"),
    "mark of a video": (lambda f, rows: say(rows[1], "<video>"), 1, "aborts", "<video>"),
    "mark of a sound": (lambda f, rows: say(rows[1], "<audio>"), 1, "aborts", "<audio>"),
    "token of a picture": (
        lambda f, rows: say(rows[1], "<|image_pad|>"), 1, "aborts", "<|image_pad|>"),
    "missing picture": (
        lambda f, rows: rows[0].update(images=["images/none.png"]), 0, "aborts", "is not in"),
    "cut picture": (lambda f, rows: cut_picture(f, rows), 0, "aborts", "cannot be decoded"),
    "two of one role": (
        lambda f, rows: rows[0]["conversations"].insert(
            0, {"from": "human", "value": "a"}), 0, "drops it", "message 1 is of 'human'"),
    "odd count": (
        lambda f, rows: rows[0]["conversations"].append(
            {"from": "human", "value": "a"}), 0, "drops it", "messages; expected pairs"),
    "no messages": (
        lambda f, rows: rows[2].update(conversations=[], images=[]), 2, "drops it", "0 messages"),
    "None for a text": (
        lambda f, rows: rows[0]["conversations"][0].update(value=None), 0, "aborts", "is not text"),
    "weight": (lambda f, rows: rows[0].update(loss_weight=0.5), 0, "ignores it", "loss_weight"),
}  # fmt: skip


@each("name", ROW_FAULTS)
def test_rows_are_refused_by_number(prepared, tmp_path, name):
    folder = copy_of(prepared, tmp_path)
    change, row, effect, said = ROW_FAULTS[name]
    change_rows(folder, lambda rows: change(folder, rows))
    report = check_export(folder)
    problem = report.problems[0]
    assert (problem.where, problem.effect) == (f"finetune_train.json, row {row}", effect)
    assert said in problem.what
    assert problem.to_do
    with pytest.raises(errors.InvalidInputError, match=f"row {row}"):
        report.require_clean()


def test_pictures_that_are_more_than_the_cutoff_are_refused(folder):
    rows = json.loads((folder / "finetune_train.json").read_text())
    path = folder / rows[0]["images"][0]
    Pillow.new("RGB", (256, 256)).save(path)  # 81 tokens, where rows are 48 each.
    change_config(folder, cutoff_len=81)
    problems = check_export(folder).problems
    assert problems[0].where == "finetune_train.json, row 0"
    assert problems[0].effect == "cuts it"
    change_config(folder, cutoff_len=200)
    assert check_export(folder).clean


@pytest.mark.parametrize("base", [..., "Qwen/Qwen3-VL-8B-Instruct"])
def test_rows_that_are_longer_than_the_cutoff_by_an_estimate_are_refused(folder, base):
    def lengthen(rows):
        rows[1]["conversations"][0]["value"] += " word" * 2000

    change_rows(folder, lengthen)
    change_config(folder, cutoff_len=2400, **({} if base is ... else {"model_name_or_path": base}))
    (problem,) = check_export(folder).problems
    assert (problem.where, problem.effect) == ("finetune_train.json, row 1", "cuts it")
    assert "it has about 2" in problem.what
    change_config(folder, cutoff_len=4000)
    assert check_export(folder).clean


def drop(key):
    return lambda entry: entry["tags"].pop(key)


INFO_FAULTS = {
    "no system tag": (drop("system_tag"), "system_tag"),
    "no messages": (lambda entry: entry["columns"].pop("messages"), "messages"),
    "no file": (lambda entry: entry.update(file_name="none.json"), "the file 'none.json' of"),
    "column that no row has": (
        lambda entry: entry["columns"].update(tools="tools"), "'tools' for tools"),
    "other formatting": (lambda entry: entry.update(formatting="alpaca"), "formatting"),
}  # fmt: skip


@each("name", INFO_FAULTS)
def test_entries_are_refused(prepared, tmp_path, name):
    folder = copy_of(prepared, tmp_path)
    change, said = INFO_FAULTS[name]
    change_info(folder, change)
    assert said in only_problem(folder).what


CONFIG_FAULTS = {
    "unknown key": ({"lerning_rate": 1}, "lerning_rate", "aborts"),
    "key of another version": ({"group_by_length": True}, "group_by_length", "aborts"),
    "key that does nothing": (
        {"gradient_checkpointing": False}, "gradient_checkpointing", "ignores it"),
    "template without pictures": ({"template": "qwen3_nothink"}, "template", "aborts"),
    "unknown template": ({"template": "qwen3_vll"}, "template", "aborts"),
    "template of another model": ({"template": "gemma3"}, "template", "aborts"),
    "no model": ({"model_name_or_path": "/nowhere"}, "model_name_or_path", "aborts"),
    "streaming without workers": (
        {"streaming": True, "max_steps": 4}, "streaming", "aborts"),
    "nothing to evaluate on": ({"eval_strategy": "epoch"}, "eval_strategy", "aborts"),
    "no such data": ({"dataset": "other"}, "dataset", "aborts"),
    "no DeepSpeed configuration": ({"deepspeed": "/nowhere.json"}, "deepspeed", "aborts"),
    "no rate": ({"learning_rate": 0.0}, "learning_rate", "trains nothing"),
    "no checkpoint": ({"resume_from_checkpoint": "/nowhere"}, "resume_from_checkpoint", "aborts"),
}  # fmt: skip


@each("name", CONFIG_FAULTS)
def test_settings_are_refused(prepared, tmp_path, name):
    folder = copy_of(prepared, tmp_path)
    values, key, effect = CONFIG_FAULTS[name]
    change_config(folder, **values)
    problem = check_export(folder).problems[0]
    assert (problem.where, problem.effect) == (f"train_config.yaml, {key}", effect)


def test_a_checkpoint_that_is_as_far_already_is_refused(folder, tmp_path):
    checkpoint = tmp_path / "run" / "checkpoint-9"
    checkpoint.mkdir(parents=True)
    (checkpoint / "trainer_state.json").write_text('{"global_step": 9}')
    (checkpoint / "scheduler.pt").touch()
    (checkpoint / "optimizer.pt").touch()
    change_config(
        folder, resume_from_checkpoint=str(checkpoint), max_steps=9, ignore_data_skip=True
    )
    assert only_problem(folder).effect == "trains nothing"
    change_config(folder, max_steps=10)
    assert check_export(folder).clean
    change_config(
        folder, output_dir=str(tmp_path / "run"), resume_from_checkpoint=..., max_steps=...
    )
    assert "checkpoint-9" in only_problem(folder).what


def test_pages_that_say_marks_are_exported_and_clean(tmp_path, model):
    text = "The page says <image>, <video> and <audio>."
    record(tmp_path, 1, [make_episode(f"e{n}", n, text=text) for n in range(4)])
    prepared = prepare_update(
        load_update_config(
            "update_online",
            [f"save_path={tmp_path}", f"policy_config.base_model={model}", *ON_A_CPU],
        )
    )
    assert prepared.checked.clean
    assert prepared.exported.splits["train"].changes["hidden_marks"] > 0


def test_a_folder_without_files_is_wrong_input(tmp_path):
    with pytest.raises(errors.InvalidInputError, match=r"dataset_info\.json"):
        check_export(tmp_path)
