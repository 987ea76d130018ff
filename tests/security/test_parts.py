"""Copies of episodes without some parts: what is left out, and what stays."""

import base64
import dataclasses
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from rows import each
from webtraj import errors
from webtraj.datasets import DatasetWriter, copy, open_dataset
from webtraj.redaction.parts import PARTS, Stripper, without
from webtraj.trajectory import (
    Decision,
    EndReason,
    EpisodeEnd,
    EpisodeInfo,
    EpisodeTrajectory,
    Judgement,
    ModelCall,
    Outcome,
    StepRecord,
    StepType,
)
from whole import whole


def encoded(image_format: str) -> bytes:
    file = io.BytesIO()
    pixels = np.random.default_rng(0).integers(0, 255, (24, 32, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(file, format=image_format)
    return file.getvalue()


FORMATS = ["JPEG", "PNG", "GIF", "WEBP", "BMP", "TIFF", "AVIF", "ICO", "JPEG2000"]
JPEG, PNG = encoded("JPEG"), encoded("PNG")
PNG_TEXT = base64.b64encode(PNG).decode()
PIXELS = np.zeros((24, 32, 3), dtype=np.uint8)
HTML = "<!doctype html><html><body><p>secret source</p></body></html>"

LEFT_OUT = {
    **{f"bytes of {name}": ("screenshots", encoded(name)) for name in FORMATS},
    "bytearray": ("screenshots", bytearray(PNG)),
    "array": ("screenshots", PIXELS),
    "grey array": ("screenshots", PIXELS[:, :, 0]),
    "float array": ("screenshots", np.zeros((3, 24, 32), dtype=np.float32)),
    "array of bytes": ("screenshots", np.array([PNG, b"text"], dtype=object)),
    "data URI in text": ("screenshots", f'see <img src="data:image/png;base64,{PNG_TEXT}"> there'),
    "escaped data URI": (
        "screenshots",
        json.dumps(f"data:image/png;base64,{PNG_TEXT}").replace("/", "\\/"),
    ),
    **{
        f"base64 of {name}": (
            "screenshots",
            f'{{"image": "{base64.b64encode(encoded(name)).decode()}"}}',
        )
        for name in ("JPEG", "PNG", "GIF", "WEBP", "TIFF", "AVIF")
    },
    "base64 for URLs": ("screenshots", base64.urlsafe_b64encode(JPEG).decode()),
    "base64 in lines": ("screenshots", base64.encodebytes(PNG).decode()),
    "base64 in bytes": ("screenshots", PNG_TEXT.encode()),
    "SVG": ("screenshots", 'before <svg xmlns="x"><text>t0psecret</text></svg>'),
    "message": ("screenshots", ({"role": "user", "content": [{"image": JPEG}]},)),
    "file": ("files", b"%PDF-1.7 \xff\xfe \x00"),
    "page": ("html", HTML),
    "page in text": ("html", f"The page is {HTML} and so on"),
    "cut page": ("html", "The page is <html lang=en><p>secret source"),
    "page by name": ("html", {"dom_txt": "<p>secret source</p>"}),
    "tree of nodes": ("html", {"dom_object": {"documents": ["secret source"]}}),
    "header": ("credentials", {"Authorization": "Bearer t0psecret"}),
    "header pair": ("credentials", [["cookie", "sid=t0psecret"], ["accept", "*/*"]]),
    "header record": ("credentials", [{"name": "Set-Cookie", "value": "sid=t0psecret"}]),
    "header in text": ("credentials", "sent {'Authorization': 'Bearer t0psecret'} to it"),
    "password in a URL": ("credentials", "http://anna:t0psecret@shop.example/"),
    "field": ("credentials", {"apiKey": "t0psecret"}),
    "field that may be harmless": ("credentials", {"token": "t0psecret9f86d081884c7d65"}),
    "key of a service": ("credentials", "with sk-t0psecret0123456789abcdef it works"),
    "storage state": ("storage", {"storage_state": {"cookies": [{"name": "t0psecret"}]}}),
}
LEAKS = (
    "t0psecret",
    "secret source",
    PNG_TEXT[40:60],
    PNG_TEXT[1210:1230],
    "\\x89PNG",
    "\\xff\\xd8",
)


@each(("part", "value"), LEFT_OUT.values())
def test_a_part_is_found_and_counted_wherever_it_is(part: str, value: Any) -> None:
    stripper = Stripper(frozenset({part}))
    stripped = stripper.walk({"x": value, "note": "kept"})
    assert stripper.counts[part] >= 1
    assert stripped["note"] == "kept"
    assert not [leak for leak in LEAKS if leak in whole(stripped)]


KEPT = [
    'RootWebArea\n  [1] button "Cookie settings"\n  text "Cookie: we use cookies"',
    {"html": "the format's name", "dom": None, "token": "a word"},
    {"password_field": "[5]", "secret_santa": "a party"},
    {"api_key": "", "cookies": [], "storage_state": None},
    np.zeros((40, 4)),
    np.arange(300, dtype=np.int16),
    np.zeros((4, 4, 3), dtype=np.uint8),
    b"plain bytes",
    "see data:text/plain,hello and /9j/ and iVBORw0KGgo",
    "authorization is needed; the bearer of it: see https://shop.example/@anna:4",
    ("tuple", frozenset({1, 2}), 1.5, None, True),
]


@each("value", KEPT)
def test_everything_else_is_returned_itself(value: Any) -> None:
    stripper = Stripper(frozenset(PARTS))
    assert stripper.walk(value) is value
    assert not stripper.counts


def episode(name: str = "e1", **info: Any) -> EpisodeTrajectory:
    call = ModelCall(
        model="m",
        messages=({"role": "user", "content": [{"type": "text", "text": "Buy"}, {"image": JPEG}]},),
        response={"choices": [{"message": f"data:image/png;base64,{PNG_TEXT}"}]},
        text="click('1')",
        prompt_token_ids=(1, 2),
        completion_token_ids=(3,),
        logprobs=(-0.5,),
    )
    steps = (
        StepRecord(0, StepType.FIRST, {"axtree": '[1] button "Buy"', "screenshot": JPEG}),
        StepRecord(
            1,
            StepType.LAST,
            {"axtree": "a" * 5000, "html": HTML, "set_of_marks": {"image": PNG, "refs": ["1"]}},
            action="click('1')",
            reward=1.0,
            discount=0.0,
            decision=Decision(action="click('1')", thought="Buy it", model_calls=(call,)),
        ),
    )
    info = {"metadata": {"note": "n"}, **info}
    end = EpisodeEnd(reason=EndReason.TERMINATED)
    return EpisodeTrajectory(EpisodeInfo(episode_id=name, seed=7, **info), steps, end)


def test_an_episode_keeps_all_but_the_parts() -> None:
    given = episode()
    made = without(given, ["screenshots"])
    assert made.steps[0].observation == {"axtree": '[1] button "Buy"', "screenshot": b""}
    assert made.steps[1].observation["set_of_marks"] == {"image": b"", "refs": ["1"]}
    assert made.steps[1].observation["html"] == HTML
    call, old = made.steps[1].decision.model_calls[0], given.steps[1].decision.model_calls[0]
    assert call.response == {"choices": [{"message": "<left out: screenshots>"}]}
    assert call.messages[0]["content"] == [{"type": "text", "text": "Buy"}, {"image": b""}]
    # No token spells a picture, so the call can still be trained on.
    for name in ("text", "prompt_token_ids", "completion_token_ids", "logprobs"):
        assert getattr(call, name) == getattr(old, name)
    for name in ("action", "reward", "discount", "step_type"):
        assert [getattr(s, name) for s in made.steps] == [getattr(s, name) for s in given.steps]
    assert made.end == given.end
    metadata = {"note": "n", "left_out": {"screenshots": 4}}
    assert made.info == dataclasses.replace(given.info, metadata=metadata)
    assert without(made, ["screenshots"]) == made
    with pytest.raises(errors.InvalidInputError, match="Unknown part 'pictures'"):
        without(given, ["pictures"])


def test_the_tokens_of_a_text_go_with_it() -> None:
    call = ModelCall(messages=({"content": HTML},), prompt_token_ids=(1,), logprobs=(-0.5,))
    step = StepRecord(0, StepType.FIRST, None, decision=Decision(action=None, model_calls=(call,)))
    (made,) = without(EpisodeTrajectory(EpisodeInfo(), (step,)), PARTS).steps
    assert made.decision.model_calls[0].prompt_token_ids == ()
    assert made.decision.model_calls[0].messages == ({"content": "<left out: html>"},)


@each("source_format", ["json", "pb.zst"])
def test_a_dataset_is_copied_without_parts(tmp_path: Path, source_format: str) -> None:
    with DatasetWriter(tmp_path / "source", format=source_format) as writer:
        for name in ("e1", "e2", "e3"):
            writer.add(episode(name))
    source = open_dataset(tmp_path / "source")
    call = ModelCall(messages=({"image": JPEG},), text="yes")
    with source.judgements as judgements:
        judgements.add(
            [("e1", Judgement(judge="me", outcome=Outcome.SUCCESS, model_calls=(call,)))]
        )
    (path,) = (tmp_path / "source" / "episodes").glob("e3.*")
    path.write_bytes(b"{")
    parts = ("screenshots", "html")
    report = copy(tmp_path / "source", tmp_path / "target", without=parts)
    assert (report.added, report.complete) == (("e1", "e2"), False)
    assert report.failed[0].startswith("e3")
    dataset = open_dataset(tmp_path / "target")
    assert dataset.place.header.format == source_format
    assert [made.steps for made in dataset] == [without(episode(), parts).steps] * 2
    assert dataset["e1"].outcome is Outcome.SUCCESS
    for file in (tmp_path / "target").rglob("*.*"):
        assert file.suffix not in (".jpg", ".png")
        assert JPEG[:20] not in file.read_bytes()
    again = copy(tmp_path / "source", tmp_path / "target", without=parts)
    assert again.skipped == ("e1", "e2")


def test_a_copy_without_parts_loses_nothing_else(tmp_path: Path) -> None:
    """A missing blob is an error, and a target with the whole episode is a conflict."""
    with DatasetWriter(tmp_path / "source") as writer:
        writer.add(episode("e1"))
    copy(tmp_path / "source", tmp_path / "whole")
    report = copy(tmp_path / "source", tmp_path / "whole", without=["screenshots"])
    assert not report.complete
    assert report.clashes
    for blob in (tmp_path / "source" / "blobs").rglob("*.*"):
        blob.unlink()
    report = copy(tmp_path / "source", tmp_path / "target", without=["html"])
    assert not report.added
    assert "Cannot read the blob" in report.failed[0]


def test_token_ids_of_calls_that_share_their_messages_go() -> None:
    messages = ({"role": "user", "content": "sk-live-0123456789abcdef0123456789abcdef"},)
    call = ModelCall(messages=messages, prompt_token_ids=(1, 2), text="yes")
    decision = Decision(model_calls=(call, dataclasses.replace(call)))
    made = Stripper(frozenset(["credentials"])).walk(decision)
    assert [one.prompt_token_ids for one in made.model_calls] == [(), ()]
