"""What becomes of each field of a recorded call in each format: the table in `benchmarks/results`.

Each field is probed: a call that has it is recorded and exported beside one that has not. It is

* `kept`: its value is in the row,
* `ids`: it is part of the token ids, which are those on record,
* `counted`: the report counts it as a change,
* `left out`: the sample is left out, and counted,
* `-`: none of these. It stays in the dataset.
"""

import dataclasses
import io
import json
import re
from pathlib import Path

import PIL.Image
import pytest

from webtraj import errors
from webtraj.datasets.writer import DatasetWriter
from webtraj.environments.actions import Click
from webtraj.training.export import export_selection, make_format
from webtraj.training.export.export_folder import FORMATS
from webtraj.training.replay import Filters, ReplayBuffer, weights
from webtraj.trajectory import (
    Decision,
    EndReason,
    EpisodeEnd,
    EpisodeInfo,
    EpisodeTrajectory,
    ModelCall,
    Outcome,
    StepRecord,
    StepType,
)

PAGE = Path(__file__).parents[3] / "benchmarks/results/exports.md"
MARK = "SAID8271"
NUMBER = 8271
_written = io.BytesIO()
PIL.Image.new("RGB", (2, 2)).save(_written, "PNG")
PNG = _written.getvalue()
EVERYTHING = Filters(
    filter_successful_only=False, filter_same_screenshot=False, min_steps=1,
    valid_actions_only=False, distinct=False,
)  # fmt: skip
ASK, GO_ON = {"role": "user", "content": "Go."}, {"role": "user", "content": "Go on."}
CALL = {"id": "1", "type": "function", "function": {"name": MARK, "arguments": "{}"}}
TOOL = {"type": "function", "function": {"name": MARK, "parameters": {"type": "object"}}}


def after(message, *more):
    """Return the fields of a call whose prompt has an earlier message."""
    return {"messages": (ASK, message, *more, GO_ON)}


def said(**fields):
    return after({"role": "assistant", "content": "Hm.", **fields})


def shown(*parts):
    return {"messages": ({"role": "user", "content": [{"type": "text", "text": "Go."}, *parts]},)}


def answered(message, finish_reason="stop"):
    choice = {"message": {"role": "assistant", "content": "click('1')", **message}}
    return {"response": {"choices": [choice]}, "finish_reason": finish_reason}


PICTURE = {"type": "image_url", "image_url": {"url": PNG}}
PROMPT = {
    "text of the system, user and assistant": said(content=MARK),
    "pictures": shown(PICTURE),
    "the role `developer`": {"messages": ({"role": "developer", "content": "Act."}, ASK)},
    "tool calls and results": after(
        {"role": "assistant", "content": None, "tool_calls": [CALL]},
        {"role": "tool", "tool_call_id": "1", "content": "Ok."},
    ),
    "earlier reasoning: `reasoning_content`, `thinking`, ...": said(reasoning_content=MARK),
    "`name`": said(name=MARK),
    "any other key of a message, part or call": said(annotations=[MARK]),
    "other content: audio, documents, pictures by URL": shown(
        {"type": "input_audio", "input_audio": {"data": MARK}}
    ),
}
REPLY = {
    "text": {"text": MARK},
    "tool calls": answered({"tool_calls": [CALL]}, "tool_calls"),
    "reasoning": answered({"reasoning_content": MARK}),
}
ENDINGS = {
    "finish reason of a whole reply": {"finish_reason": "end_turn"},
    "reply cut off at a limit": {"finish_reason": "length"},
    "reply stopped by a filter or the server": {"finish_reason": "content_filter"},
}
TOKENS = {
    "`prompt_token_ids`": {"prompt_token_ids": (NUMBER,)},
    "`completion_token_ids`": {"completion_token_ids": (7, NUMBER)},
    "`logprobs`": {"logprobs": (-0.008271, -0.5)},
    "`logprobs` that cannot be any": {"logprobs": (-9999.0, -0.5)},
}
REST = {
    "`sampling`: `temperature`": {"sampling": {"temperature": 0.8271}},
    "`sampling`: `tools` that were offered": {"sampling": {"tools": [TOOL]}},
    "`sampling`: all others": {"sampling": {"top_p": 0.8271}},
    "`policy_version`": {"policy_version": MARK},
    "`model`, `provider`": {"model": MARK},
    "`usage`, `latency`, `start_time`, `failed_attempts`": {"usage": {"total_tokens": NUMBER}},
    "`response`: all else": {"response": {"id": MARK}},
}
PARTS = {
    "the prompt": PROMPT, "the reply": REPLY, "its end": ENDINGS, "tokens": TOKENS,
    "the rest": REST,
}  # fmt: skip
CONTENT = {*PROMPT, *REPLY, "`sampling`: `tools` that were offered"}


