"""Pointing prompts as token ids: what the copies differ in, and what stays."""

import dataclasses
import itertools
import re
from pathlib import Path

import numpy as np
import orjson
import pytest
import tokenizers

from two_cores.decisions import PointingRenderer, Reach, decisions_of, reach_of
from two_cores.scratch import make_tokenizer
from webtraj import errors
from webtraj.datasets.writer import DatasetWriter
from webtraj.environments import actions as a
from webtraj.training.export import export_selection
from webtraj.training.replay import Filters, ReplayBuffer
from webtraj.trajectory import (
    EndReason,
    EpisodeEnd,
    EpisodeInfo,
    EpisodeTrajectory,
    Outcome,
    StepRecord,
    StepType,
)

PAGE = '[1] textbox "Name"\n[2] button "Send"\n[3] button "Send it later"\n[4] link "Send"'
GOAL = 'Enter "Bob" and click Send.'


def episode(*actions, name="e1", goal=GOAL, page=PAGE, outcome=Outcome.SUCCESS):
    kinds = itertools.chain([StepType.FIRST], itertools.repeat(StepType.MID, len(actions) - 1))
    steps = [
        StepRecord(0, next(kinds), {"goal": goal, "axtree": page}),
        *(
            StepRecord(number, kind, {"goal": goal, "axtree": page}, action, 0.0, 1.0)
            for number, (kind, action) in enumerate(
                zip([*kinds, StepType.LAST], actions, strict=True), 1
            )
        ),
    ]
    end = EpisodeEnd(reason=EndReason.TERMINATED, outcome=outcome)
    return EpisodeTrajectory(
        EpisodeInfo(episode_id=name, task="form", goal=goal), tuple(steps), end
    )


@pytest.fixture
def model(tmp_path):
    folder = tmp_path / "model"
    folder.mkdir()
    make_tokenizer([GOAL, "textbox Name button Send it later link"]).save(
        str(folder / "tokenizer.json")
    )
    return folder


@pytest.fixture
def selection(tmp_path):
    with DatasetWriter(tmp_path / "data") as writer:
        writer.add(episode(a.Fill("1", "Bob"), a.Click("2")))
        writer.add(episode(a.Click("3"), a.Click("4"), name="e2", outcome=Outcome.FAILURE))
    filters = Filters(min_steps=1, filter_same_screenshot=False)
    return ReplayBuffer.from_datasets(
        tmp_path / "data", filters=filters, render=PointingRenderer()
    ).all


def rows_in(folder):
    return [orjson.loads(line) for line in (Path(folder) / "train.jsonl").read_bytes().splitlines()]


def said(model, ids):
    tokenizer = tokenizers.Tokenizer.from_file(str(model / "tokenizer.json"))
    return [tokenizer.id_to_token(number) for number in ids]


def test_copies_differ_in_names_alone(tmp_path, model, selection):
    options = {"model": str(model), "copies": 30}
    report = export_selection(selection, tmp_path / "out", format="pointing", options=options)
    rows = rows_in(tmp_path / "out")
    assert report.splits["train"].samples == 2
    assert len(rows) == 60
    for number, element in ((1, "1"), (2, "2")):
        copies = [row for row in rows if row["sample"] == f"e1/{number}/0"]
        prompts = [said(model, row["prompt_token_ids"]) for row in copies]
        replies = [said(model, row["completion_token_ids"]) for row in copies]
        assert len({tuple(prompt) for prompt in prompts}) == 30
        bare = {re.sub(r"<[ew]\d+>", "<>", " ".join(prompt)) for prompt in prompts}
        assert len(bare) == 1
        for prompt, reply in zip(prompts, replies, strict=True):
            names = [token for token in prompt if re.fullmatch(r"<e\d+>", token)]
            assert len(set(names)) == 4
            assert all(int(name[2:-1]) < 48 for name in names), "the usual names"
            assert reply[0] == names[int(element) - 1]
            # What is typed is the word that the goal's name for it follows.
            typed = reply[1]
            assert (typed == "<w0>") == (number == 2)
            if number == 1:
                assert "".join(prompt[: prompt.index(typed)]).endswith('"Bob"')


