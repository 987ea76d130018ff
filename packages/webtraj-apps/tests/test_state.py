"""What changed between two states, and whether that is what was expected."""

import sqlite3

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rows import each
from webtraj_apps.state import (
    added,
    anything,
    changed,
    changes,
    contains,
    differences,
    filled,
    hash_of,
    in_changed,
    in_new,
    optional,
    read_sqlite,
    removed,
)
from webtraj_apps.tracker import APP as TRACKER

BEFORE = {
    "line": {1: {"id": 1, "product": 7, "count": 1}, 2: {"id": 2, "product": 8, "count": 3}},
    "session": {1: {"id": 1, "seen": "monday"}},
}


def after(**tables):
    return {**BEFORE, **tables}


ROW = {"id": 3, "product": 9, "count": 2}
MORE = after(line={**BEFORE["line"], 3: ROW})
FEWER = after(line={1: BEFORE["line"][1]})
OTHER = after(line={**BEFORE["line"], 1: {"id": 1, "product": 7, "count": 5}})


@each(
    ("state", "expected", "wrong"),
    [
        (BEFORE, (), ""),
        (MORE, (added("line", product=9, count=2),), ""),
        (MORE, (added("line", product=9, count=3),), "missing: added line"),
        (MORE, (), "unexpected: added line"),
        (MORE, (added("line", product=9), added("line", count=2)), "missing: added line"),
        (MORE, (added("line", product=9),), "unexpected: in added line: {'count': 2}"),
        (MORE, (added("line", product=9, count=anything),), ""),
        (FEWER, (removed("line", product=8),), ""),
        (FEWER, (removed("line", product=7),), "unexpected: removed line"),
        (OTHER, (changed("line", {"product": 7}, count=5),), ""),
        (OTHER, (changed("line", {"product": 7}, count=lambda n: n > 4),), ""),
        (OTHER, (changed("line", {"product": 7}, product=7),), "unexpected: changed line"),
        (OTHER, (changed("line", {"count": 5}, count=5),), "missing: changed line"),
        (BEFORE, (optional(added("line")),), ""),
        (MORE, (optional(added("line", product=9, count=2)),), ""),
        (
            MORE,
            (optional(added("line", count=2, product=9)), added("line", product=9, count=2)),
            "",
        ),
    ],
)
def test_expected_changes(state, expected, wrong):
    found = differences(changes(BEFORE, state), expected)
    assert wrong in found
    assert bool(found) == bool(wrong)


def test_noise_does_not_count():
    noisy = after(session={1: {"id": 1, "seen": "tuesday"}})
    assert changes(BEFORE, noisy)
    assert not changes(BEFORE, noisy, ignored=["session"])
    assert not changes(BEFORE, noisy, columns={"session": ["seen"]})
    assert not changes(BEFORE, noisy, columns={"*": ["seen"]})


def test_a_text_that_a_form_sends_back_has_not_changed():
    old = {"page": {1: {"id": 1, "text": "One.\n\nTwo.", "title": "A"}}}
    sent = {"page": {1: {"id": 1, "text": "One.\r\n\r\nTwo.", "title": "B"}}}
    assert not differences(changes(old, sent), (changed("page", {"id": 1}, title="B"),))
    assert "text" in str(changes(old, {"page": {1: {**sent["page"][1], "text": "One. Two."}}})[0])


def test_each_expectation_takes_one_change_whatever_their_order():
    both = after(line={**BEFORE["line"], 3: ROW, 4: {**ROW, "id": 4, "count": 9}})
    one = added("line", product=9, count=anything)
    two = added("line", product=anything, count=2)
    assert not differences(changes(BEFORE, both), (one, two))
    assert not differences(changes(BEFORE, both), (two, one))


def test_allowed_changes_may_happen_any_number_of_times():
    both = after(line={**BEFORE["line"], 3: ROW, 4: {**ROW, "id": 4, "count": 9}})
    found = changes(BEFORE, both)
    assert not differences(found, (), allow=(added("line", product=9),))
    assert "unexpected: added line" in differences(found, (), allow=(added("line", count=2),))


def test_an_allowed_change_may_depend_on_what_else_changes():
    part = {1: {"id": 1, "line": 3}}
    allow = (added("line"), added("part", line=in_changed("line")))
    assert not differences(changes(BEFORE, {**MORE, "part": part}), (), allow=allow)
    elsewhere = {**MORE, "part": {1: {"id": 1, "line": 2}}}
    assert "added part" in differences(changes(BEFORE, elsewhere), (), allow=allow)


