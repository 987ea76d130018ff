"""What is shared of episodes: text, actions, rewards and times; no picture, page source, key."""

import base64
import dataclasses
import datetime
import io
import json
import urllib.parse
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

import webtraj
from rows import each
from webtraj import errors
from webtraj.datasets.dataset import open_dataset
from webtraj.datasets.sharing import check_shareable, share, shareable
from webtraj.datasets.stripping import Stripper
from webtraj.datasets.writer import DatasetWriter
from webtraj.trajectory import (
    Decision,
    EndReason,
    EpisodeEnd,
    EpisodeInfo,
    EpisodeTrajectory,
    ModelCall,
    StepRecord,
    StepType,
)
from whole import whole


def encoded(image_format: str) -> bytes:
    file = io.BytesIO()
    pixels = np.random.default_rng(0).integers(0, 255, (24, 32, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(file, format=image_format)
    return file.getvalue()


def in_base64(image_format: str) -> str:
    return base64.b64encode(encoded(image_format)).decode()


FORMATS = ["JPEG", "PNG", "GIF", "WEBP", "BMP", "TIFF", "AVIF", "ICO", "JPEG2000"]
JPEG, PNG = encoded("JPEG"), encoded("PNG")
PNG_TEXT = base64.b64encode(PNG).decode()
PIXELS = np.zeros((24, 32, 3), dtype=np.uint8)
HTML = "<!doctype html><html><body><p>secret source</p></body></html>"

HIDDEN = {
    **{f"bytes of {name}": ("images", encoded(name)) for name in FORMATS},
    "bytearray": ("images", bytearray(PNG)),
    "array": ("images", PIXELS),
    "grey array": ("images", PIXELS[:, :, 0]),
    "stack of arrays": ("images", np.zeros((4, 24, 32), dtype=np.uint8)),
    "float array": ("images", np.zeros((3, 24, 32), dtype=np.float32)),
    "array of bytes": ("images", np.array([PNG, b"text"], dtype=object)),
    "data URI": ("images", f"data:image/png;base64,{PNG_TEXT}"),
    "data URI in text": ("images", f'see <img src="data:image/png;base64,{PNG_TEXT}"> there'),
    "escaped data URI": ("images", json.dumps({"u": f"data:image/png;base64,{PNG_TEXT}"})
                         .replace("/", "\\/")),
    "SVG data URI": ("images", "url(data:image/svg+xml;utf8,%3Csvg%3E%3C/svg%3E)"),
    "base64": ("images", {"type": "base64", "data": PNG_TEXT}),
    "base64 of JPEG": ("images", base64.b64encode(JPEG).decode()),
    "base64 for URLs": ("images", base64.urlsafe_b64encode(JPEG).decode()),
    "base64 in lines": ("images", base64.encodebytes(PNG).decode()),
    **{
        f"base64 of {name} {where}": ("images", text.replace("#", in_base64(name)))
        for name in FORMATS
        for where, text in {
            "in a field": '{"image": "#"}',
            "after an escaped newline": json.dumps({"text": "the page\nn"})[:-3] + '#"}',
            "after _": "screenshot_#",
            "after -": "screenshot-#",
            "after a letter": "x#",
            "in JSON in JSON": json.dumps(json.dumps({"image": "a\n#"})),
            "as a data URI": "data:;base64,#",
        }.items()
    },
    **{
        f"base64 {name}": ("images", gap.join(PNG_TEXT[i : i + 60] for i in
                                              range(0, len(PNG_TEXT), 60)))
        for name, gap in {
            "in indented lines": "\n    ",
            "in words": " ",
            "as a program has it": "'\n    + '",
            "as a mail quotes it": "\n> ",
            "in quoted-printable": "=\n",
            "in a shell": "\\\n",
            "with spaces of no width": "\u200b",
        }.items()
    },
    "base64 in a URL in a URL": ("images", "https://h/?u=" + urllib.parse.quote(
        urllib.parse.quote(PNG_TEXT, safe=""), safe="")),
    "base64 of base64": ("images", base64.b64encode(PNG_TEXT.encode()).decode()),
    "base64 with escaped slashes in lines": ("images", json.dumps(
        base64.encodebytes(JPEG).decode()).replace("/", "\\/")),
    "base64 in a URL": ("images", "https://h/?picture=" + urllib.parse.quote(PNG_TEXT, safe="")),
    "hexadecimal": ("images", PNG.hex()),
    "Data URI": ("images", f"DATA:IMAGE/PNG;base64,{PNG_TEXT}"),
    "SVG": ("images", 'before <svg xmlns="http://www.w3.org/2000/svg"><text>t0psecret</text></svg>'),
    "bytes of SVG": ("images", b'<?xml version="1.0"?><svg><text>t0psecret</text></svg>'),
    "bytes of JPEG XL": ("images", b"\xff\x0a" + JPEG),
    "base64 in bytes": ("images", PNG_TEXT.encode()),
    "message": ("images", ({"role": "user", "content": [{"type": "image", "image": JPEG}]},)),
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
    "key in text": ("credentials", "x-api-key: t0psecret-and-more"),
    "password in a URL": ("credentials", "http://anna:t0psecret@shop.example/"),
    "field": ("credentials", {"api_key": "t0psecret"}),
    "field in camel case": ("credentials", {"accessToken": "t0psecret"}),
    "another": ("credentials", {"apiKey": "t0psecret"}),
    "field that may be harmless": ("credentials", {"token": "t0psecret9f86d081884c7d65"}),
    "header of AWS": ("credentials", {"X-Amz-Security-Token": "t0psecret"}),
    "field in text": ("credentials", 'the body was {"api_key": "t0psecret"}'),
    "parameter": ("credentials", "https://h/x?access_token=t0psecret&n=1"),
    "signature of AWS": (
        "credentials",
        "Authorization: AWS4-HMAC-SHA256 Credential=AKIA0/20261123/s3, Signature=t0psecret",
    ),
    "key of a service": ("credentials", "with sk-t0psecret0123456789abcdef it works"),
    "storage state": ("storage", {"storage_state": {"cookies": [{"name": "t0psecret"}]}}),
}  # fmt: skip


@each("case", HIDDEN)
def test_what_is_not_shared_is_found_and_counted(case: str) -> None:
    kind, value = HIDDEN[case]
    stripper = Stripper()
    stripped = stripper.strip({"x": value, "note": "kept"})
    assert stripper.counts[kind] >= 1
    assert set(stripper.counts) == {kind}
    assert stripped["note"] == "kept"
    shown = whole(stripped)
    for leak in (
        "t0psecret",
        "secret source",
        PNG_TEXT[40:60],
        PNG_TEXT[1210:1230],
        "\\x89PNG",
        "\\xff\\xd8",
    ):
        assert leak not in shown


KEPT = [
    'RootWebArea\n  [1] button "Cookie settings"\n  text "Cookie: we use cookies"',
    {"html": "the format's name", "dom": None, "token": "a word"},
    {"password_field": "[5]", "secret_santa": "a party"},
    {"api_key": "", "cookies": [], "storage_state": None},
    np.zeros((40, 4)),
    np.arange(300, dtype=np.int16),
    np.array([["a", "b"]]),
    np.zeros((4, 4, 3), dtype=np.uint8),
    b"plain bytes",
    "see data:text/plain,hello and /9j/ and iVBORw0KGgo",
    "authorization is needed; the bearer of it: see https://shop.example/@anna:4",
    ("tuple", frozenset({1, 2}), 1.5, None, True),
]


@each("value", KEPT)
def test_what_may_be_shared_is_returned_itself(value: Any) -> None:
    stripper = Stripper()
    assert stripper.strip(value) is value
    assert not stripper.counts


# Episodes.


def episode(name: str = "e1", **info: Any) -> EpisodeTrajectory:
    call = ModelCall(
        model="m",
        messages=({"role": "user", "content": [{"type": "text", "text": "Buy"}, {"image": JPEG}]},),
        response={"choices": [{"message": f"data:image/png;base64,{PNG_TEXT}"}]},
        text="click('1')",
        prompt_token_ids=(1, 2),
        completion_token_ids=(3,),
        logprobs=(-0.5,),
        latency=0.25,
    )
    steps = (
        StepRecord(
            0,
            StepType.FIRST,
            {"axtree": '[1] button "Buy"', "screenshot": JPEG, "url": "https://shop.example/"},
            start_time=1.0,
            end_time=2.0,
        ),
        StepRecord(
            1,
            StepType.LAST,
            {"axtree": "mail anna@example.com", "set_of_marks": {"image": PNG, "refs": ["1"]}},
            action="click('1')",
            reward=1.0,
            discount=0.0,
            start_time=2.0,
            end_time=3.0,
            decision=Decision(action="click('1')", thought="Buy it", model_calls=(call,)),
        ),
    )
    return EpisodeTrajectory(
        EpisodeInfo(
            episode_id=name,
            task="shop/buy",
            group_id="g",
            seed=7,
            versions={"browser": "1"},
            **info,
        ),
        steps,
        EpisodeEnd(reason=EndReason.TERMINATED),
        start_time=1.0,
        end_time=3.0,
    )


def test_an_episode_keeps_what_was_done_and_said() -> None:
    given = episode(metadata={"storage_state": {"cookies": [1]}, "note": "n"})
    made = shareable(given)
    assert made.steps[0].observation == {
        "axtree": '[1] button "Buy"',
        "screenshot": b"",
        "url": "https://shop.example/",
    }
    assert made.steps[1].observation["set_of_marks"] == {"image": b"", "refs": ["1"]}
    call, old = made.steps[1].decision.model_calls[0], given.steps[1].decision.model_calls[0]
    assert call.response == {"choices": [{"message": "<not shared: images>"}]}
    assert call.messages[0]["content"] == [{"type": "text", "text": "Buy"}, {"image": b""}]
    # Pictures have no tokens that spell them, so that it can still be trained on.
    for name in ("text", "prompt_token_ids", "completion_token_ids", "logprobs", "latency"):
        assert getattr(call, name) == getattr(old, name)
    for name in ("action", "reward", "discount", "start_time", "end_time", "step_type"):
        assert [getattr(s, name) for s in made.steps] == [getattr(s, name) for s in given.steps]
    assert made.end == given.end
    assert made.info == dataclasses.replace(given.info, metadata=made.info.metadata)
    assert made.info.metadata == {
        "note": "n",
        "storage_state": "<not shared: storage>",
        "shareable": {
            "dropped": {"images": 4, "storage": 1},
            "kept": [],
            "redactions": {},
            "webtraj": webtraj.__version__,
        },
    }


LEFT = {
    "bytes": JPEG,
    "long bytes": PNG + bytes(100_000),
    "array": PIXELS,
    "text": f"data:image/png;base64,{PNG_TEXT}",
    "long text": "x" * 100_000 + f" data:image/png;base64,{PNG_TEXT}",
}


@pytest.mark.parametrize("case", LEFT)
def test_an_episode_with_a_picture_is_told_from_one_without(case: str) -> None:
    step = StepRecord(0, StepType.FIRST, {"deep": [LEFT[case]]})
    made = EpisodeTrajectory(EpisodeInfo(), (step,), EpisodeEnd(reason=EndReason.CLOSED))
    with pytest.raises(errors.InvalidInputError, match="would still hold a picture"):
        check_shareable(made)
    check_shareable(shareable(made))


values = st.recursive(
    st.none()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text()
    | st.binary()
    | st.sampled_from([JPEG, PNG, PIXELS, PNG_TEXT, HTML, f"data:image/png;base64,{PNG_TEXT}"])
    | st.datetimes(timezones=st.just(datetime.UTC)),
    lambda inner: (
        st.lists(inner)
        | st.dictionaries(st.text() | st.sampled_from(["html", "cookie", "screenshot"]), inner)
        | st.tuples(inner, inner)
    ),
    max_leaves=12,
)


@settings(deadline=None)
@given(values)
def test_no_nest_hides_a_picture(value: Any) -> None:
    step = StepRecord(0, StepType.FIRST, value)
    made = EpisodeTrajectory(EpisodeInfo(), (step,), EpisodeEnd(reason=EndReason.CLOSED))
    check_shareable(shareable(made))  # Raises where one is left.


# Datasets.


def fill(place: Path, names: list[str], format_name: str = "json") -> Path:
    with DatasetWriter(place, format=format_name) as writer:
        for name in names:
            writer.add(episode(name))
    return place


def files_of(place: Path) -> list[Path]:
    return [path for path in place.rglob("*") if path.is_file()]


@each("source_format", ["json", "pb", "pb.zst"])
@each("target_format", [None, "json", "pb"])
def test_a_dataset_is_shared_in_any_format(
    tmp_path: Path, source_format: str, target_format: str | None
) -> None:
    source = fill(tmp_path / "source", ["e1", "e2"], source_format)
    report = share(source, tmp_path / "target", format=target_format)
    assert report.added == ("e1", "e2")
    assert report.complete
    assert report.dropped == {"images": 8}
    dataset = open_dataset(tmp_path / "target")
    assert dataset.place.header.format == (target_format or source_format)
    for made in dataset:
        assert made.steps == shareable(episode(made.episode_id)).steps
        check_shareable(made)
    for path in files_of(tmp_path / "target"):
        assert JPEG[:20] not in path.read_bytes()
        assert path.suffix not in (".jpg", ".png")


def test_an_episode_that_cannot_be_read_is_reported_and_the_others_are_shared(
    tmp_path: Path,
) -> None:
    source = fill(tmp_path / "source", ["e1", "e2"])
    (source / "episodes" / "e1.json").write_bytes(b"{")
    report = share(source, tmp_path / "target")
    assert report.added == ("e2",)
    assert len(report.failed) == 1
    assert report.failed[0].startswith("e1")
