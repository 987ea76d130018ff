"""What becomes of each field of a model call in the formats of episodes: the documented table.

Each field is `kept` (its value is in the files), or `counted`: the report notes that it is not.
"""

import dataclasses
from pathlib import Path

import numpy as np
import pytest

from webtraj import open_dataset
from webtraj.datasets.exporters import export_dataset
from webtraj.datasets.writer import DatasetWriter
from webtraj.environments.actions import Click
from webtraj.trajectory import (
    Decision,
    EndReason,
    EpisodeEnd,
    EpisodeInfo,
    EpisodeTrajectory,
    FailedAttempt,
    ModelCall,
    StepRecord,
    StepType,
)

PAGE = Path(__file__).parents[2] / "README.md"
FORMATS = {"huggingface": {}, "atif": {}, "minari": {}, "otel": {"content": True}}
MARK, NUMBER = "SAID8271", 8271
EARLIER = {"role": "assistant", "content": "Hm."}
PROBES = {
    "`model`": {"model": MARK},
    "`provider`": {"provider": MARK},
    "`policy_version`": {"policy_version": MARK},
    "`messages`: texts": {"messages": ({**EARLIER, "content": MARK},)},
    "`messages`: reasoning, names, other keys": {"messages": ({**EARLIER, "reasoning": MARK},)},
    "`messages`: blocks of thinking": {
        "messages": ({**EARLIER, "content": [{"type": "thinking", "thinking": MARK}]},)
    },
    "`sampling`: `temperature`": {"sampling": {"temperature": 0.8271}},
    "`sampling`: parameters of a server's own": {"sampling": {"own": NUMBER}},
    "`text`": {"text": MARK},
    "`finish_reason`": {"finish_reason": MARK},
    "`usage`": {"usage": {"prompt_tokens": NUMBER, "completion_tokens": 1}},
    "`response`": {"response": {"own": MARK}},
    "`prompt_token_ids`": {"prompt_token_ids": (1, NUMBER)},
    "`completion_token_ids`": {"completion_token_ids": (1, NUMBER)},
    "`logprobs`": {"logprobs": (-0.8271, -0.5)},
    "`start_time`": {"start_time": 8271.0},
    "`latency`": {"latency": 8271.0, "start_time": 0.0},
    "`error`": {"error": MARK},
    "`failed_attempts`": {"failed_attempts": (FailedAttempt(error=MARK, status=503),)},
}


def contents(folder):
    """Return all values in the files of an export, as text."""
    found = []
    for path in folder.rglob("*"):
        if path.suffix == ".parquet":
            import pyarrow.parquet

            found.append(repr(pyarrow.parquet.read_table(path).to_pylist()))
        elif path.suffix == ".hdf5":
            import h5py

            def keep(name, item):
                if isinstance(item, h5py.Dataset):
                    found.append(repr(np.asarray(item[()]).tolist()))

            with h5py.File(path) as file:
                file.visititems(keep)
        elif path.is_file() and not path.name.startswith("webtraj-export"):
            found.append(path.read_bytes().decode("utf-8", "replace"))
    return "\n".join(found)


def fate(folder, name, fields):
    call = ModelCall(**{"text": "click('1')", "model": "m", "start_time": 1.0, **fields})
    decision = Decision(action=Click("1"), model_calls=(call,))
    steps = (
        StepRecord(0, StepType.FIRST, {"axtree": "page"}, end_time=1.0),
        StepRecord(
            1, StepType.LAST, {"axtree": "end"}, Click("1"), 0.0, 0.0,
            start_time=1.0, end_time=9000.0, decision=decision,
        ),
    )  # fmt: skip
    info = EpisodeInfo(episode_id="e", task="t")
    end = EpisodeEnd(reason=EndReason.TERMINATED)
    with DatasetWriter(str(folder / "d")) as writer:
        writer.add(EpisodeTrajectory(info, steps, end, start_time=1.0, end_time=9000.0))
    report = export_dataset(
        open_dataset(folder / "d"), folder / "x-v0", format=name, options=FORMATS[name]
    )
    if any(mark in contents(folder / "x-v0") for mark in (MARK, str(NUMBER))):
        return "kept"
    assert any("model_calls" in note.field for note in report.notes), "It is lost in silence."
    return "counted"


def test_each_field_of_a_call_is_probed():
    named = " ".join(PROBES)
    assert not [f.name for f in dataclasses.fields(ModelCall) if f"`{f.name}`" not in named]


@pytest.mark.slow
def test_the_documentation_says_what_becomes_of_each_field(tmp_path):
    for package in ("pyarrow", "minari", "opentelemetry"):
        pytest.importorskip(package)
    lines = [f"| | {' | '.join(f'`{name}`' for name in FORMATS)} |", f"|---|{'---|' * 4}"]
    for number, (field, fields) in enumerate(PROBES.items()):
        found = [fate(tmp_path / f"{name} {number}", name, fields) for name in FORMATS]
        lines.append(f"| {field} | {' | '.join(found)} |")
    made = "\n".join(lines)
    page = PAGE.read_text()
    written = page.partition("<!-- what formats keep -->\n\n")[2].partition("\n\n")[0]
    assert written == made, f"Write this table into {PAGE.name}:\n\n{made}"
