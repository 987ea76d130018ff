"""Datasets whose records hold any value in any place: every command that reads them ends in words.

`scripts/fuzz_datasets.py` tries as many as it is told.
"""

import dataclasses

import numpy as np
import pytest

from foreign_datasets import commands, make, read_all, run_one
from webtraj.agents.contexts import ContextSettings, Page, page_of
from webtraj.agents.models.messages import functions_of
from webtraj.agents.screens import viewport_of
from webtraj.environments.browser.observation import refs_in, text_in
from webtraj.exploring.seen import read_seen
from webtraj.store.values import OpaqueRecord
from webtraj.trajectory import (
    EpisodeInfo,
    EpisodeTrajectory,
    StepRecord,
    StepType,
)


@pytest.mark.parametrize("number", range(3))
def test_every_command_reads_what_others_recorded(number, tmp_path, monkeypatch):
    place, out = tmp_path / "dataset", tmp_path / "out"
    out.mkdir()
    monkeypatch.chdir(out)
    make(place, number)
    counts, faults = read_all(place, out)
    assert not faults, "\n".join(faults)
    assert {said for said, _ in counts} >= {said for said, _ in commands(place, out)}
    assert run_one(place, out, number)[1] == []


@pytest.mark.parametrize(
    "line",
    [r'[1] button "\q"', r'[1] button "\ud800"', r'text "\x41"', '[1] button "\t"', r'text "\u12"'],
)
def test_a_text_that_is_no_json_is_read_as_it_stands(line):
    told = text_in(line) if line.startswith("text") else refs_in(line)[0].name
    assert told
    told.encode()


def test_a_record_that_is_no_action_typed_nothing():
    begun = StepRecord(index=0, step_type=StepType.FIRST, observation={"url": "http://a.test/"})
    foreign = OpaqueRecord("other/fill", {"value": np.zeros(2)})
    step = dataclasses.replace(begun, index=1, step_type=StepType.MID, action=foreign)
    seen = read_seen(EpisodeTrajectory(EpisodeInfo(), (begun, step)))
    assert [sight.text for sight in seen.sights] == ["", ""]


@pytest.mark.parametrize("odd", [None, 3, "x", 10**400, [None], np.zeros(3), {"names": 4}])
def test_what_is_of_another_type_counts_as_not_recorded(odd):
    odd_channels = dict.fromkeys(
        ("url", "last_action", "tabs", "dialogs", "downloads", "http_status"), odd
    )
    seen = {"axtree": "[1] link", **odd_channels, "url": [odd], "http_status": [odd]}
    assert page_of(seen, ContextSettings()) == Page(text="[1] link")
    assert viewport_of({"scroll": {"width": odd, "height": [odd]}}) is None
    assert functions_of([{"function": odd}]) is None
    assert functions_of([[odd]]) is None
