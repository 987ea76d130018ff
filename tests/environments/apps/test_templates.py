"""The templates that come with webtraj, without playing them; and answers."""

import importlib
import random
from pathlib import Path

import pytest

import webtraj
from webtraj import errors
from webtraj.environments.apps import app as app_lib
from webtraj.environments.apps import tasks
from webtraj.environments.apps.names import TEMPLATES
from webtraj.environments.apps.people import people


@pytest.mark.parametrize(
    ("given", "wanted", "right"),
    [
        ("42", "42", True),
        ("£42.00", "42", True),
        ("1,200.50 EUR", "1200.5", True),
        (" Emma  Raman.", "emma raman", True),
        ('"Emma Raman"', "Emma Raman", True),
        ("42", "43", False),
        ("", "43", False),
        ("It is 42", "42", False),
        ("b, a", ("a", "b"), True),
        ("a and b", ("a", "b"), True),
        ("a\nb;", ("a", "b"), True),
        ("1,200 and 3", ("3", "1200"), True),
        ("a", ("a", "b"), False),
        ("a, b, c", ("a", "b"), False),
        ("a, a", ("a", "b"), False),
        ("174,200,213", ("174", "200", "213"), True),
        ("#174, #200", ("174", "200"), True),
        ("#77", ("77",), True),
        ("\N{MINUS SIGN}12.30", "-12.3", True),
        ("- £12.30", "-12.3", True),
        ("0.00", "-0.00", True),
        ("1 200", "1200", True),
        (".5", "0.5", True),
        (".5", "5", False),
        ("12,50", "1250", False),
        ("1,2", "12", False),
        ("+44207 9460123", "+44 20 7946 0123", True),
        ("1,2345", "12345", False),
    ],
)
def test_answers(given, wanted, right):
    assert tasks.same_answer(given, wanted) is right


def test_the_order_of_answers_counts_if_it_is_the_answer():
    assert tasks.same_answer("4, 5", ("4", "5"), ordered=True)
    assert not tasks.same_answer("5, 4", ("4", "5"), ordered=True)
    assert tasks.same_answer("5, 4", ("4", "5"))


async def test_two_counts_are_not_to_be_swapped():
    products = [
        {"material": "Oak", "text": "oak", "department": kind}
        for kind in ("Study", "Travel", "Study")
    ]
    template = tasks.find_template("shop/count-material")
    task = tasks.AppTask(template)
    task._assignment = template.assign({"user": "ann", "products": products}, random.Random(0))
    first, second = task.assignment.answer
    assert {first, second} == {"1", "2"}
    assert "is not" in await task.wrong_with(f"{second}, {first}")


AGENTS = [{"username": name, "name": name.title()} for name in ("ann", "bob")]
TICKETS = [
    {"id": number, "status": 1, "queue": "it", "priority": number // 4, "created": f"{number}"}
    | {"owner": "ann"}
    for number in (5, 6)
]
POLICIES = [
    {"title": f"Rule {number}", "section": "policies", "live": True, "draft": "", "locked": False}
    | {"fields": {"review_date": f"2026-03-0{number}"}}
    for number in range(1, 6)
]


@pytest.mark.parametrize("name", ["helpdesk/count", "helpdesk/report-by-user", "cms/next-review"])
def test_the_order_counts_where_only_it_tells_answers_apart(name):
    facts = {"user": "ann", "editor": "ann", "agents": AGENTS, "tickets": TICKETS}
    facts |= {"pages": POLICIES, "queues": [{"id": 1, "slug": "it", "title": "IT"}]}
    assert tasks.find_template(name).assign(facts, random.Random(0)).ordered


def test_the_list_of_names_is_that_of_the_templates():
    found = {}
    for package in (*app_lib.APPS, "across"):
        importlib.import_module(f"webtraj.environments.apps.{package}.tasks")
        found |= tasks.registered(package)
    assert found == dict(TEMPLATES), "python scripts/app_names.py"


def test_there_are_enough_of_each_kind():
    assert len(TEMPLATES) >= 200
    levels = [level for level, _ in TEMPLATES.values()]
    assert all(levels.count(level) >= 40 for level in (1, 2, 3))
    held_out = sum(split == "test" for _, split in TEMPLATES.values())
    assert 0.2 <= held_out / len(TEMPLATES) <= 0.4
    used = [tasks.find_template(name).apps for name in TEMPLATES]
    assert sum(len(apps) > 1 for apps in used) >= 20


def test_presets_have_the_names_of_templates_and_of_their_sets():
    assert webtraj.info("apps/all").num_tasks == len(TEMPLATES)
    for name in TEMPLATES:
        assert webtraj.info(f"apps/{name}").num_tasks == 1
    train, test = (webtraj.info(f"apps/{split}").num_tasks for split in ("train", "test"))
    assert train + test == len(TEMPLATES)


@pytest.mark.parametrize("name", app_lib.APPS)
def test_an_application_says_what_it_is_under_which_licence(name):
    app = app_lib.find_app(name)
    assert app.name == name
    assert app.title
    assert app.license
    assert any(c.isdigit() for c in app.package)
    pins = (app.folder / "requirements.txt").read_text().splitlines()
    assert all("==" in line for line in pins if line and not line.startswith("#"))
    assert pins or app.debian


def test_people_are_the_same_for_the_same_seed_and_all_different():
    assert people(3) == people(3) != people(4)
    assert len({person.username for person in people(3)}) == 40


def test_an_unknown_application_or_task_is_an_error_that_names_it():
    with pytest.raises(errors.InvalidInputError, match=r"No application 'shopp'.*shop"):
        app_lib.find_app("shopp")
    with pytest.raises(errors.InvalidInputError, match="No application task 'shop/nothing'"):
        tasks.find_template("shop/nothing")


def test_a_template_cannot_be_registered_twice():
    tasks.template("doctest/one", level=1, split="train")(lambda facts, rng: None)
    try:
        with pytest.raises(ValueError, match="twice"):
            tasks.template("doctest/one", level=1, split="train")
    finally:
        del tasks._TEMPLATES["doctest/one"]


def test_the_guide_shows_the_example():
    root = Path(__file__).parents[3]
    guide = (root / "docs/guides/your_application.md").read_text()
    for name in ("host.py", "tasks.py", "__init__.py"):
        assert (root / "examples/own_application/errands" / name).read_text() in guide
