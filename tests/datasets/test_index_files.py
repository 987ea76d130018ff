"""Index files: each line is read as it would be alone."""

from __future__ import annotations

import msgspec
import orjson

from rows import each
from webtraj.store.index import EpisodeSummary, IndexFile, parse_index_file
from webtraj.trajectory import EndReason, Outcome

USUAL = EpisodeSummary(
    episode_id="e1", task="t", goal="g", seed=3, end_reason=EndReason.TERMINATED,
    outcome=Outcome.SUCCESS, num_steps=4, total_reward=1.0, start_time=5.0, end_time=6.5, size=7,
)  # fmt: skip
DATA = orjson.loads(USUAL.to_line())


def line(**changes: object) -> bytes:
    return orjson.dumps({**DATA, **changes}) + b"\n"


KEPT = {
    "as written": (line(), USUAL),
    "no seed": (line(seed=None), msgspec.structs.replace(USUAL, seed=None)),
    "no time": (line(start_time=None), msgspec.structs.replace(USUAL, start_time=None)),
    "a whole number": (line(start_time=5), USUAL),
    "unknown outcome": (line(outcome="x"), msgspec.structs.replace(USUAL, outcome=Outcome.UNKNOWN)),
    "unknown field": (line(more=1), USUAL),
    "upper case": (line(outcome="SUCCESS"), USUAL),
    "few fields": (b'{"episode_id":"e1"}\n', EpisodeSummary(episode_id="e1")),
    "null": (line(task=None), msgspec.structs.replace(USUAL, task="")),
}
REFUSED = {
    "no id": line(episode_id="../x"),
    "no format": line(format="zip"),
    "negative": line(num_steps=-1),
    "too many": line(size=2**63),
    "too late": line(end_time=1e12),
    "no text": line(task=5),
    "text as a count": line(num_steps="4"),
    "a part of a step": line(num_steps=4.5),
    "no seed": line(seed=0.5),
    "no number": line(total_reward="1"),
    "no object": b"[]\n",
    "no JSON": b"{\n",
}


@each("case", KEPT)
def test_every_readable_line_is_a_summary_beside_usual_ones_and_alone(case):
    content, summary = KEPT[case]
    (found,) = parse_index_file(content).summaries
    assert found == summary
    assert repr(found) == repr(summary)  # Types too.
    assert parse_index_file(line() + content).summaries == (USUAL, summary)


@each("case", REFUSED)
def test_other_lines_are_counted(case):
    content = REFUSED[case]
    assert parse_index_file(content) == IndexFile(unreadable=1)
    assert parse_index_file(line() + content + line()) == IndexFile((USUAL, USUAL), unreadable=1)