def test_samples_of_more_weight_have_more_copies(tmp_path, model, selection):
    weighed = selection.with_loss_weights(lambda view: np.array([0.5, 4.0]))
    options = {"model": str(model), "copies": 2, "weights": "copies"}
    report = export_selection(weighed, tmp_path / "out", format="pointing", options=options)
    rows = rows_in(tmp_path / "out")
    assert report.splits["train"].rows == len(rows) == 9
    assert [row["sample"] for row in rows].count("e1/2/0") == 8
    assert {row["loss_weight"] for row in rows} == {1.0}


def test_replies_end_if_asked_for(tmp_path, model, selection):
    options = {"model": str(model), "end": True}
    export_selection(selection, tmp_path / "out", format="pointing", options=options)
    for row in rows_in(tmp_path / "out"):
        assert len(row["completion_token_ids"]) == 3
        assert said(model, row["completion_token_ids"])[2] == "<end>"


def test_the_same_seed_gives_the_same_bytes(tmp_path, model, selection):
    def written(name, seed):
        options = {"model": str(model), "copies": 3, "seed": seed}
        export_selection(selection, tmp_path / name, format="pointing", options=options)
        return (tmp_path / name / "train.jsonl").read_bytes()

    assert written("a", 1) == written("b", 1) != written("c", 2)


def test_too_long_samples_are_left_out_and_told(tmp_path, model, selection):
    options = {"model": str(model), "cutoff_len": 5}
    with pytest.raises(errors.InvalidInputError, match=r"longer than 5 tokens \(2\)"):
        export_selection(selection, tmp_path / "out", format="pointing", options=options)
    assert not (tmp_path / "out").exists()


def test_decisions_are_those_that_can_be_pointed_at():
    told = [
        (decided.step, decided.done)
        for decided in decisions_of(
            episode(
                a.Click("3"),
                a.Fill("1", "nobody said this"),
                a.InvalidAction(reason="?"),
                a.Click("9"),
                a.Click("2"),
            )
        )
    ]
    assert told == [(1, ()), (5, (("3", "button Send it later"),))]


def moved(*actions, page, boxes, touched=None):
    """An episode with boxes; the first action touched the element `touched`."""
    played = episode(*actions, page=page)
    steps = [
        dataclasses.replace(
            step,
            observation={
                **step.observation,
                "boxes": {"refs": list(boxes), "boxes": list(boxes.values())},
                "last_action": touched if number == 1 and touched else {},
            },
        )
        for number, step in enumerate(played.steps)
    ]
    return dataclasses.replace(played, steps=tuple(steps))


CARDS = '[1] rect fill="rgb(0, 0, 0)"\n[2] rect fill="rgb(0, 0, 0)"\n[3] button "Send"'
PLACED = {"1": [0, 0, 20, 20], "2": [100, 0, 20, 20], "3": [0, 50, 40, 20]}


def test_reach_counts_what_has_a_reply_and_what_is_told_apart():
    actions = (a.DragAt(((10.0, 10.0), (110.0, 10.0))), a.TypeText("?"), a.Click("3"))
    played = moved(*actions, page=CARDS, boxes=PLACED)
    assert reach_of(played) == Reach(steps=3, expressed=2, told_apart=2)
    assert reach_of(episode(a.Click("1"), a.Click("3"), page=CARDS)) == Reach(2, 2, 1)


def test_prompts_of_an_answer_and_of_a_cut_page():
    played = episode(a.Click("4"), a.Click("2"), a.Answer("done"))
    assert [decided.step for decided in decisions_of(played)] == [1, 2, 3]
    # Fields and buttons stay first: the link is not shown.
    assert reach_of(played, elements=3) == Reach(steps=3, expressed=2, told_apart=2)
    assert PointingRenderer(elements=3).render(played)[3].completion == "<answer><w0>"
    with pytest.raises(errors.InvalidInputError, match="from 1 to 96; got 0"):
        PointingRenderer(elements=0)


def test_click_on_what_has_no_line_is_one_on_what_is_shown_there():
    touched = {"ref": "77", "box": [95.0, 0.0, 30.0, 20.0]}
    played = moved(a.Click("77"), a.Click("3"), page=CARDS, boxes=PLACED, touched=touched)
    assert [decided.action for decided in decisions_of(played)] == [a.Click("2"), a.Click("3")]
    elsewhere = {"ref": "77", "box": [300.0, 300.0, 30.0, 20.0]}
    played = moved(a.Click("77"), a.Click("3"), page=CARDS, boxes=PLACED, touched=elsewhere)
    assert [decided.step for decided in decisions_of(played)] == [2]
