"""RLDS: aligned as RLDS has it, and read by numpy alone."""

import dataclasses
import json
import math

import numpy as np
import pytest

from webtraj import EndReason, errors
from webtraj.datasets.exporters import rlds_arrays
from webtraj.datasets.exporters.columns import Fit
from webtraj.datasets.exporters.plain import action_text, to_json
from webtraj.datasets.exporters.rlds_reader import RldsEpisodes
from webtraj.trajectory import StepRecord, StepType


@pytest.fixture
def arrays(export):
    """Exports a dataset; gives the one file's arrays, the index, and the reader."""

    def run(dataset, **more):
        out, report = export(dataset, "rlds", **more)
        with np.load(out / "steps-00000.npz", allow_pickle=False) as file:
            found = {name: file[name] for name in file.files}
        return found, json.loads((out / "index.json").read_bytes()), RldsEpisodes(out), report

    return run


def test_a_step_holds_the_action_taken_on_its_observation(catch, arrays):
    found, index, _reader, report = arrays(catch)
    assert report.notes == ()
    assert all(array.dtype != object for array in found.values())
    for episode, about in zip(catch, index["episodes"], strict=True):
        rows = slice(about["start"], about["stop"])
        steps = episode.steps
        assert found["observation"].shape[1:] == (5, 3)
        assert np.array_equal(found["observation"][rows], [s.observation for s in steps])
        # Shifted by one: the reward in a row follows on the action in it.
        assert found["action"][rows][:-1].tolist() == [s.action for s in steps[1:]]
        assert found["reward"][rows][:-1].tolist() == [s.reward for s in steps[1:]]
        assert found["discount"][rows][:-1].tolist() == [s.discount for s in steps[1:]]
        # The last row's are dummies.
        assert [found[n][rows][-1] for n in ("action", "reward", "discount")] == [0, 0, 0]
        last = [False] * (len(steps) - 1) + [True]
        assert found["is_last"][rows].tolist() == last
        assert found["is_terminal"][rows].tolist() == last
        assert found["is_first"][rows].tolist() == [True] + [False] * (len(steps) - 1)
        assert about["episode_id"] == episode.episode_id
    assert found["observation"].dtype == catch[0].steps[0].observation.dtype
    assert len(found["reward"]) == sum(len(episode.steps) for episode in catch)


def test_every_value_of_a_page_comes_back(shop, arrays):
    _found, index, reader, report = arrays(shop)
    assert len(reader) == 2
    for old, new in zip(shop, reader, strict=True):
        steps = new["steps"]
        for i, step in enumerate(old.steps):
            seen = step.observation
            assert steps["observation/url"][i] == seen["url"]
            assert steps["observation/axtree"][i] == seen["axtree"]
            assert steps["observation/screenshot"][i] == seen["screenshot"]
            assert steps["observation/active_tab"][i] == seen["active_tab"]
            assert steps["observation/tabs"][i] == to_json(seen["tabs"])
            assert np.array_equal(steps["observation/boxes"][i], seen["boxes"])
            assert np.array_equal(steps["observation/last_action/box"][i], np.zeros(4))
            assert steps["time/end"][i] == step.end_time
        for i, step in enumerate(old.steps[1:]):
            assert steps["action"][i] == action_text(step.action)
            call = step.decision.model_calls[-1] if step.decision else None
            ids = steps["agent/completion_token_ids"][i]
            assert (ids.tolist() if call else ids) == (
                list(call.completion_token_ids) if call else None
            )
            assert steps["agent/thought"][i] == (step.decision.thought if step.decision else None)
    columns = index["columns"]
    assert columns["observation/url"] == {"kind": "text", "layout": "fixed", "optional": False}
    assert columns["observation/axtree"]["layout"] == "ragged"  # Longer than a fixed string may be.
    assert columns["observation/screenshot"]["kind"] == "bytes"
    assert columns["observation/boxes"]["shape"] is None
    assert columns["agent/thought"]["optional"]
    fields = {note.field for note in report.notes}
    assert fields == {
        "steps.decision.model_calls",
        *(f"steps.decision.model_calls.{name}" for name in (
            "provider", "messages", "sampling", "finish_reason", "usage", "latency",
        )),
    }  # fmt: skip


