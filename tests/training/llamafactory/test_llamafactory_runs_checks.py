"""LLaMA-Factory itself reports errors, and rows that it would drop or cut."""

import json
import shutil

import pytest
from llamafactory_runs import ON_A_CPU, PYTHON, make_episode, record, record_some
from omegaconf import OmegaConf

from rows import each
from webtraj import errors
from webtraj.training.llamafactory import check_export, load_update_config, prepare_update

pytestmark = pytest.mark.timeout(600)


@pytest.fixture(scope="module")
def prepared(tmp_path_factory, model):
    """An update without problems."""
    save_path = tmp_path_factory.mktemp("runs")
    record_some(save_path, 1, 8)
    text = "The page says <image>, <video> and <audio>."
    record(save_path, 2, [make_episode(f"e{n}", n, text=text) for n in range(2)])
    config = load_update_config(
        "update_online", [f"save_path={save_path}", f"policy_config.base_model={model}", *ON_A_CPU]
    )
    return prepare_update(config, python=PYTHON)


def copy_of(prepared, tmp_path, **values):
    """Copies an update's files and changes the configuration."""
    copy = tmp_path / "data"
    shutil.copytree(prepared.data, copy)
    path = copy / "train_config.yaml"
    places = {"dataset_dir": str(copy), "media_dir": str(copy)}
    config = {**OmegaConf.to_container(OmegaConf.load(path)), **places, **values}
    OmegaConf.save(OmegaConf.create(config), path)
    return copy


def test_what_webtraj_writes_is_clean(prepared):
    checked = prepared.checked
    assert checked.clean
    assert checked.checked_by == "0.9.5"
    assert checked.rows == {"webtraj_train": prepared.exported.splits["train"].rows}
    assert checked.max_tokens > 0


def test_every_wrong_row_is_named(prepared, tmp_path):
    folder = copy_of(prepared, tmp_path)
    path = folder / "finetune_train.json"
    rows = json.loads(path.read_text())
    picture = folder / rows[4]["images"][0]
    rows[0]["conversations"][0]["value"] += " <image>"
    rows[1]["conversations"].insert(0, {"from": "human", "value": "a"})
    rows[2]["images"] = ["images/none.png"] * len(rows[2]["images"])
    rows[3]["conversations"][0]["value"] += " word" * 3000
    shutil.copy(picture, folder / "cut.png")
    (folder / "cut.png").write_bytes(picture.read_bytes()[:-40])
    rows[4]["images"] = ["cut.png"] * len(rows[4]["images"])
    path.write_text(json.dumps(rows))
    report = check_export(folder, python=PYTHON)
    said = {int(one.where.rpartition(" ")[2]): one.what for one in report.problems}
    assert {one.where.partition(",")[0] for one in report.problems} == {"finetune_train.json"}
    assert sorted(said) == [0, 1, 2, 3, 4]
    assert "number of images does not match" in said[0]
    assert "is dropped" in said[1]
    assert "none.png" in said[2]
    assert "cutoff_len is 1024" in said[3]
    with pytest.raises(errors.InvalidInputError, match=r"finetune_train\.json, row 0"):
        report.require_clean()


@each(
    ("values", "said"),
    [
        ({"lerning_rate": 1}, "lerning_rate"),
        ({"template": "qwen3_vll"}, "qwen3_vll"),
        ({"deepspeed": "ds.json"}, "deepspeed is not installed"),
    ],
)
def test_a_wrong_configuration_gives_its_own_error(prepared, tmp_path, values, said):
    (problem,) = check_export(copy_of(prepared, tmp_path, **values), python=PYTHON).problems
    assert problem.where == "train_config.yaml"
    assert said in problem.what
