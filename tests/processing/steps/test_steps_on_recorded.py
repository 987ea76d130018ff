"""The steps on episodes that were recorded in a real browser."""

import numpy as np
import pytest
from made_episodes import only

from webtraj import open_dataset
from webtraj.datasets.writer import DatasetWriter
from webtraj.processing.base import Drop
from webtraj.processing.configuration import load_config, make_pipeline
from webtraj.processing.pipeline import process
from webtraj.processing.steps.clean import Clean, Dedupe
from webtraj.processing.steps.filters import FilterOutcome
from webtraj.processing.steps.prune import DropNoEffect, PruneLoops
from webtraj.processing.steps.redact import Redact
from webtraj.testing.assertions import assert_valid_trajectory
from webtraj.trajectory import Outcome

pytestmark = pytest.mark.browser

SEQUENCE = "miniwob/click-button-sequence"


def blindfolded(trajectory):
    """The episode as a text list without focus and values, and a picture, would show it."""
    steps = []
    for one in trajectory.steps:
        seen = {**one.observation, "axtree": one.observation["axtree"].replace(" focused", "")}
        seen["screenshot"] = b"\x89PNG the same in all steps"
        del seen["changes"], seen["focused"]
        steps.append(type(one)(**{**fields_of(one), "observation": seen}))
    return type(trajectory)(
        trajectory.info, tuple(steps), trajectory.end, trajectory.start_time, trajectory.end_time
    )


def fields_of(record):
    return {name: getattr(record, name) for name in type(record).__dataclass_fields__}


def test_first_click_of_a_sequence_stays_although_nothing_shows_it(recorded):
    """Dropping it made the task unlearnable: the page only remembers it."""
    sequences = [one for one in recorded if one.info.task == SEQUENCE]
    assert len(sequences) >= 4
    harsh = DropNoEffect(channels="screenshot", keep_interactive=False)
    for trajectory in map(blindfolded, sequences):
        assert only(DropNoEffect()(trajectory)) is trajectory
        assert only(DropNoEffect(channels="screenshot")(trajectory)) is trajectory
        assert only(harsh(trajectory)).num_steps == 1  # What the rule guards against.


def test_clicks_on_plain_text_go_and_the_rest_stays(recorded):
    dropped = 0
    for trajectory in recorded:
        result = DropNoEffect()(trajectory)
        for index in getattr(result, "changes", {}).get("dropped", ()):
            last = trajectory.steps[index].observation["last_action"]
            assert last["role"] not in ("button", "tab", "textbox", "checkbox", "link")
            dropped += 1
    assert dropped > 0


STEPS = {
    "clean": Clean(min_steps=1),
    "drop-no-effect": DropNoEffect(),
    "prune-loops": PruneLoops(),
    "prune-loops all": PruneLoops(cut_side_effects=True, compare_screenshots=False),
    "filter-outcome": FilterOutcome(),
    "redact": Redact(secrets={"word": "button"}),
}


@pytest.mark.parametrize("name", STEPS)
def test_what_comes_out_is_an_episode_and_stays_one(name, recorded):
    for trajectory in recorded:
        result = STEPS[name](trajectory)
        if isinstance(result, Drop):
            assert result.reason
            continue
        made = only(result)
        assert_valid_trajectory(made)
        assert np.isclose(made.total_reward, trajectory.total_reward)
        assert STEPS[name](made) is made


def test_episode_of_the_same_page_and_clicks_is_found_again(recorded):
    dedupe = Dedupe()
    signatures = [dedupe.signature(one) for one in recorded]
    first = [dedupe.admit(one) for one in signatures]
    assert first.count(None) == len({one["exact"] for one in signatures})
    assert all(dedupe.admit(one) is not None for one in signatures)


PIPELINE = """
steps:
  - relabel-clicks: {most: 3}
  - judge: [environment, rules]
"""


async def test_what_was_played_keeps_its_outcome_and_what_was_made_of_it_gets_its_own(
    recorded, tmp_path
):
    with DatasetWriter(tmp_path / "raw") as writer:
        for trajectory in recorded:
            writer.add(trajectory)
    (tmp_path / "pipeline.yaml").write_text(PIPELINE)
    choices = load_config(tmp_path / "pipeline.yaml", {}).choices()
    report = await process(tmp_path / "raw", tmp_path / "out", make_pipeline(choices))
    assert not report.failures
    before = {one.episode_id: one.outcome for one in recorded}
    made = []
    for one in open_dataset(tmp_path / "out"):
        judgement = one.end.judgements[-1]
        if one.episode_id in before:
            assert (one.outcome, judgement.findings["by"]) == (
                before[one.episode_id], "environment",
            )  # fmt: skip
        else:
            assert (one.outcome, judgement.findings["by"]) == (Outcome.SUCCESS, "rules")
            made.append(one)
    assert len(made) > 10