def test_episodes_that_came_to_no_end_are_kept_and_flagged(wrecks, arrays):
    found, index, reader, _report = arrays(wrecks)
    about = {a["episode_id"]: a for a in index["episodes"]}
    assert not found["is_terminal"].any()
    for episode in wrecks:
        said = about[episode.episode_id]
        assert said["invalid"]
        assert said["end_reason"] == episode.end_reason.name.lower()
        assert said["stop"] - said["start"] == len(episode.steps)
        if episode.end_reason is EndReason.CRASHED or episode.steps:
            last = found["is_last"][said["start"] : said["stop"]]
            assert last.tolist() == [False] * (len(episode.steps) - 1) + [True]
        if episode.end.action_in_flight:
            assert said["action_in_flight"].startswith(("click", "fill"))
    empty = next(i for i, a in enumerate(index["episodes"]) if a["start"] == a["stop"])
    assert reader[empty]["error"] == "no page"
    assert len(reader[empty]["steps"]["reward"]) == 0


def test_an_episode_is_in_one_file_and_files_are_of_limited_size(shop, export):
    def long(episode):
        noise = np.random.default_rng(0).bytes(300_000)
        steps = [dataclasses.replace(s, observation={"noise": noise}) for s in episode.steps]
        return dataclasses.replace(episode, steps=tuple(steps))

    out, _ = export(shop, "rlds", options={"shard_mb": 1}, transform=long)
    index = json.loads((out / "index.json").read_bytes())
    assert [shard["episodes"] for shard in index["shards"]] == [1, 1]
    assert [(e["shard"], e["start"], e["stop"]) for e in index["episodes"]] == [
        (0, 0, 5), (1, 0, 3),
    ]  # fmt: skip
    assert [len(e["steps"]["observation/noise"]) for e in RldsEpisodes(out)] == [5, 3]


def test_an_empty_dataset_has_an_index(shop, export):
    out, report = export(shop.filter(task="none"), "rlds")
    assert report.written == ()
    assert list(RldsEpisodes(out)) == []


def with_values(episode, *observations, rewards=None):
    """Returns an episode of such observations."""
    steps = [
        StepRecord(
            i,
            StepType.MID if i else StepType.FIRST,
            observation,
            i or None,
            (rewards[i] if rewards else 0.0) if i else None,
            1.0 if i else None,
        )
        for i, observation in enumerate(observations)
    ]
    return dataclasses.replace(episode, steps=tuple(steps))


MIXED = {
    "text and numbers": (["a", 1, None], ['"a"', "1", None]),
    "shapes that differ": ([np.ones((1, 2)), np.ones((0, 2)), np.ones((3, 2))], None),
    "dimensions that differ": ([np.ones(1), np.ones((1, 1)), 1.0], ["[1.0]", "[[1.0]]", "1.0"]),
    "integers and floats": ([1, 2.5, True], [1.0, 2.5, 1.0]),
    "integers too large for floats": ([2**60 + 1, 2.5], [str(2**60 + 1), "2.5"]),
    "integers beyond 64 bits": ([2**70, 1], [to_json(2**70), "1"]),
    "large and negative integers": ([2**63, -1], [str(2**63), "-1"]),
    "bytes and text": ([b"a", "b"], [to_json(b"a"), '"b"']),
    "lists of text": ([["a"], []], ['["a"]', "[]"]),
    "lists of numbers": ([[1, 2], []], None),
    "text that ends with zeros": (["a\0", "b"], None),
    "text that is no Unicode": (["a\ud800", "b" * 300], None),
    "short text that is no Unicode": (["a\ud800", "b"], None),
    "dates": ([np.datetime64("2026-01-01"), None], None),
    "empty mappings": ([{}, {"a": 1}], None),
}  # fmt: skip


@pytest.mark.parametrize("case", MIXED)
def test_values_of_several_kinds_are_kept_exactly(case, shop, export):
    values, expected = MIXED[case]
    observations = [{"x": value} for value in values]
    out, _report = export(shop[:1], "rlds", transform=lambda e: with_values(e, *observations))
    (episode,) = RldsEpisodes(out)
    steps = episode["steps"]
    if case == "empty mappings":
        assert list(steps["observation/x/a"]) == [None, 1]
        return
    found = list(steps["observation/x"])
    if expected is not None:
        assert found == expected
    elif case == "dates":
        assert found[0] == to_json(values[0])
    else:
        for one, other in zip(found, values, strict=True):
            assert np.array_equal(one, other)


