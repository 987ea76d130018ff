"""Samples in files, the plan of a run, and its configuration: what needs no PyTorch."""

import base64
import io
import json

import numpy as np
import PIL.Image
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rows import each
from webtraj import errors
from webtraj.agents.models.base import Image, Message
from webtraj.training.export import export_samples
from webtraj.training.export.sample_files import open_held_out, open_samples
from webtraj.training.rows import SampleFile, read_row
from webtraj.training.samples import Sample, SampleKey
from webtraj.training.sft import SftSettings
from webtraj.training.sft.batches import Plan, pack
from webtraj.training.sft.settings import load_train_config

IDS = {"prompt_token_ids": [1], "completion_token_ids": [2]}
CHAT = [{"role": "system", "content": "Act."}, {"role": "user", "content": "Click."}]
MESSAGES = (Message.of("system", "Act."), Message.of("user", "Click."))
REPLY = {"role": "assistant", "content": "click('1')"}
DOT = "data:image/gif;base64,R0lGODlhAQABAAAAACwAAAAAAQABAAACAkQBADs="


@pytest.mark.parametrize(
    "row",
    [
        {"messages": CHAT, "completion": "click('1')"},
        {"messages": [*CHAT, REPLY]},
        {"prompt": CHAT, "completion": [REPLY]},
    ],
    ids=["messages and completion", "messages", "prompt and completion"],
)
def test_rows_of_text(row):
    sample = read_row({**row, "loss_weight": 0.5, "source": "here"}, "row")
    assert (sample.messages, sample.completion) == (MESSAGES, "click('1')")
    assert (sample.loss_weight, sample.metadata) == (0.5, {"source": "here"})


@pytest.mark.parametrize("ending", ["token_ids", "ids"])
def test_rows_of_ids(ending):
    row = {f"prompt_{ending}": [1, 2], f"completion_{ending}": [3], "episode_id": "e", "step": 4}
    sample = read_row(row, "row")
    assert (sample.prompt_token_ids, sample.completion_token_ids) == ((1, 2), (3,))
    assert (sample.key.episode_id, sample.key.step) == ("e", 4)


@pytest.mark.parametrize(
    ("mask", "kept"),
    [
        ([0, 0, 1, 1, 1], ()),
        ([0, 0, 1, 0, 1], (True, False, True)),
        ([False, False, True, True, False], (True, True, False)),
        ([0, 0, 0, 0, 0], (False, False, False)),
        ([], ()),
        ([0, 1, 1, 1, 1], None),
        ([0, 0, 1, 1], None),
        ([0, 0, 2, 1, 1], None),
        ("00111", None),
    ],
)
def test_a_mask_is_obeyed_or_refused(mask, kept):
    row = {"prompt_ids": [1, 2], "completion_ids": [3, 4, 5], "mask": mask}
    if kept is None:
        with pytest.raises(errors.InvalidInputError, match="mask"):
            read_row(row, "row")
    else:
        assert read_row(row, "row").mask == kept


def test_a_mask_needs_token_ids():
    with pytest.raises(errors.InvalidInputError, match="mask"):
        read_row({"messages": CHAT, "completion": "click('1')", "mask": [1]}, "row")


def test_images_lie_beside_the_file_or_in_it(tmp_path):
    (tmp_path / "images").mkdir()
    (tmp_path / "images" / "a.png").write_bytes(b"first")
    url = "data:image/png;base64," + base64.b64encode(b"second").decode()
    content = [
        {"type": "text", "text": "See"},
        {"type": "image"},
        {"type": "image_url", "image_url": {"url": url}},
    ]
    beside = {"type": "image_url", "image_url": {"url": "images/a.png"}}
    row = {
        "messages": [{"role": "user", "content": [*content, {"type": "image"}, beside]}],
        "completion": "x",
        "images": ["images/a.png", url],
    }
    (tmp_path / "rows.jsonl").write_text(json.dumps(row) + "\n\n" + json.dumps(row))
    found = SampleFile(tmp_path / "rows.jsonl")
    assert len(found) == 2
    first, second = Image(b"first"), Image(b"second")
    expected = (Message.of("user", "See", first, second, second, first),)
    assert [sample.messages for sample in found] == [expected] * 2
    assert len({sample.key for sample in found}) == 2
    by_ids = {"prompt_token_ids": [1], "completion_token_ids": [2], "images": ["images/a.png"]}
    sample = read_row(by_ids, "row", folder=tmp_path)
    assert sample.messages == (Message.of("user", Image(b"first")),)


