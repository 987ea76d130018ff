"""Labels files: what is written comes back, and what is wrong is named by its line."""

import pytest
from labelled_episodes import collect_labelled

from rows import each
from webtraj import errors
from webtraj.judging.quality import Label, read_labels, write_labels
from webtraj.trajectory import Outcome

GOOD = '{"episode_id": "e1", "outcome": "success"}'


def test_what_is_written_is_read(tmp_path) -> None:
    path = tmp_path / "labels.jsonl"
    labels = {
        "e1": Label("e1", Outcome.SUCCESS, "anna"),
        "e2": Label("e2", Outcome.BLOCKED),
        "e3": Label("e3", Outcome.FAILURE, "corruption/cut"),
    }
    assert write_labels(path, reversed(labels.values())) == 3
    assert read_labels(path) == labels
    path.write_text(f"\n{GOOD}\n\n")
    assert read_labels(path) == {"e1": Label("e1", Outcome.SUCCESS)}


@each(
    ("line", "told"),
    [
        ("{", "invalid JSON"),
        ("[]", "expected an object such as"),
        ('{"episode_id": "e2"}', "expected an object such as"),
        ('{"episode_id": "e2", "outcome": "Success"}', "outcome is 'Success'"),
        ('{"episode_id": "e2", "outcome": "judge_error"}', "one of success, failure, blocked"),
        ('{"episode_id": "e2", "outcome": 1}', "outcome is 1"),
        ('{"episode_id": "../e2", "outcome": "success"}', "is not a valid episode id"),
        ('{"episode_id": 2, "outcome": "success"}', "must be text"),
        ('{"episode_id": "e2", "outcome": "success", "by": "me"}', "unknown field 'by'"),
        (GOOD, "'e1' already has a label, in line 1"),
        ('{"episode_id": "' + "e" * 70_000 + '"}', "invalid JSON"),
    ],
)
def test_bad_lines_are_named(line, told, tmp_path) -> None:
    path = tmp_path / "labels.jsonl"
    path.write_text(f"{GOOD}\n\n{line}\n")
    with pytest.raises(errors.InvalidInputError) as refused:
        read_labels(path)
    assert f"line 3: {told}" in str(refused.value) or (
        "line 3: " in str(refused.value) and told in str(refused.value)
    )
    assert "labels.jsonl" in str(refused.value)


def test_an_episode_has_one_label(tmp_path) -> None:
    two = [Label("e1", Outcome.SUCCESS), Label("e1", Outcome.FAILURE)]
    with pytest.raises(errors.InvalidInputError, match="two labels: success and failure"):
        write_labels(tmp_path / "labels.jsonl", two)
    assert not (tmp_path / "labels.jsonl").exists()
    with pytest.raises(errors.InvalidInputError, match="The label is"):
        Label("e1", Outcome.TIMEOUT)


async def test_an_unknown_policy_is_refused(tmp_path) -> None:
    with pytest.raises(errors.InvalidInputError, match="expected some of oracle, hasty"):
        await collect_labelled(tmp_path, "miniwob/click-test", policies=["lucky"])
