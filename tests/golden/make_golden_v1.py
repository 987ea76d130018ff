"""Makes the golden datasets of schema version 1 (see README.md), and says what is in them.

    python tests/golden/make_golden_v1.py

It replaces what is there.
"""

import math
import shutil
from pathlib import Path

import numpy as np
import orjson

from webtraj.trajectory import (
    Decision,
    EndReason,
    EpisodeEnd,
    EpisodeInfo,
    EpisodeTrajectory,
    ErrorInfo,
    FailedAttempt,
    ModelCall,
    Outcome,
    Phase,
    StepRecord,
    StepType,
)

HERE = Path(__file__).parent
FORMATS = ("json", "pb", "pb.zst")
SCREENSHOT = b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 6
ANOTHER = b"\xff\xd8\xff" + bytes(reversed(range(256))) * 5
LONG_TEXT = "[12] button 'Größe wählen' \n" * 200


def episodes():
    """Returns what the golden datasets hold, in order."""
    return (_won(), _crashed(), _failed())


def journaled():
    """Returns what `v1-open` holds once it is recovered, but for the time of its last line."""
    return EpisodeTrajectory(
        EpisodeInfo(episode_id="golden-open", task="golden/open", seed=5),
        (StepRecord(0, StepType.FIRST, {"screenshot": SCREENSHOT, "text": "begun"}),),
        EpisodeEnd(
            reason=EndReason.CRASHED,
            phase=Phase.RECOVERY,
            action_in_flight=True,
            in_flight_action="click('12')",
        ),
        start_time=1795000300.0,
        end_time=1795000301.5,
    )


def _won():
    call = ModelCall(
        model="small",
        provider="vllm",
        policy_version="step-12",
        messages=({"role": "user", "content": ["look", SCREENSHOT]},),
        sampling={"temperature": 0.7, "seed": 2**70},
        response={"id": "r1", "choices": [{"index": 0}]},
        text="click('12')",
        finish_reason="stop",
        usage={"prompt_tokens": 3, "completion_tokens": 2},
        prompt_token_ids=(1, 15043, 29889),
        completion_token_ids=(2828, 2),
        logprobs=(-0.25, -math.inf),
        start_time=1795000001.0,
        latency=0.125,
        failed_attempts=(
            FailedAttempt(error="status", status=503, start_time=1795000001.0, latency=0.0625),
            FailedAttempt(error="connection"),
        ),
    )
    decision = Decision(
        action="click('12')",
        thought="The button says it.",
        memory="one button",
        model_calls=(call,),
        metadata={"tries": 1},
    )
    arrays = {
        "floats": np.array([[1.5, math.nan], [-0.0, math.inf]], dtype="<f4"),
        "flags": np.array([True, False]),
        "empty": np.zeros((0, 3), dtype="<i8"),
        "names": np.array(["a", "ß"], dtype="<U2"),
        "many": np.arange(400, dtype="<u2"),
    }
    return EpisodeTrajectory(
        EpisodeInfo(
            episode_id="golden-1-won",
            task="golden/click",
            goal="Click the button.",
            site="example.org",
            seed=7,
            environment="BrowserEnvironment",
            versions={"webtraj": "0.1.0", "browser": "141.0"},
            policy="small@step-12",
            group_id="g1",
            attempt=2,
            metadata={"tags": ("a", "b"), "when": {1: "one"}},
        ),
        (
            StepRecord(
                0,
                StepType.FIRST,
                {"screenshot": SCREENSHOT, "axtree": LONG_TEXT, "arrays": arrays},
                start_time=1795000000.0,
                end_time=1795000000.5,
                ignored_action="noop()",
            ),
            StepRecord(
                1,
                StepType.LAST,
                {"screenshot": ANOTHER, "axtree": "done", "scalar": np.float32(0.5)},
                "click('12')",
                1.0,
                0.0,
                start_time=1795000001.0,
                end_time=1795000001.75,
                decision=decision,
            ),
        ),
        EpisodeEnd(reason=EndReason.TERMINATED, phase=Phase.STEP, outcome=Outcome.SUCCESS),
        start_time=1795000000.0,
        end_time=1795000002.0,
    )


