"""Task files: WebGym's rows, Orby's, our own; what is wrong is named by its row."""

import re

import orjson
import pyarrow as pa
import pytest
from pyarrow import parquet

from rows import each
from webtraj import errors, registry
from webtraj.environments.tasks import Fact, FactGroup, TaskSpec, read_tasks, spec_of_row
from webtraj.runs.plan import plan_tasks

WEBGYM = {
    "task_name": "Find the cheapest tent",
    "domain": "shopping",
    "subdomain": "outdoor",
    "website": "www.example.org/shop",
    "difficulty": 2,
    "evaluator_reference": ["It is a tent", "It is the cheapest"],
    "definite_answer": "",
    "distribution": "ood",
}

OWN = {"name": "tent", "goal": "Find a tent", "start_url": "example.org"}
ITEM = "a text, {description, difficulty}, or a group {id, description, facts}"


def write(path, rows):
    path.write_bytes(b"".join(orjson.dumps(row) + b"\n" for row in rows))
    return path


def test_a_row_of_webgym():
    spec = spec_of_row(WEBGYM)
    assert spec.goal == "Find the cheapest tent"
    assert spec.start_url == "https://www.example.org/shop"
    assert spec.site == "example.org"
    assert spec.level == "easy"
    assert spec.facts == (
        FactGroup((Fact("It is a tent"),)),
        FactGroup((Fact("It is the cheapest"),)),
    )
    assert spec.metadata == {"distribution": "ood"}
    assert spec.preset == "web"


@each(
    ("reference", "groups"),
    [
        pytest.param("It is a tent", (FactGroup((Fact("It is a tent"),)),), id="text"),
        pytest.param(
            [{"description": "It is a tent", "difficulty": 3}],
            (FactGroup((Fact("It is a tent", 3),)),),
            id="graded",
        ),
        pytest.param(
            [{"id": 1, "description": "The tent", "facts": ["small", "green"]}],
            (FactGroup((Fact("small"), Fact("green")), "1", "The tent"),),
            id="groups",
        ),
        pytest.param(
            [
                {"id": "a", "description": "", "facts": [{"description": "x", "difficulty": 2}]},
                {"description": "alone"},
            ],
            (FactGroup((Fact("x", 2),), "a"), FactGroup((Fact("alone"),))),
            id="mixed",
        ),
        pytest.param(
            ["alone", {"facts": ["small", "green"]}],
            (FactGroup((Fact("alone"),)), FactGroup((Fact("small"), Fact("green")))),
            id="mixed with texts",
        ),
        pytest.param(
            [
                {"id": None, "description": "x", "difficulty": None, "facts": None},
                {"id": None, "description": None, "difficulty": 3, "facts": ["small"]},
            ],
            (FactGroup((Fact("x"),)), FactGroup((Fact("small"),))),
            id="as parquet has it",
        ),
    ],
)
def test_every_form_of_reference_keeps_its_groups(reference, groups):
    assert spec_of_row({**WEBGYM, "evaluator_reference": reference}).facts == groups
    assert spec_of_row({**OWN, "facts": reference}).facts == groups


@each("field", ["evaluator_reference", "facts"])
@each(
    ("reference", "told"),
    [
        (5, f": expected a text, or a list whose items are each {ITEM}; got 5"),
        ({"description": "x"}, f": expected a text, or a list whose items are each {ITEM}; got "),
        ([5], f"[0]: expected {ITEM}; got 5"),
        (["x", {"difficulty": 2}], f"[1]: expected {ITEM}; got "),
        ([{"facts": ["x", 7]}], "[0].facts[1]: expected a text or {description, difficulty}; got"),
        ([{"description": "lost otherwise", "facts": []}], "[0].facts: List should have at least"),
        ([{"facts": ["x"], "id": []}], "[0].id: "),
        ([{"description": "x", "difficulty": "hard"}], "[0].difficulty: "),
        ([""], "[0]: String should have at least 1 character"),
    ],
)  # fmt: skip
def test_what_facts_may_be_is_said_in_a_users_words(field, reference, told):
    row = {**(OWN if field == "facts" else WEBGYM), field: reference}
    with pytest.raises(errors.InvalidInputError) as raised:
        spec_of_row(row)
    assert str(raised.value).startswith(field + told)
    assert not re.search(r"\b_[A-Z]", str(raised.value))  # No class of ours.