def test_names_that_would_clash_do_not(shop, export):
    nests = [{"a": 1}, {"a": {"b": 2, "": 3, ".": 4}, "a/b": 5, "a:present": 6, "%2F": 7}]
    out, _ = export(shop[:1], "rlds", transform=lambda e: with_values(e, *nests))
    (episode,) = RldsEpisodes(out)
    steps = {n: v for n, v in episode["steps"].items() if n.startswith("observation/")}
    assert {name: list(values) for name, values in steps.items()} == {
        "observation/a": [1, None],
        "observation/a/b": [None, 2],
        "observation/a/": [None, 3],
        "observation/a/%2E": [None, 4],
        "observation/a%2Fb": [None, 5],
        "observation/a%3Apresent": [None, 6],
        "observation/%252F": [None, 7],
    }


def test_a_reward_that_is_none_is_nan_and_a_nest_is_told(shop, export):
    rewards = [None, None, {"a": 1.0, "b": 2}, np.float32(0.5), np.ones(3)]
    out, report = export(
        shop[:1], "rlds", transform=lambda e: with_values(e, *[{}] * 5, rewards=rewards)
    )
    (episode,) = RldsEpisodes(out)
    nan, *others = episode["steps"]["reward"].tolist()
    assert math.isnan(nan)
    assert others == [3.0, 0.5, 3.0, 0.0]
    (note,) = report.notes
    assert (note.field, note.count) == ("steps.reward", 2)


def test_an_action_without_an_observation_before_it_is_told(shop, export):
    def headless(episode):
        return dataclasses.replace(episode, steps=episode.steps[1:])

    out, report = export(shop[:1], "rlds", transform=headless)
    assert "steps.action" in {note.field for note in report.notes}
    (episode,) = RldsEpisodes(out)
    assert episode["steps"]["is_first"].tolist() == [True, False, False, False]


def test_torch_reads_it(catch, export):
    torch = pytest.importorskip("torch")
    out, _ = export(catch, "rlds")

    class Steps(torch.utils.data.IterableDataset):
        def __iter__(self):
            for episode in RldsEpisodes(out):
                steps = episode["steps"]
                for i in np.flatnonzero(~steps["is_last"]):
                    yield {
                        name: torch.as_tensor(steps[name][i])
                        for name in ("observation", "action", "reward", "discount")
                    }

    batches = list(torch.utils.data.DataLoader(Steps(), batch_size=4))
    assert batches[0]["observation"].shape == (4, 5, 3)
    assert sum(len(batch["reward"]) for batch in batches) == 12


BROKEN = {
    "no index": lambda out: (out / "index.json").unlink(),
    "an index cut off": lambda out: (out / "index.json").write_bytes(b"{"),
    "no file": lambda out: (out / "steps-00000.npz").unlink(),
    "a file cut off": lambda out: (out / "steps-00000.npz").write_bytes(b"PK"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_what_is_damaged_is_an_error(case, catch, export):
    out, _ = export(catch, "rlds")
    BROKEN[case](out)
    with pytest.raises(errors.CorruptDataError):
        list(RldsEpisodes(out))


def test_a_pickle_in_the_place_of_an_array_is_not_loaded(catch, export):
    out, _ = export(catch, "rlds")
    np.savez(out / "steps-00000.npz", reward=np.array([{}], object))
    with pytest.raises(errors.CorruptDataError, match="allow_pickle"):
        list(RldsEpisodes(out))


def test_a_file_that_reads_back_otherwise_is_noticed(catch, export, monkeypatch, tmp_path):
    real = np.lib.format.write_array

    def flip(file, array, **more):
        real(file, array + 1 if array.dtype == np.float64 else array, **more)

    monkeypatch.setattr(rlds_arrays.np.lib.format, "write_array", flip)
    with pytest.raises(errors.StorageError, match="reads back"):
        export(catch, "rlds")
    assert list(tmp_path.iterdir()) == []


def test_a_fit_of_nothing_has_no_columns():
    assert Fit().columns() == {}
