"""Parquet for TRL and the Hub, read by `datasets` itself."""

import io

import pytest
from PIL import Image as Pillow

from webtraj import errors
from webtraj.agents.models.base import Image, Message
from webtraj.training.export import export_samples
from webtraj.training.export.preferences import Rejected, pair_of
from webtraj.training.samples import Sample, SampleKey

datasets = pytest.importorskip("datasets")
parquet = pytest.importorskip("pyarrow.parquet")


def picture(shade):
    data = io.BytesIO()
    Pillow.new("RGB", (8, 6), (shade, 0, 0)).save(data, "PNG")
    return Image(data.getvalue())


def sample(index, *, pictures=True, **fields):
    shown = [picture(index)] if pictures else []
    prompt = (
        Message.of("system", "Act."),
        Message.of("user", "Task\n", *shown, f"\nstep {index}"),
    )
    known = {
        "messages": prompt,
        "reward": 1.0,
        "group_id": "g",
        "task": "t",
        "loss_weight": 1.5,
    }
    return Sample(
        key=SampleKey(f"e{index}", 1),
        completion=f"click('{index}')",
        **(known | fields),
    )


def load(folder, tmp_path):
    return datasets.load_dataset(str(folder), cache_dir=str(tmp_path / "cache"))


def test_datasets_reads_prompts_completions_and_pictures(tmp_path):
    out = tmp_path / "x"
    export_samples(
        {"train": [sample(i) for i in range(5)], "val": [sample(5), sample(6, pictures=False)]},
        out,
        format="trl",
        options={"weights": "column", "license": "mit"},
    )
    loaded = load(out, tmp_path)
    assert {name: len(part) for name, part in loaded.items()} == {"train": 5, "validation": 2}
    row = loaded["train"][3]
    assert row["prompt"] == [
        {"role": "system", "content": [{"type": "text", "text": "Act."}]},
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "Task\n"},
                {"type": "image", "text": None},
                {"type": "text", "text": "\nstep 3"},
            ],
        },
    ]
    said = {"role": "assistant", "content": [{"type": "text", "text": "click('3')"}]}
    assert row["completion"] == [said]
    assert [(image.size, image.getpixel((0, 0))) for image in row["images"]] == [
        ((8, 6), (3, 0, 0))
    ]
    assert (row["loss_weight"], row["reward"], row["advantage"]) == (1.5, 1.0, None)
    assert row["sample"] == "e3/1/0"
    assert loaded["validation"][1]["images"] == []
    card = (out / "README.md").read_text()
    assert "license: mit" in card
    assert "| validation | 2 | 2 | 2 |" in card


def test_pictures_after_text_are_refused_and_nothing_is_left(tmp_path):
    with pytest.raises(errors.InvalidInputError, match="e1/1/0 shows a picture"):
        export_samples(
            {"train": [sample(0, pictures=False), sample(1)]},
            tmp_path / "x",
            format="trl",
            options={"weights": "column"},
        )
    assert list(tmp_path.iterdir()) == []


def test_copies_say_weights_and_large_data_is_in_shards(tmp_path):
    out = tmp_path / "x"
    noise = Image(_noisy(700, 700))
    samples = [sample(i, messages=(Message.of("user", noise),), loss_weight=2.0) for i in range(2)]
    report = export_samples({"train": samples}, out, format="trl", options={"shard_mb": 2})
    assert report.splits["train"].rows == 4
    assert sorted(path.name for path in (out / "data").iterdir()) == [
        f"train-{i:05}-of-00004.parquet" for i in range(4)
    ]
    loaded = load(out, tmp_path)["train"]
    assert loaded["loss_weight"] == [1.0] * 4
    assert [name[:2] for name in loaded["sample"]] == ["e0", "e0", "e1", "e1"]


def test_pairs_are_what_a_dpo_trainer_takes(tmp_path):
    out = tmp_path / "x"
    pair = pair_of(sample(1), Rejected("click('9')", "e9/1/0", 0.0))
    report = export_samples(
        {"train": [pair, sample(2, loss_weight=1.0)]}, out, format="trl-preferences",
        options={"weights": "column"},
    )  # fmt: skip
    assert report.splits["train"].left_out == {"it is compared with no other reply": 1}
    (row,) = load(out, tmp_path)["train"]
    assert row["chosen"][0]["content"][0]["text"] == "click('1')"
    assert row["rejected"][0]["content"][0]["text"] == "click('9')"
    assert len(row["images"]) == 1
    assert "completion" not in row


def _noisy(width, height):
    import numpy as np

    data = io.BytesIO()
    pixels = np.random.default_rng(0).integers(0, 255, (height, width, 3), np.uint8)
    Pillow.fromarray(pixels).save(data, "PNG")
    return data.getvalue()