@each(
    ("row", "message"),
    [
        ({}, "expected prompt_token_ids with completion_token_ids, or messages"),
        ({"messages": CHAT}, "expected prompt_token_ids"),
        ({"prompt_token_ids": [1]}, "expected prompt_token_ids"),
        (
            {"messages": CHAT, "completion": 3},
            "expected a text or a list of one assistant message as completion",
        ),
        ({"messages": "hi", "completion": "x"}, "expected a list of messages"),
        ({"messages": [{"role": "robot", "content": ""}], "completion": "x"}, "expected a role of"),
        (
            {"messages": CHAT, "completion": "x", "loss_weight": "1"},
            "expected a number as loss_weight",
        ),
        ({"prompt_token_ids": [1.5], "completion_token_ids": [1]}, "expected a list of int"),
        ({"messages": CHAT, "completion": "x", "images": ["../a.png"]}, "is not beside the file"),
        ({"messages": CHAT, "completion": "x", "images": ["/etc/hosts"]}, "is not beside the file"),
        ({"messages": CHAT, "completion": "x", "images": ["none.png"]}, "cannot read the image"),
        ({**IDS, "grids": [{}]}, "1 grids for 0 images"),
        ({**IDS, "processor": {"class": "x"}}, "an object as processor of its grids"),
        (
            {**IDS, "images": [DOT], "grids": [{}], "processor": {"settings": []}},
            "an object as settings of its processor",
        ),
        (
            {"messages": [{"role": "user", "content": [{"type": "image"}]}], "completion": "x"},
            "shows an image missing in `images`",
        ),
    ],
)
def test_rows_that_are_none_are_named(tmp_path, row, message):
    (tmp_path / "rows.jsonl").write_text("\n" + json.dumps(row) + "\n")
    with pytest.raises(errors.InvalidInputError, match=f"rows.jsonl, line 2.*{message}"):
        SampleFile(tmp_path / "rows.jsonl")[0]


LONG = "b-" * 300  # Neither a file's name nor base64.


