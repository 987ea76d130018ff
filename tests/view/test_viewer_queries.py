"""Lists: filters, search, order, pages and counts, beside what a plain loop finds."""

import math

import hypothesis
import pytest
from hypothesis import strategies as st

from rows import each
from webtraj import errors
from webtraj.store.index import EpisodeSummary
from webtraj.trajectory import EndReason, Outcome
from webtraj.view.table import (
    FACETS,
    MOST_COUNTED,
    NO_LABEL,
    SORTS,
    Query,
    Row,
    Table,
    parse_query,
)

WORDS = st.sampled_from(["", "a", "b", "Bü", "a b", "A"])
NUMBERS = st.sampled_from([0.0, 1.0, -1.5, 0.5, math.nan, math.inf])
TIMES = st.sampled_from([None, 1.0, 2.0, 5.0])


@st.composite
def rows(draw, number):
    summary = EpisodeSummary(
        episode_id=f"e{number}",
        task=draw(WORDS),
        goal=draw(WORDS),
        site=draw(WORDS),
        policy=draw(WORDS),
        policy_version=draw(WORDS),
        group_id=draw(WORDS),
        attempt=draw(st.integers(0, 2)),
        seed=draw(st.sampled_from([None, 1, 7])),
        end_reason=draw(st.sampled_from(EndReason)),
        outcome=draw(st.sampled_from(Outcome)),
        num_steps=draw(st.integers(0, 3)),
        total_reward=draw(NUMBERS),
        start_time=draw(TIMES),
        end_time=draw(TIMES),
    )
    return Row(
        dataset=draw(st.sampled_from(["d", "c"])),
        summary=summary,
        iteration=draw(st.sampled_from([None, 1, 2, 10])),
        state=draw(st.sampled_from(["", "", "running", "unsealed"])),
        label=draw(st.sampled_from(["", "success", "failure", "note"])),
        note=draw(WORDS),
    )


QUERIES = st.builds(
    Query,
    chosen=st.dictionaries(
        st.sampled_from(FACETS),
        st.lists(
            st.sampled_from(
                ["a", "b", "Bü", "d", "1", "10", "x", "success", "running", "terminated", NO_LABEL]
            ),
            min_size=1,
            max_size=3,
            unique=True,
        ).map(tuple),
        max_size=3,
    ).map(lambda chosen: tuple(chosen.items())),
    seed=st.sampled_from([None, None, None, 1, 7]),
    min_reward=st.sampled_from([None, 0.0, -2.0, 1.0]),
    max_reward=st.sampled_from([None, 0.5, 1.0]),
    words=st.lists(st.sampled_from(["a", "b", "bü", "e1", "zzz"]), max_size=2).map(tuple),
    sort=st.sampled_from(SORTS),
    descending=st.booleans(),
    offset=st.integers(0, 6),
    limit=st.integers(1, 5),
)


def value_of(row, name):
    """A field as a page shows it, without the table's help."""
    summary = row.summary
    return {
        "dataset": row.dataset,
        "task": summary.task,
        "goal": summary.goal,
        "site": summary.site,
        "outcome": row.state or summary.outcome.name.lower(),
        "end_reason": row.state or summary.end_reason.name.lower(),
        "policy": summary.policy,
        "policy_version": summary.policy_version,
        "iteration": row.iteration,
        "run": "",
        "label": row.label,
        "group": summary.group_id,
        "id": summary.episode_id,
        "reward": summary.total_reward,
        "steps": summary.num_steps,
        "attempt": summary.attempt,
        "start_time": summary.start_time,
        "seconds": None
        if summary.start_time is None or summary.end_time is None
        else summary.end_time - summary.start_time,
    }[name]


def meets(row, query, *, without=""):
    for name, values in query.chosen:
        if name == without:
            continue
        value = value_of(row, name)
        wanted = ["" if v == NO_LABEL and name == "label" else v for v in values]
        if ("" if value is None else str(value)) not in wanted or value is None:
            return False
    if query.seed is not None and row.summary.seed != query.seed:
        return False
    reward = row.summary.total_reward
    if query.min_reward is not None and not reward >= query.min_reward:
        return False
    if query.max_reward is not None and not reward <= query.max_reward:
        return False
    summary = row.summary
    who = [summary.policy, summary.policy_version]
    texts = [summary.episode_id, summary.task, summary.goal, *who, row.note]
    return all(any(word in text.casefold() for text in texts) for word in query.words)


