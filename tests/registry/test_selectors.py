"""The selector grammar: a table of what is what, and properties that hold for all of it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rows import each
from webtraj import errors
from webtraj.registry import parse_selector

TASKS = tuple("abcdefghij")

names = st.from_regex("[a-zA-Z0-9_./-]+", fullmatch=True)
numbers = st.integers(0, 999_999_999)
optional = st.one_of(st.just(""), numbers.map(str))
selections = st.one_of(
    st.just(""),
    numbers.map(lambda index: f":{index}"),
    st.tuples(optional, optional).filter(any).map(lambda ends: f":{ends[0]}:{ends[1]}"),
    st.tuples(numbers, numbers).map(lambda shard: f"@{shard[0]}/{shard[1]}"),
)


def chosen_by(selector, tasks):
    _, choose = parse_selector(selector)
    return choose(tasks)


@each(
    ("text", "chosen"),
    [
        ("p", "abcdefghij"),
        ("p:0", "a"),
        ("p:9", "j"),
        ("p:007", "h"),
        ("p:0:10", "abcdefghij"),
        ("p:2:4", "cd"),
        ("p:5:", "fghij"),
        ("p::3", "abc"),
        ("p:8:100", "ij"),
        ("p@0/1", "abcdefghij"),
        ("p@0/3", "abc"),
        ("p@1/3", "def"),
        ("p@2/3", "ghij"),
    ],
)
def test_selector_chooses(text, chosen):
    name, choose = parse_selector(text)
    assert name == "p"
    assert choose(TASKS) == tuple(chosen)


@each("text", [
        "", ":", "@", ":5", "@2/8", "p:", "p::", "p:a", "p:-1", "p:1:-1", "p:1:2:3", "p:1.5",
        "p@", "p@2", "p@/8", "p@2/", "p@2/8/9", "p@-1/8", "p:1@2/8", "p@2/8:1", " p", "p ",
        "p\n", "p:5\n", "p 5", "p:\u0665", "p\u00e9", "p:1_0", "p:+1", "p,q", "p:1234567890",
        5, None,
    ])  # fmt: skip
def test_malformed_selector_names_the_input_and_the_expected_form(text):
    with pytest.raises(errors.InvalidSelectorError) as caught:
        parse_selector(text)
    assert repr(text) in str(caught.value)
    assert "'name:0:10'" in str(caught.value)
    assert "'name@2/8'" in str(caught.value)


@each(
    ("text", "tasks", "names_these"),
    [
        ("p:10", TASKS, ["':10'", "from 0 to 9"]),
        ("p:10:", TASKS, ["':10:'", "from 0 to 9"]),
        ("p:10:20", TASKS, ["':10:20'", "from 0 to 9"]),
        ("p:3:3", TASKS, ["':3:3'", "empty"]),
        ("p:4:3", TASKS, ["':4:3'", "empty"]),
        ("p::0", TASKS, ["':0:0'", "empty"]),
        ("p@8/8", TASKS, ["'@8/8'", "from 0 to 7"]),
        ("p@0/0", TASKS, ["'@0/0'", "1 or more"]),
        ("p@0/11", TASKS, ["10 tasks", "11 shards", "at most 10"]),
        ("p", (), ["empty"]),
        ("p:0", (), ["empty"]),
        ("p:0:", (), ["empty"]),
        ("p@0/1", (), ["empty"]),
    ],
)
def test_selection_of_nothing_is_an_error_that_says_why(text, tasks, names_these):
    with pytest.raises(errors.InvalidSelectorError) as caught:
        chosen_by(text, tasks)
    for words in names_these:
        assert words in str(caught.value)


@given(names, selections)
def test_what_follows_the_grammar_is_read(name, selection):
    assert parse_selector(f"{name}{selection}")[0] == name


@given(st.text())
def test_any_text_parses_or_is_refused_by_the_one_error(text):
    try:
        name, _ = parse_selector(text)
    except errors.InvalidSelectorError:
        return
    assert text.startswith(name)


@given(st.integers(1, 500).flatmap(lambda n: st.tuples(st.just(n), st.integers(1, n))))
def test_shards_cover_every_task_once_in_order_and_evenly(sizes):
    num_tasks, count = sizes
    shards = [chosen_by(f"p@{index}/{count}", range(num_tasks)) for index in range(count)]
    assert [task for shard in shards for task in shard] == list(range(num_tasks))
    lengths = {len(shard) for shard in shards}
    assert min(lengths) >= 1
    assert max(lengths) - min(lengths) <= 1


@given(selections, st.lists(st.integers(), max_size=30))
def test_selection_is_a_non_empty_run_of_the_tasks_or_the_one_error(selection, tasks):
    try:
        chosen = chosen_by(f"p{selection}", tasks)
    except errors.InvalidSelectorError:
        return
    assert chosen
    assert any(tuple(tasks[start : start + len(chosen)]) == chosen for start in range(len(tasks)))
