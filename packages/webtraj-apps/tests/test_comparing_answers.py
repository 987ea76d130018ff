"""A table of right and wrong answers, as people write them."""

import tomllib
from pathlib import Path

from webtraj_apps.answers import same_answer

TABLE = tomllib.loads(Path(__file__).with_name("answers.toml").read_text("utf-8"))["answer"]


def _verdicts(column):
    for row in TABLE:
        wanted = row["wanted"] if isinstance(row["wanted"], str) else tuple(row["wanted"])
        for given in row[column]:
            yield wanted, given, same_answer(given, wanted, ordered=row.get("ordered", False))


def test_right_answers_are_accepted():
    assert not [(wanted, given) for wanted, given, right in _verdicts("right") if not right]


def test_wrong_answers_are_refused():
    assert not [(wanted, given) for wanted, given, right in _verdicts("wrong") if right]


def test_a_long_answer_is_refused_in_time_that_grows_with_its_length():
    assert not same_answer("a, " * 20_000 + "c", ("a", "b"))
    assert not same_answer("1" * 100_000 + " or 2", "1")
    assert not same_answer("*" * 20_000, "1")
    assert not same_answer(
        "".join(f"{n}{',' * 60}" for n in (1, 2, 3, 4)) + "x", ("1", "2", "3", "4")
    )
    assert not same_answer("*a " * 5_000, "a")
    assert not same_answer("[a](" * 20_000, "a")