@each(
    "wrong",
    [
        {"images": [f"data:image/png;base64,{LONG}"]},
        {"images": [f"data:image/png,{LONG}"]},
        {"images": [LONG]},
        {"images": [f"../{LONG}"]},
        {"images": [f"\0{LONG}"]},
        {"images": {LONG: LONG}},
        {"messages": [{"role": LONG}]},
        {"messages": [{"role": "user", "content": [{"type": LONG}]}]},
        {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": LONG}]}]},
        {"completion": None, LONG: LONG},
        {"logprobs": LONG},
        {"reward": LONG},
        {"mask": LONG},
        {"iteration": LONG},
    ],
)
def test_messages_show_at_most_100_characters_of_a_value(tmp_path, wrong):
    row = {"messages": CHAT, "completion": "x", **wrong}
    with pytest.raises(errors.InvalidInputError) as caught:
        read_row(row, "row", folder=tmp_path)
    assert "b-b-" in str(caught.value)
    assert LONG[:101] not in str(caught.value)


def test_files_that_are_none_are_refused(tmp_path):
    (tmp_path / "empty.jsonl").write_text("\n")
    with pytest.raises(errors.InvalidInputError, match="has no rows"):
        SampleFile(tmp_path / "empty.jsonl")
    with pytest.raises(errors.InvalidInputError, match="Cannot read"):
        SampleFile(tmp_path / "none.jsonl")


@each(
    ("kind", "options"),
    [
        ("tokens", {}),
        ("openai", {"weights": "column"}),
        ("openai", {"weights": "column", "images": "inline"}),
        ("sharegpt", {"weights": "column"}),
        ("trl", {"weights": "column"}),
    ],
)
def test_what_is_exported_can_be_read(tmp_path, kind, options):
    encoded = io.BytesIO()
    PIL.Image.new("RGB", (8, 6), (9, 9, 9)).save(encoded, "PNG")
    image = Image(encoded.getvalue())
    samples = [
        Sample(
            key=SampleKey(f"episode/{number}", 3, 1),
            messages=(Message.of("user", "See ", image, *(["!"] if number else [])),),
            completion="click('1')",
            prompt_token_ids=(1, 2, number),
            completion_token_ids=(3, 4),
            logprobs=(-0.5, -0.25),
            loss_weight=0.5 + number,
            reward=1.0,
            group_id="group",
        )
        for number in range(2)
    ]
    export_samples({"train": samples}, tmp_path / "out", format=kind, options=options)
    found = list(open_samples([tmp_path / "out"]))
    assert [one.key for one in found] == [one.key for one in samples]
    assert [one.loss_weight for one in found] == [0.5, 1.5]
    if kind == "tokens":
        assert [one.prompt_token_ids for one in found] == [(1, 2, 0), (1, 2, 1)]
        assert [one.messages for one in found] == [(Message.of("user", image),)] * 2
    else:
        assert [one.messages for one in found] == [one.messages for one in samples]
        assert [one.completion for one in found] == ["click('1')"] * 2


def test_what_only_looks_like_an_image_is_text_again(tmp_path):
    said = "a page says <image> and <\u200bvideo>"
    one = Sample(
        key=SampleKey("e", 1),
        messages=(Message.of("system", "Say <image>."), Message.of("user", said)),
        completion="click('1')",
    )
    export_samples({"train": [one]}, tmp_path / "out")
    (found,) = SampleFile(tmp_path / "out" / "finetune_train.json")
    assert found.messages == one.messages


def test_exports_bring_what_they_hold_out(tmp_path):
    samples = [
        Sample(key=SampleKey("e", number), messages=MESSAGES, completion=f"click('{number}')")
        for number in range(5)
    ]
    export_samples({"train": samples[:3], "val": samples[3:]}, tmp_path / "both")
    export_samples({"train": samples[:1]}, tmp_path / "one", format="openai")
    paths = [tmp_path / "both", tmp_path / "one", tmp_path / "one" / "train.jsonl"]
    assert [one.key.step for one in open_samples(paths)] == [0, 1, 2, 0, 0]
    assert [one.key.step for one in open_held_out(paths)] == [3, 4]
    assert len(open_held_out(paths[1:])) == 0


def test_folders_that_are_no_samples_to_imitate_are_refused(tmp_path):
    with pytest.raises(errors.InvalidInputError, match="has no webtraj-export"):
        open_samples([tmp_path])
    one = Sample(key=SampleKey("e", 1), messages=MESSAGES, completion="click('1')")
    export_samples({"val": [one]}, tmp_path / "out")
    with pytest.raises(errors.InvalidInputError, match="has no split 'train'; it has val"):
        open_samples([tmp_path / "out"])
    manifest = tmp_path / "out" / "webtraj-export.jsonl"
    manifest.write_text(manifest.read_text().replace('"sharegpt"', '"preferences"', 1))
    with pytest.raises(errors.InvalidInputError, match="'preferences', which cannot be imita"):
        open_held_out([tmp_path / "out"])


@each(
    ("row", "message"),
    [
        ({"conversations": []}, "expected a list of turns as conversations"),
        ({"conversations": [{"from": "tool", "value": "x"}]}, "turn 0: expected a text from"),
        ({"conversations": [{"from": "gpt", "value": "x"}]}, "expected a reply of gpt"),
        ({"conversations": [{"from": "human", "value": "x"}] * 2}, "expected a reply of gpt"),
        ({"conversations": [{"from": "human", "value": "x"}], "chosen": {"a": 1}}, "has chosen"),
        (
            {
                "conversations": [
                    {"from": "human", "value": "<image>"}, {"from": "gpt", "value": "x"},
                ]
            },
            "shows an image missing in `images`",
        ),
    ],
)  # fmt: skip
def test_rows_of_sharegpt_that_are_none_are_named(tmp_path, row, message):
    (tmp_path / "rows.json").write_text("[\n" + json.dumps(row) + "\n]\n")
    with pytest.raises(errors.InvalidInputError, match=f"rows.json, line 2.*{message}"):
        SampleFile(tmp_path / "rows.json")[0]


lengths = st.lists(st.integers(1, 20), min_size=1, max_size=40)
shapes = st.fixed_dictionaries(
    {
        "batch_size": st.integers(1, 4),
        "accumulation": st.integers(1, 3),
        "world": st.integers(1, 3),
        "row_length": st.sampled_from([None, 20, 50]),
        "seed": st.integers(0, 3),
    }
)


@settings(deadline=None)
@given(lengths, shapes, st.integers(1, 3))
def test_each_epoch_has_each_sample_once(lengths, shape, epochs):
    plan = Plan(lengths, epochs=epochs, **shape)
    steps = list(plan.steps())
    assert len(steps) == plan.num_steps
    for epoch in range(epochs):
        found = [n for step in steps if step.epoch == epoch for n in step.samples]
        assert sorted(found) == list(range(len(lengths)))
    for step in steps:
        assert len(step.ranks) == shape["world"]
        assert len({len(passes) for passes in step.ranks}) == 1
        rows = [row for passes in step.ranks for one in passes for row in one.rows]
        assert all(sum(lengths[n] for n in row) <= (shape["row_length"] or 20) for row in rows)


@settings(deadline=None)
@given(lengths, shapes, st.integers(1, 30), st.data())
def test_a_plan_goes_on_anywhere(lengths, shape, max_steps, data):
    plan = Plan(lengths, max_steps=max_steps, **shape)
    start = data.draw(st.integers(0, max_steps))
    assert list(plan.steps(start)) == list(plan.steps())[start:]


@settings(deadline=None)
@given(st.lists(st.integers(1, 2000), min_size=1, max_size=60), st.integers(1, 20))
def test_passes_are_padded_little(lengths, batch_size):
    for step in Plan(lengths, batch_size=batch_size, accumulation=2).steps():
        for rows in (one.rows for one in step.ranks[0]):
            longest = max(lengths[sample] for (sample,) in rows)
            assert len(rows) <= batch_size
            assert sum(longest - lengths[sample] for (sample,) in rows) <= 512
    # Processes wait for one another, so each has the fewest passes.
    shared = Plan(lengths, batch_size=batch_size, world=2)
    assert all(len(passes) == 1 for step in shared.steps() for passes in step.ranks)


@settings(deadline=None)
@given(lengths)
def test_packing_loses_nothing(lengths):
    rows = pack(range(len(lengths)), lengths, room=25)
    assert sorted(n for row in rows for n in row) == list(range(len(lengths)))


def test_configurations_are_files_with_values_on_top(tmp_path, monkeypatch):
    monkeypatch.setenv("WEIGHTS", "base")
    path = tmp_path / "train.yaml"
    path.write_text(
        "model: ${oc.env:WEIGHTS}\ndata: [rows.jsonl]\nlora: {rank: 4}\nlearning_rate: 1e-4\n"
    )
    found = load_train_config(path, ["lora.alpha=8", "epochs=3"], {"out": "out"})
    assert (found.model, found.data, found.out) == ("base", ["rows.jsonl"], "out")
    assert (found.lora.rank, found.lora.alpha, found.epochs) == (4, 8, 3)
    assert found.learning_rate == 1e-4


@each(
    ("overrides", "message"),
    [
        (["learning_rat=1"], "learning_rat is unknown; did you mean learning_rate"),
        (["learning_rate=-1"], "learning_rate"),
        (["epochs=2.5"], "epochs"),
        (["method=qlora"], "method"),
        (["epochs"], "is not an override"),
        (["data=3"], "data: .* list"),
    ],
)
def test_wrong_configurations_are_refused(overrides, message):
    with pytest.raises(errors.InvalidInputError, match=message):
        load_train_config(None, ["data=[rows.jsonl]", *overrides], {"model": "m", "out": "o"})


def test_what_is_missing_is_asked_for_by_its_flag():
    with pytest.raises(errors.InvalidInputError, match=r"lacks data\. Pass --data, or set"):
        load_train_config(None, [], {"model": "m", "out": "o"})
    with pytest.raises(errors.InvalidInputError, match="Pass --model, --data, --out, or"):
        load_train_config(None)


def test_where_things_go_does_not_make_another_run():
    one = SftSettings(model="m", out="here", save_steps=5)
    other = SftSettings(model="m", out="there", log_steps=10)
    assert one.what_matters() == other.what_matters()
    assert one.what_matters() != SftSettings(model="m", out="here", seed=1).what_matters()


def test_a_sampled_reply_without_token_ids_is_refused_and_not_imitated():
    from webtraj.training.sft.encoding import Encoded
    from webtraj.training.sft.policy_gradient import with_policy
    from webtraj.training.sft.settings import PolicySettings

    ids, trained = np.arange(3, dtype=np.int32), np.array([False, False, True])
    encoded = Encoded("The sample of e, step 1,", ids, trained, 1.0, False, 1.0)
    with pytest.raises(
        errors.InvalidInputError, match=r"of e, step 1, .* lacks recorded token ids"
    ):
        with_policy(encoded, -0.5, PolicySettings())
    assert with_policy(encoded, None, PolicySettings(supervised_weight=0.5)).weight == 0.5
