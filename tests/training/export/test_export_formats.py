"""Samples written for trainers, and what comes back."""

import dataclasses
import io
import json
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image as Pillow

from rows import each
from webtraj import errors
from webtraj.agents.models.base import Image, Message
from webtraj.datasets.exporters.base import MANIFEST, read_manifest
from webtraj.training.export import export_samples, make_format
from webtraj.training.export.pictures import PictureReader
from webtraj.training.rows import hide, read_row, show
from webtraj.training.samples import Sample, SampleKey


def picture(shade: int) -> Image:
    data = io.BytesIO()
    Pillow.new("RGB", (8, 6), (shade, 0, 0)).save(data, "PNG")
    return Image(data.getvalue())


def sample(index: int = 0, **fields) -> Sample:
    prompt = (
        Message.of("system", "You use a browser."),
        Message.of("user", "Task: click OK\n", picture(index % 3), "\nWhat now?"),
        Message.of("assistant", "click('1')"),
        Message.of("user", picture(7)),
    )
    given_fields = {
        "key": SampleKey(f"e{index // 4}", index % 4 + 1),
        "messages": prompt,
        "completion": f"click('{index}')",
        "prompt_token_ids": (1, 2, 3, index),
        "completion_token_ids": (4, index),
        "logprobs": (-0.25, -1.5),
        "reward": float(index % 2),
        "advantage": 0.5,
        "group_id": "g",
        "task": "miniwob/click-test",
        "policy_version": "v1",
    }
    return Sample(**(given_fields | fields))


FORMATS = ["sharegpt", "openai", "trl", "tokens"]


@each("name", FORMATS)
def test_what_is_written_reads_back(tmp_path, name):
    samples = [sample(i) for i in range(10)]
    report = export_samples({"train": samples[:8], "val": samples[8:]}, tmp_path / "x", format=name)
    assert {k: (s.samples, s.rows) for k, s in report.splits.items()} == {
        "train": (8, 8),
        "val": (2, 2),
    }
    if name != "trl":  # Its pictures are in its rows.
        assert report.num_pictures == 4
        assert len(list((tmp_path / "x/images").iterdir())) == 4
    made = make_format(name)
    reader = PictureReader(tmp_path / "x")
    back = [made.sample_of(row, reader) for row in made.read(tmp_path / "x", "train")]
    assert [made.digest(item) for item in back] == [made.digest(item) for item in samples[:8]]
    assert [item.key for item in back] == [item.key for item in samples[:8]]


@each("name", FORMATS)
def test_the_same_samples_give_the_same_bytes(tmp_path, name):
    for folder in ("a", "b"):
        export_samples({"train": [sample(i) for i in range(6)]}, tmp_path / folder, format=name)
    for path in (tmp_path / "a").rglob("*"):
        if path.is_file():
            other = tmp_path / "b" / path.relative_to(tmp_path / "a")
            assert path.read_bytes() == other.read_bytes()


def test_sharegpt_is_what_llama_factory_reads(tmp_path):
    export_samples({"train": [sample(1)]}, tmp_path / "x")
    (row,) = json.loads((tmp_path / "x/finetune_train.json").read_text())
    first, second = picture(1).uuid, picture(7).uuid
    assert row == {
        "conversations": [
            {"from": "human", "value": "Task: click OK\n<image>\nWhat now?"},
            {"from": "gpt", "value": "click('1')"},
            {"from": "human", "value": "<image>"},
            {"from": "gpt", "value": "click('1')"},
        ],
        "system": "You use a browser.",
        "images": [f"images/{first}.png", f"images/{second}.png"],
        "loss_weight": 1.0,
        "sample": "e0/2/0",
    }
    info = json.loads((tmp_path / "x/dataset_info.json").read_text())
    assert info["webtraj_train"]["columns"] == {
        "messages": "conversations",
        "system": "system",
        "images": "images",
    }
    assert len(info["webtraj_train"]["tags"]) == 7


def test_text_that_looks_like_a_picture_is_hidden_and_comes_back(tmp_path):
    hostile = (
        Message.of("system", "Pages may say <video>."),
        Message.of("user", "<ima", "ge> and <\u200bimage>", picture(2), "<audio>"),
    )
    report = export_samples({"train": [sample(1, messages=hostile)]}, tmp_path / "x")
    (row,) = json.loads((tmp_path / "x/finetune_train.json").read_text())
    value = row["conversations"][0]["value"]
    assert value.count("<image>") == len(row["images"]) == 1
    assert report.splits["train"].changes == {"hidden_marks": 4}
    back = make_format("sharegpt").sample_of(row, PictureReader(tmp_path / "x"))
    assert back.messages[0] == hostile[0]
    texts = [part.text for part in back.messages[1].parts if hasattr(part, "text")]
    assert texts == ["<image> and <\u200bimage>", "<audio>"]


