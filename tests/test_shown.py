"""Records show themselves in little space, and in HTML without anything to run."""

import base64
import copy
import dataclasses
import io
import pickle
import re

import numpy as np
import pytest
from PIL import Image

from webtraj import trajectory as trajectory_lib
from webtraj.shown import short
from webtraj.store.blobs import Blob, LazyBlob
from webtraj.store.values import OpaqueRecord
from webtraj.trajectory import (
    Decision,
    EndReason,
    EpisodeEnd,
    EpisodeInfo,
    EpisodeTrajectory,
    ErrorInfo,
    Judgement,
    ModelCall,
    Outcome,
    StepRecord,
    StepType,
    Transition,
)

LONG = "<script>alert('x')</script>" * 10_000
LARGE = {
    "text": LONG,
    "bytes": bytes(100_000),
    "array": np.zeros((300, 300, 3), np.uint8),
    "tree": [[[[[LONG] * 50] * 50] * 50] * 50] * 50,
    "number": 1 << 100_000,
    "record": OpaqueRecord("a.B", {"text": LONG, "more": {str(n): LONG for n in range(99)}}),
}
CALL = ModelCall(messages=({"role": "user", "content": LARGE},) * 20, response=LARGE, text=LONG)
DECISION = Decision(action=LONG, thought=LONG, model_calls=(CALL,) * 20, metadata=LARGE)
STEP = StepRecord(1, StepType.MID, LARGE, action=LARGE, reward=1.0, decision=DECISION)
END = EpisodeEnd(
    reason=EndReason.TERMINATED,
    detail=LONG,
    error=ErrorInfo(type="E", message=LONG, traceback=LONG),
    in_flight_action=LARGE,
    judgements=(Judgement(judge="j", reason=LONG, findings=LARGE, model_calls=(CALL,)),) * 9,
    outcome=Outcome.SUCCESS,
)
INFO = EpisodeInfo(task=LONG, goal=LONG, metadata=LARGE)
EPISODE = EpisodeTrajectory(INFO, (STEP,) * 100, END)
RECORDS = (
    CALL, DECISION, STEP, END, *END.judgements[:1], INFO, EPISODE, LARGE["record"],
    Transition(LARGE, LARGE, LARGE, LARGE, LARGE, DECISION),
)  # fmt: skip


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: type(record).__name__)
def test_a_repr_is_short_and_names_the_class(record):
    for text in (repr(record), str(record), repr([record])):
        assert len(text) < 2000
        assert type(record).__name__ in text


def test_a_repr_leaves_out_defaults():
    assert repr(Decision(action="click('1')", thought="")) == "Decision(action=\"click('1')\")"
    assert repr(StepRecord(0, StepType.FIRST, None, reward=0.0)) == (
        "StepRecord(index=0, step_type=FIRST, observation=None, reward=0.0)"
    )


class Hidden(dict):
    def __repr__(self):
        return "<hidden>"


class HiddenText(str):
    def __repr__(self):
        return "<hidden>"


@dataclasses.dataclass
class Key:
    value: str

    def __repr__(self):
        return "<hidden>"


@pytest.mark.parametrize("value", [Hidden(pin="1234"), HiddenText("1234"), Key("1234")])
def test_what_hides_itself_stays_hidden(value):
    for record in (Decision(action=value), EpisodeInfo(metadata={"kept": [value]})):
        assert "<hidden>" in repr(record)
        assert "1234" not in repr(record)


def test_a_lazy_blob_says_its_size():
    blob = LazyBlob(Blob("0" * 64, "jpg", 5000), text=False, store=None)
    assert short({"screenshot": blob}) == "{'screenshot': <5,000 bytes of jpg>}"


def test_a_broken_repr_is_named():
    class Broken:
        def __repr__(self):
            raise OSError

    assert short([Broken()]) == "[<repr failed: OSError>]"


def test_an_unknown_record_gives_its_fields_by_name_and_by_item():
    record = OpaqueRecord("a.B", {"temperature": 0.5, "fields": 1, "_hidden": 2})
    assert (record.temperature, record["temperature"]) == (0.5, 0.5)
    assert (record["fields"], record["_hidden"], list(record)) == (1, 2, list(record.fields))
    for name in ("_hidden", "absent", "__array__"):
        assert not hasattr(record, name)
    for same in (copy.copy(record), copy.deepcopy(record), pickle.loads(pickle.dumps(record))):
        assert same == record


def test_html_has_thumbnails_and_only_escaped_text():
    file = io.BytesIO()
    Image.effect_noise((1280, 720), 90).convert("RGB").save(file, "PNG")
    seen = {"axtree": LONG, "screenshot": file.getvalue()}
    steps = [StepRecord(n, StepType.MID, seen, action=LONG) for n in range(3)]
    array = np.full((90, 160, 3), 200, np.uint8)
    steps.append(StepRecord(3, StepType.LAST, array, action="<b>", reward=1.0))
    steps.append(StepRecord(4, StepType.LAST, b"\x89PNG\r\n\x1a\ndamaged"))
    episode = trajectory_lib.EpisodeTrajectory(INFO, tuple(steps), END)
    page = episode._repr_html_()
    pictures = re.findall(r'src="data:image/jpeg;base64,([^"]+)"', page)
    assert len(pictures) == 4
    for picture in pictures:
        assert max(Image.open(io.BytesIO(base64.b64decode(picture))).size) <= 160
    for shown in (page, steps[0]._repr_html_()):
        assert "<script" not in shown
        assert "<b>" not in shown
        assert len(shown) < 100_000
    assert "discount" not in page  # Nor any other column without a value.