def test_a_new_row_has_no_values_but_those_that_are_expected_or_filled_in():
    rich = after(line={**BEFORE["line"], 3: {**ROW, "slug": "nine", "note": "", "price": 4}})
    found, expected = changes(BEFORE, rich), (added("line", product=9, count=2),)
    assert "{'slug': 'nine', 'price': 4}" in differences(found, expected)
    fills = {"*": filled("slug"), "line": filled(price=4)}
    assert not differences(found, expected, fills=fills)
    assert "{'price': 4}" in differences(found, expected, fills={"line": filled("slug", price=5)})


def test_a_text_that_lists_everything_contains_nothing():
    assert contains("room 3")("We meet in Room 3.")
    assert not contains("room 3")(" ".join(f"room {number}" for number in range(100)))


def test_a_part_of_a_new_row_must_refer_to_that_row():
    expected = added("line", product=9, count=2), added("part", line=in_new("line"))
    whole = {**MORE, "part": {1: {"id": 1, "line": 3}}}
    elsewhere = {**MORE, "part": {1: {"id": 1, "line": 2}}}
    assert not differences(changes(BEFORE, whole), expected)
    assert "missing: added part" in differences(changes(BEFORE, elsewhere), expected)


STATES = st.dictionaries(
    st.sampled_from("abc"),
    st.dictionaries(
        st.integers(0, 3), st.fixed_dictionaries({"x": st.integers(0, 2), "y": st.integers(0, 2)})
    ),
)


@given(STATES, STATES)
def test_changes_are_found_if_and_only_if_states_differ(one, two):
    found = changes(one, two)
    filled = {table: rows for table, rows in one.items() if rows}
    assert bool(found) == (filled != {table: rows for table, rows in two.items() if rows})
    exact = [
        added(c.table, **c.row)
        if c.kind == "added"
        else removed(c.table, **c.row)
        if c.kind == "removed"
        else changed(c.table, {**c.row, **c.old}, **c.row)
        for c in found
    ]
    assert not differences(found, exact[::-1])


@pytest.mark.parametrize(
    "stored",
    [
        "md5$northfield$549dcbaae5595b3ac9c5135a4049d579",
        "pbkdf2:sha1:9$northfield$d8edd8a8b9e4e3f48c0de08662528afc65658b26",
    ],
)
def test_a_hash_is_of_one_password(stored):
    assert hash_of("Teapot-1234-blue")(stored)
    assert not hash_of("Teapot-1234-red")(stored)
    assert not hash_of("Teapot-1234-blue")("!unusable")


def test_a_database_is_read_by_its_keys_without_indexes_of_text(tmp_path):
    with sqlite3.connect(tmp_path / "x.db") as database:
        database.execute("CREATE TABLE a (k INTEGER PRIMARY KEY, v TEXT)")
        database.execute("CREATE TABLE b (x TEXT, y TEXT, PRIMARY KEY (x, y))")
        database.execute("CREATE TABLE c (v BLOB)")
        database.execute("CREATE VIRTUAL TABLE f USING fts5(v)")
        database.execute("INSERT INTO a VALUES (5, 'x')")
        database.execute("INSERT INTO b VALUES ('p', 'q')")
        database.execute("INSERT INTO c VALUES (x'00ff')")
        database.execute("INSERT INTO f VALUES ('words')")
    assert read_sqlite(tmp_path / "x.db") == {
        "a": {(5,): {"k": 5, "v": "x"}},
        "b": {("p", "q"): {"x": "p", "y": "q"}},
        "c": {1: {"v": b"\x00\xff"}},
    }


def test_preferences_of_a_tracker_count_and_traces_of_viewed_pages_do_not(tmp_path):
    with sqlite3.connect(tmp_path / TRACKER.database) as database:
        database.execute(
            "CREATE TABLE session_attribute (sid TEXT, authenticated INT, name TEXT, value TEXT)"
        )
        database.execute("CREATE TABLE ticket_change (ticket INT, field TEXT, newvalue TEXT)")

    def saved(**values):
        """Save a session as the tracker does: all of it anew."""
        with sqlite3.connect(tmp_path / TRACKER.database) as database:
            database.execute("DELETE FROM session_attribute WHERE sid = 'ann'")
            rows = [("ann", name, value) for name, value in values.items()]
            database.executemany("INSERT INTO session_attribute VALUES (?, 1, ?, ?)", rows)
        return TRACKER.read(tmp_path)

    saved(name="Ann", email="ann@northfield.test")
    before = saved(email="ann@northfield.test", name="Ann")
    viewed = saved(name="Ann", query_tickets="5 6", email="ann@northfield.test")
    (change,) = changes(before, saved(name="Ann", email="other@example.org"))
    assert not changes(before, viewed)
    assert (change.kind, change.old) == ("changed", {"value": "ann@northfield.test"})