def _crashed():
    return EpisodeTrajectory(
        EpisodeInfo(episode_id="golden-2-crashed", task="golden/fill", retry_of="golden-1-won"),
        (StepRecord(0, StepType.FIRST, {"text": "lone \ud800 surrogate", "raw": b"\x00\xff"}),),
        EpisodeEnd(
            reason=EndReason.CRASHED,
            phase=Phase.RECOVERY,
            action_in_flight=True,
            in_flight_action="fill('3', 'x')",
            in_flight_decision=Decision(action="fill('3', 'x')", thought="fill it"),
        ),
        start_time=1795000100.0,
        end_time=1795000101.0,
    )


def _failed():
    return EpisodeTrajectory(
        EpisodeInfo(episode_id="golden-3-failed", task="golden/nan", seed=-1),
        (
            StepRecord(0, StepType.FIRST, [None, True, 3, -(2**80), 1e300, {"set": {1, 2}}]),
            StepRecord(1, StepType.MID, math.nan, {"x": 1, "y": 2}, math.nan, 1.0),
            StepRecord(2, StepType.MID, complex(1, -2), ("a", b"b"), np.float64(-0.5), 0.5),
        ),
        EpisodeEnd(
            reason=EndReason.ERRORED,
            phase=Phase.STEP,
            detail="the page went away",
            error=ErrorInfo(type="RuntimeError", message="gone", traceback="Traceback: gone"),
            outcome=Outcome.ENV_ERROR,
            violations=("reward on FIRST",),
            recording_errors=("steps[1].x: lock",),
        ),
        start_time=1795000200.0,
        end_time=1795000202.0,
    )


def main():
    from webtraj.datasets.writer import DatasetWriter

    for name in FORMATS:
        folder = HERE / f"v1-{name}"
        shutil.rmtree(folder, ignore_errors=True)
        with DatasetWriter(folder, format=name) as writer:
            for episode in episodes():
                writer.add(episode)
        _tidy(folder)
    _make_open(HERE / "v1-open")


def _make_open(folder):
    from webtraj.store import encoding
    from webtraj.store.blobs import BlobStore
    from webtraj.store.layout import DatasetLayout

    shutil.rmtree(folder, ignore_errors=True)
    layout = DatasetLayout(folder)
    layout.create()
    (expected,) = (journaled(),)
    (first,) = expected.steps
    events = (
        {"kind": "begin", "schema_version": 1, "time": 1795000300.0,
         "info": EpisodeInfo(episode_id="golden-open", task="golden/open")},
        {"kind": "info", "info": expected.info},
        {"kind": "step", "time": 1795000300.5, "step": first},
        {"kind": "intent", "time": 1795000301.5, "action": "click('12')"},
    )  # fmt: skip
    store = BlobStore(layout.blobs)
    lines = [encoding.dumps_fields(event, store)[0] for event in events]
    torn = b'{"kind":"step","time":17950'
    layout.journal("golden-open").write_bytes(b"\n".join(lines) + b"\n" + torn)
    _tidy(folder)


def _tidy(folder):
    """Gives files their names for good, and removes what git does not keep."""
    for number, path in enumerate(sorted((folder / "index").glob("*.jsonl"))):
        path.rename(path.with_name(f"golden-{number}.jsonl"))
    header = orjson.loads((folder / "dataset.json").read_bytes())
    header["created"] = 1795000000.0
    (folder / "dataset.json").write_bytes(orjson.dumps(header, option=orjson.OPT_INDENT_2))
    for path in folder.iterdir():
        if path.is_dir() and not any(path.iterdir()):
            shutil.rmtree(path)


if __name__ == "__main__":
    main()