@settings(deadline=None)
@given(
    st.lists(
        st.sampled_from(
            ["<", "\u200b", "image", "|", "image_pad", ">", "a", "<image>", "<|image_pad|>"]
        )
    ).map("".join)
)
def test_hiding_can_be_undone_and_leaves_no_mark(text):
    hidden, _ = hide(text)
    assert not any(mark in hidden for mark in ("<image>", "<|image_pad|>", "<|image|>"))
    assert show(hidden) == text


LEFT_OUT = {
    "empty-completion": ({"completion": ""}, "its completion is empty"),
    "no-prompt": ({"messages": ()}, "its prompt has no message of the user"),
    "begins-with-assistant": (
        {"messages": (Message.of("assistant", "a"), Message.of("user", "b"))},
        "its prompt begins with the assistant",
    ),
    "ends-with-assistant": (
        {"messages": (Message.of("user", "b"), Message.of("assistant", "a"))},
        "its prompt ends with the assistant",
    ),
    "late-system": (
        {"messages": (Message.of("user", "b"), Message.of("system", "a"))},
        "a system message stands elsewhere than first",
    ),
    "mark-in-completion": (
        {"completion": "send_msg_to_user('<image>')"},
        "its completion has text that stands for a picture",
    ),
    "broken-picture": (
        {"messages": (Message.of("user", Image(picture(1).data[:48])),)},
        "a picture of its prompt cannot be decoded",
    ),
    "no-picture": (
        {"messages": (Message.of("user", Image(b"<svg/>")),)},
        "a picture of its prompt cannot be decoded",
    ),
    "half-a-character": (
        {"completion": "click('\ud83d')"},
        "its text has a half of a character, which no file can hold",
    ),
    "cut-off": (
        {"finish_reason": "length"},
        "its reply is not whole: it was cut off at a limit",
    ),
    "filtered": (
        {"finish_reason": "refusal"},
        "its reply is not whole: a content filter stopped it",
    ),
    "aborted": ({"finish_reason": "abort"}, "its reply is not whole: the server broke it off"),
    "ended-somehow": (
        {"finish_reason": "bored"},
        "its reply is not whole: its finish reason is not known",
    ),
    "weight-0": ({"loss_weight": 0.0}, "its weight is 0"),
    "weight-negative": (
        {"loss_weight": -1.0},
        "its weight is negative or no number, which copies cannot say",
    ),
}


@each(("fields", "why"), LEFT_OUT.values())
def test_what_a_trainer_would_choke_on_is_left_out_and_counted(tmp_path, fields, why):
    report = export_samples({"train": [sample(1), sample(2, **fields)]}, tmp_path / "x")
    assert report.splits["train"].left_out == {why: 1}
    assert report.splits["train"].left_out_first == {why: "e0/3/0"}
    header, episodes = read_manifest(tmp_path / "x")
    assert header["splits"]["train"]["left_out"] == {why: 1}
    assert episodes == [{"episode_id": "e0", "sha256": "", "samples": {"train": 1}}]


TOKENS_LEFT_OUT = {
    "no-ids": ({"prompt_token_ids": ()}, "its token ids are not on record"),
    "no-logprobs": ({"logprobs": ()}, "its log-probabilities are not on record"),
    "few-logprobs": (
        {"logprobs": (-1.0,)},
        "it has another number of log-probabilities than of sampled tokens",
    ),
    **{
        f"logprob {odd}": (
            {"logprobs": (-1.0, odd)},
            "a log-probability of it is not between -100 and 0",
        )
        for odd in (math.nan, -math.inf, math.inf, -9999.0, -1e9, -100.0, 0.75, 0.01)
    },
    "nan-reward": (
        {"reward": float("nan")},
        "its reward, advantage or weight is not a number",
    ),
    "long-id": (
        {"completion_token_ids": (7, 2**63)},
        "a token id of it is negative or has more than 31 bits",
    ),
    "negative-id": (
        {"prompt_token_ids": (-1, 2)},
        "a token id of it is negative or has more than 31 bits",
    ),
    "no-reward": ({"reward": None}, "it has no reward"),
    "rendered": ({"recorded": False}, "no model was asked for it"),
    "filtered": (
        {"finish_reason": "content_filter"},
        "its reply is not whole: a content filter stopped it",
    ),
    "aborted": ({"finish_reason": "abort"}, "its reply is not whole: the server broke it off"),
}


@each(("fields", "why"), TOKENS_LEFT_OUT.values())
def test_only_recorded_tokens_are_exported(tmp_path, fields, why):
    samples = [sample(1), sample(2, **fields)]
    report = export_samples({"train": samples}, tmp_path / "x", format="tokens")
    assert report.splits["train"].left_out == {why: 1}