def test_a_task_without_an_id_is_named_by_what_it_says():
    named = spec_of_row(WEBGYM).name
    assert named == spec_of_row(dict(reversed(WEBGYM.items()))).name
    assert named != spec_of_row({**WEBGYM, "task_name": "Find another tent"}).name
    assert spec_of_row({**WEBGYM, "task_id": 17}).name == "17"


def test_a_coarse_task():
    spec = spec_of_row({"url": "http://example.org", "description": "Compare tents"})
    assert spec.coarse
    assert (spec.start_url, spec.goal) == ("http://example.org", "Compare tents")


def test_a_row_may_be_a_preset_alone():
    registry.register("lab/door", lambda tasks: None, tasks=("door",))
    (planned,) = plan_tasks([spec_of_row({"preset": "lab/door"})])
    assert planned.selection.tasks == ("door",)


def test_rows_of_our_own():
    assert spec_of_row({"preset": "miniwob/click-test"}).name == "miniwob/click-test"
    spec = spec_of_row({"name": "n", "goal": "g", "start_url": "example.org", "difficulty": 7})
    assert (spec.preset, spec.level, spec.site) == ("web", "hard", "example.org")
    named = {"preset": "web", "start_url": "example.org", "site": "https://www.Shop.com/"}
    one, other = (spec_of_row({**named, "goal": goal}) for goal in ("Buy", "Sell"))
    assert one.name != other.name
    assert one.site == "shop.com"


@each(
    ("row", "words"),
    [
        ({**WEBGYM, "difficulty": 0}, "difficulty"),
        ({**WEBGYM, "difficulty": "hard"}, "difficulty"),
        ({**WEBGYM, "website": "ftp://example.org"}, "ftp://example.org"),
        ({**WEBGYM, "website": ""}, "website"),
        ({**WEBGYM, "evaluator_reference": [{"facts": []}]}, "evaluator_reference"),
        ({key: value for key, value in WEBGYM.items() if key != "website"}, "website"),
        ({"description": "no site"}, "url"),
        ({"name": "n", "goal": "g"}, "start_url"),
        ({"preset": "test/look", "site": "My Shop"}, "'My Shop' is not an http or https address"),
        ({"color": "green"}, "color"),
        ({}, "none"),
        (["a"], "list"),
    ],
)
def test_what_is_wrong_is_named(row, words):
    with pytest.raises(errors.InvalidInputError, match=words):
        spec_of_row(row)


def test_lines_are_read_in_order_and_blank_ones_passed_over(tmp_path):
    rows = [{**WEBGYM, "task_id": number} for number in range(5)]
    path = write(tmp_path / "tasks.jsonl", rows)
    path.write_bytes(path.read_bytes() + b"\n\n")
    assert [spec.name for spec in read_tasks(path)] == list("01234")


def test_parquet_means_the_same(tmp_path):
    rows = [{**WEBGYM, "task_id": number} for number in range(3)]
    rows[1]["distribution"] = None
    parquet.write_table(pa.Table.from_pylist(rows), tmp_path / "tasks.parquet")
    from_lines = list(read_tasks(write(tmp_path / "tasks.jsonl", rows)))
    assert list(read_tasks(tmp_path / "tasks.parquet")) == from_lines


def test_bad_rows_are_named_together_by_number(tmp_path):
    rows = [WEBGYM, {**WEBGYM, "difficulty": -1}, WEBGYM, {"color": "green"}]
    path = write(tmp_path / "tasks.jsonl", rows)
    path.write_bytes(path.read_bytes() + b'{"task_name": ')
    with pytest.raises(errors.InvalidInputError) as raised:
        list(read_tasks(path))
    for words in ("tasks.jsonl", "row 2: difficulty", "row 4: ", "row 5: invalid JSON"):
        assert words in str(raised.value)


@each(
    "spec",
    [
        TaskSpec(name="a"),
        spec_of_row(WEBGYM),
        spec_of_row({**WEBGYM, "evaluator_reference": [{"id": 1, "facts": ["x", "y"]}]}),
        spec_of_row({"url": "http://example.org", "description": "Compare tents"}),
    ],
)
def test_data_and_back(spec):
    assert TaskSpec.from_data(orjson.loads(orjson.dumps(spec.to_data()))) == spec