def is_known(value):
    return value not in (None, "") and not (isinstance(value, float) and math.isnan(value))


def expected(found, query):
    meeting = [row for row in found if meets(row, query)]
    known = [row for row in meeting if is_known(value_of(row, query.sort))]
    unknown = [row for row in meeting if not is_known(value_of(row, query.sort))]
    known.sort(key=lambda row: value_of(row, query.sort), reverse=False)
    if query.descending:  # Python's sort in reverse keeps those that are alike as they came, too.
        known.sort(key=lambda row: value_of(row, query.sort), reverse=True)
    return known + unknown


def counted(found, query, name):
    counts = {}
    for row in found:
        if meets(row, query, without=name) and is_known(value_of(row, name)):
            value = value_of(row, name)
            counts[value] = counts.get(value, 0) + 1
    if name == "iteration":
        return sorted(counts.items())
    return sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))[:MOST_COUNTED]


def check(table, found, query):
    page = table.page(query)
    whole = expected(found, query)
    assert page.total == len(whole)
    assert list(page.rows) == whole[query.offset : query.offset + query.limit]
    for name in FACETS:
        assert page.facets[name] == counted(found, query, name), name


@hypothesis.given(data=st.data())
def test_a_table_finds_what_a_loop_finds(data):
    count = data.draw(st.integers(0, 8))
    found = [data.draw(rows(number)) for number in range(count)]
    table = Table()
    half = data.draw(st.integers(0, count))
    table.put(found[:half])
    check(table, found[:half], data.draw(QUERIES))  # Columns are made, and must follow.
    table.put(found[half:])
    for position in data.draw(st.lists(st.integers(0, count - 1), max_size=3)) if count else []:
        new = data.draw(rows(position))
        found[position] = Row(
            found[position].dataset, new.summary, new.iteration, new.state, new.label, new.note
        )
        table.put([found[position]])
    for query in data.draw(st.lists(QUERIES, min_size=1, max_size=3)):
        check(table, found, query)


def test_a_row_is_data_that_json_can_hold():
    import orjson

    summary = EpisodeSummary(
        episode_id="e1", task="\ud800", goal="g" * 9000, total_reward=math.nan, start_time=1.0
    )
    data = orjson.loads(orjson.dumps(Row("d", summary).to_data()))
    assert data["task"] == "?"
    assert data["reward"] is None
    assert data["seconds"] is None
    assert len(data["goal"]) == 500


@each(
    ("parameters", "query"),
    [
        ([], Query()),
        ([("sort", "-duration")], Query(sort="seconds")),
        ([("sort", "reward")], Query(sort="reward", descending=False)),
        ([("task", ""), ("q", "")], Query()),
        ([("task", "b"), ("task", "a")], Query(chosen=(("task", ("a", "b")),))),
        ([("q", " Foo  BAR ")], Query(words=("foo", "bar"))),
        (
            [("min_reward", "0.5"), ("max_reward", "inf")],
            Query(min_reward=0.5, max_reward=math.inf),
        ),
        ([("seed", "7")], Query(seed=7)),
        ([("offset", "7"), ("limit", "1000")], Query(offset=7, limit=1000)),
    ],
)
def test_a_query_is_read(parameters, query):
    assert parse_query(parameters) == query


@each(
    ("name", "value"),
    [
        ("sort", "nothing"),
        ("sort", "--reward"),
        ("limit", "0"),
        ("limit", "1001"),
        ("limit", "٣"),
        ("offset", "-1"),
        ("offset", "9" * 20),
        ("seed", "one"),
        ("seed", str(2**53 + 1)),
        ("min_reward", "much"),
        ("min_reward", "nan"),
        ("other", "1"),
    ],
)
def test_a_query_that_is_none_is_refused(name, value):
    with pytest.raises(errors.InvalidInputError, match=name):
        parse_query([(name, value)])