@pytest.mark.parametrize("reason", ["length", "max_tokens", "stop", ""])
def test_tokens_have_cut_off_replies_and_say_so(tmp_path, reason):
    export_samples({"train": [sample(1, finish_reason=reason)]}, tmp_path / "x", format="tokens")
    (row,) = map(json.loads, (tmp_path / "x/train.jsonl").read_text().splitlines())
    assert row["finish_reason"] == reason


def test_tokens_keep_the_mask_that_others_cannot(tmp_path):
    masked = sample(1, mask=(True, False))
    export_samples({"train": [masked]}, tmp_path / "x", format="tokens")
    (row,) = map(json.loads, (tmp_path / "x/train.jsonl").read_text().splitlines())
    assert row["mask"] == [0, 0, 0, 0, 1, 0]
    assert read_row(row, "row", picture=PictureReader(tmp_path / "x").get).mask == (True, False)
    report = export_samples({"train": [masked, sample(2)]}, tmp_path / "y", format="openai")
    assert sum(report.splits["train"].left_out.values()) == 1


def test_tokens_refer_to_pictures_and_count_what_no_processor_checked(tmp_path):
    samples = [sample(1), sample(2, messages=())]
    report = export_samples({"train": samples}, tmp_path / "x", format="tokens")
    shown, bare = map(json.loads, (tmp_path / "x/train.jsonl").read_text().splitlines())
    assert shown["images"] == [f"images/{image.uuid}.png" for image in samples[0].images]
    assert (shown["grids"], shown["processor"], bare["images"]) == ([], None, [])
    assert report.splits["train"].changes == {"unchecked_pictures": 2}


def test_a_little_above_zero_is_rounding(tmp_path):
    samples = [sample(1, logprobs=(0.0, 1e-6))]
    report = export_samples({"train": samples}, tmp_path / "x", format="tokens")
    assert report.splits["train"].rows == 1


def test_an_export_of_nothing_is_an_error_and_leaves_nothing(tmp_path):
    with pytest.raises(errors.InvalidInputError, match="its completion is empty"):
        export_samples({"train": [sample(1, completion="")]}, tmp_path / "x")
    with pytest.raises(errors.InvalidInputError, match="No samples for 'val'"):
        export_samples({"train": [sample(1)], "val": []}, tmp_path / "x")
    assert list(tmp_path.iterdir()) == []


def test_an_export_is_there_whole_or_not_at_all(tmp_path):
    def samples():
        yield sample(1)
        raise OSError("the bucket is gone")

    with pytest.raises(OSError, match="the bucket is gone"):
        export_samples({"train": samples()}, tmp_path / "x")
    assert list(tmp_path.iterdir()) == []


def test_a_row_that_reads_back_otherwise_is_no_export(tmp_path):
    class Forgetful(type(make_format("openai"))):
        def sample_of(self, row, pictures):
            return dataclasses.replace(super().sample_of(row, pictures), completion="other")

    with pytest.raises(errors.CorruptDataError, match="does not read back"):
        export_samples({"train": [sample(1)]}, tmp_path / "x", format=Forgetful())
    assert list(tmp_path.iterdir()) == []


def test_the_manifest_says_what_it_was_made_of(tmp_path):
    origin = {"datasets": ["runs/a"], "filters": {"outcome": "success"}, "seed": 3}
    export_samples(
        {"train": [sample(1), sample(5)]}, tmp_path / "x", origin=origin, episodes={"e0": "ab"}
    )
    header, episodes = read_manifest(tmp_path / "x")
    assert header["origin"] == origin
    assert set(header["files"]) == {"finetune_train.json", "dataset_info.json"}
    assert [(line["episode_id"], line["sha256"]) for line in episodes] == [("e0", "ab"), ("e1", "")]
    with pytest.raises(errors.InvalidInputError, match="earlier export"):
        export_samples({"train": [sample(1)]}, tmp_path / "x")
    export_samples({"train": [sample(1)]}, tmp_path / "x", format="openai", overwrite=True)
    assert sorted(path.name for path in (tmp_path / "x").iterdir()) == [
        "images", "train.jsonl", MANIFEST,
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("sharegtp", {}, "Did you mean 'sharegpt'"),
        ("sharegpt", {"weigths": "copies"}, "Did you mean 'weights'"),
        ("sharegpt", {"weights": "loss"}, "weights='loss'"),
    ],
    ids=["format", "option", "value"],
)
def test_wrong_formats_and_options_are_named(name, options, message):
    with pytest.raises(errors.InvalidInputError, match=message):
        make_format(name, options)
