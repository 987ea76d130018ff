"""Which of several tries of a row counts, as a table."""

import msgspec
import pytest

from webtraj import EndReason, Outcome
from webtraj.store.index import EpisodeSummary
from webtraj.store.tries import find_counted_only_in_part, find_superseded, place_in, rows_of

RUN = "20261128T000000-000-aaaaaaaa"
ENDS = {
    "won": (Outcome.SUCCESS, EndReason.TERMINATED),
    "lost": (Outcome.FAILURE, EndReason.TRUNCATED),
    "raised": (Outcome.AGENT_ERROR, EndReason.ERRORED),
    "broke": (Outcome.ENV_ERROR, EndReason.ERRORED),
    "cut": (Outcome.CANCELLED, EndReason.CANCELLED),
}


def played(name, end, retry_of="", at=1.0):
    outcome, reason = ENDS[end]
    name = f"{RUN}-{name}" if name[0].isdigit() else name
    retry_of = f"{RUN}-{retry_of}" if retry_of[:1].isdigit() else retry_of
    return EpisodeSummary(
        episode_id=name, outcome=outcome, end_reason=reason, retry_of=retry_of, start_time=at
    )


@pytest.mark.parametrize(
    ("episodes", "gone"),
    [
        ([("000000-00", "won"), ("000001-00", "won")], []),
        ([("000000-00", "won"), ("000000-01", "lost")], ["000000-00"]),
        ([("000000-00", "broke"), ("000000-01", "won")], ["000000-00"]),
        ([("000000-00", "won"), ("000000-01", "broke")], ["000000-01"]),
        ([("000000-00", "raised"), ("000000-01", "cut")], ["000000-01"]),
        ([("000000-00", "broke"), ("000000-01", "cut")], ["000000-00"]),
        # By number, not by text; and whatever was recorded first.
        ([("000000-1000", "won"), ("000000-02", "won")], ["000000-02"]),
        ([("000000-02", "won", "", 9.0), ("000000-1000", "won")], ["000000-02"]),
        # Without a plan, by what they say they retry.
        ([("a", "lost"), ("b", "won", "a")], ["a"]),
        ([("a", "won"), ("b", "broke", "a")], ["b"]),
        ([("a", "lost"), ("b", "won", "a"), ("c", "lost", "b")], ["a", "b"]),
        ([("b", "won", "gone"), ("c", "lost", "gone", 2.0)], ["b"]),
        ([("a", "lost"), ("b", "won")], []),
        # A retry in another run, of a row of this one.
        ([("000000-00", "lost"), ("x", "won", "000000-00")], ["000000-00"]),
        # Ids of others that look a little alike are no tries.
        ([("task-1-0", "won"), ("task-1-1", "lost")], []),
        # Chains that bite their own tails end.
        ([("a", "won", "a")], []),
        ([("a", "won", "b"), ("b", "lost", "a", 2.0)], ["a"]),
    ],
    ids=str,
)
def test_one_try_of_a_row_counts(episodes, gone):
    made = [played(*one) for one in episodes]
    wanted = {f"{RUN}-{name}" if name[0].isdigit() else name for name in gone}
    for order in (made, made[::-1]):
        assert find_superseded(order) == wanted


def test_a_long_chain_takes_no_longer_than_its_length():
    chain = [
        msgspec.structs.replace(played(f"e{number}", "won"), retry_of=f"e{number - 1}")
        for number in range(1, 20_001)
    ]
    assert len(find_superseded(chain)) == 19_999


def test_an_id_names_a_row_only_as_runs_write_it():
    assert place_in(f"{RUN}-000012-1003") == (RUN, 12, 1003)
    assert [place_in(name) for name in ("e1", "a-1-0", "a-000001-0", "000001-00")] == [None] * 4


@pytest.mark.parametrize(
    ("part", "left"),
    [
        (["a", "b", "c"], []),
        (["a"], ["a"]),  # `c` counts, and is not here.
        (["a", "b"], ["a", "b"]),
        (["a", "c"], ["a"]),  # Without `b`, nothing says that `c` is a try of its row.
        (["x"], []),  # It says nothing about the agent, so it may go anywhere.
        (["y"], []),
    ],
    ids=str,
)
def test_no_try_counts_in_a_part_that_does_not_in_the_whole(part, left):
    whole = [
        played("a", "lost"), played("b", "lost", "a"), played("c", "won", "b"),
        played("x", "broke"), played("y", "won", "x"),
    ]  # fmt: skip
    gone = find_superseded(whole)
    assert find_counted_only_in_part([one for one in whole if one.episode_id in part], gone) == set(
        left
    )
    assert rows_of(whole) == {"a": "a", "b": "a", "c": "a", "x": "x", "y": "x"}