def episode(name, outcome, call):
    decision = Decision(action=Click("1"), model_calls=(call,))
    steps = (
        StepRecord(0, StepType.FIRST, {"axtree": "page"}),
        StepRecord(1, StepType.LAST, {"axtree": "end"}, Click("1"), 0.0, 0.0, decision=decision),
    )
    info = EpisodeInfo(episode_id=name, task="t", group_id="g")
    end = EpisodeEnd(reason=EndReason.TERMINATED, outcome=outcome)
    return EpisodeTrajectory(info, steps, end, start_time=1.0, end_time=2.0)


def export(folder, name, fields):
    """Export a call with these fields beside a worse one; return its row, if any, and changes."""
    usual = {
        "messages": (ASK,), "text": "click('1')", "prompt_token_ids": (1, 2),
        "completion_token_ids": (7, 8), "logprobs": (-0.5, -0.25), "finish_reason": "stop",
    }  # fmt: skip
    better = ModelCall(**{**usual, **fields})
    # Pairs are of one prompt.
    worse = ModelCall(**{**usual, "messages": better.messages, "text": "click('2')"})
    with DatasetWriter(str(folder / "d")) as writer:
        writer.add(episode("better", Outcome.SUCCESS, better))
        writer.add(episode("worse", Outcome.FAILURE, worse))
    buffer = ReplayBuffer.from_datasets(
        folder / "d", filters=EVERYTHING, loss_weights=weights.uniform
    )
    try:
        report = export_selection(buffer.all, folder / "x", format=name)
    except errors.InvalidInputError as error:
        if not re.search("unreadable prompt|can be exported", str(error)):
            raise
        return None, {}
    rows = list(make_format(name).read(folder / "x", "train"))
    found = [row for row in rows if row["sample"] == "better/1/0"]
    changes = report.splits["train"].changes
    if not found:
        assert report.splits["train"].left_out
    return (found[0] if found else None), changes


def fate(folder, name, field, fields):
    row, changes = export(folder, name, fields)
    if row is None:
        return "left out"
    text = json.dumps(row, default=repr)
    marks = (MARK, str(NUMBER), "end_turn", '"length"')
    shows = row.get("images") or '"image_url"' in text
    if any(mark in text for mark in marks) or (field == "pictures" and shows):
        return "kept"
    if changes:
        return "counted"
    if name == "tokens" and field in CONTENT:
        assert (row["prompt_ids"], row["completion_ids"]) == ([1, 2], [7, 8])
        return "ids"
    return "-"


def table(tmp_path):
    lines = [
        f"| | {' | '.join(f'`{name}`' for name in FORMATS)} |",
        f"|---|{'---|' * len(FORMATS)}",
    ]
    for part, probes in PARTS.items():
        lines.append(f"| **{part}** |{' |' * len(FORMATS)}")
        for number, (field, fields) in enumerate(probes.items()):
            found = [
                fate(tmp_path / f"{part} {number} {name}", name, field, fields) for name in FORMATS
            ]
            lines.append(f"| {field} | {' | '.join(found)} |")
    return "\n".join(lines)


def test_each_field_of_a_call_is_probed():
    probed = {field for probes in PARTS.values() for given in probes.values() for field in given}
    named = " ".join(field for probes in PARTS.values() for field in probes)
    assert {
        field.name
        for field in dataclasses.fields(ModelCall)
        if field.name not in probed and f"`{field.name}`" not in named
    } == {"error"}, "A call that failed is no sample."


@pytest.mark.slow
def test_the_documentation_says_what_becomes_of_each_field(tmp_path):
    pytest.importorskip("pyarrow")
    page = PAGE.read_text()
    written = page.partition("<!-- what exports keep -->\n\n")[2].partition("\n\n")[0]
    made = table(tmp_path)
    assert written == made, f"Write this table into {PAGE.name}:\n\n{made}"
