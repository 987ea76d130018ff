"""The templates that come with webtraj, without playing them."""

import random
import re
from pathlib import Path

import pytest

import webtraj
from rows import each
from webtraj import errors
from webtraj_apps import app as app_lib
from webtraj_apps import names, tasks
from webtraj_apps.company import HELD_OUT
from webtraj_apps.people import people

AGENTS = [{"username": name, "name": name.title()} for name in ("ann", "bob")]
TICKETS = [
    {"id": number, "status": 1, "queue": "it", "priority": number // 4, "created": f"{number}"}
    | {"owner": "ann"}
    for number in (5, 6)
]
QUEUES = [{"id": 1, "slug": "it", "title": "IT"}]
POLICIES = [
    {"title": f"Rule {number}", "section": "policies", "live": True, "draft": "", "locked": False}
    | {"fields": {"review_date": f"2026-03-0{number}"}}
    for number in range(1, 6)
]


@pytest.mark.parametrize("name", ["helpdesk/count", "helpdesk/report-by-user", "cms/next-review"])
def test_the_order_counts_where_only_it_tells_answers_apart(name):
    facts = {"user": "ann", "editor": "ann", "agents": AGENTS, "tickets": TICKETS}
    facts |= {"pages": POLICIES, "queues": QUEUES}
    assert tasks.find_template(name).assign(facts, random.Random(0)).ordered


def test_an_answer_in_a_ticket_counts_however_it_is_written():
    article = {"id": 1, "slug": "it", "asks": "Which extension?", "value": "extension 4411"}
    people = [{"id": 1, "name": "Ann Lee", "email": "ann@northfield.test"}]
    facts = {"user": "bob", "agents": [], "people": people, "answers": [article]}
    facts |= {"tickets": TICKETS, "queues": QUEUES}
    assigned = tasks.find_template("helpdesk/answer-from-article").assign(facts, random.Random(0))
    _, reply = assigned.expect
    says = reply.where["comment"]
    assert all(map(says, ("4411", "Please call extension 4411.", "The extension is 4411, Ann.")))
    assert not any(map(says, ("4412", "Please call us.", f"4411 {'and others ' * 30}")))


OURS = [source for source in names.find_installed().values() if source.is_ours]


@each("source", OURS)
def test_the_list_of_names_is_that_of_the_templates(source):
    source.load_tasks()
    listed = source.templates()
    assert listed == names.list_registered(source.name), (
        "run packages/webtraj-apps/scripts/names.py"
    )
    for name in listed:
        assert webtraj.info(f"apps/{name}").num_tasks == 1


def test_sets_over_all_applications_are_those_of_this_package():
    count = sum(len(source.templates()) for source in OURS)
    train, test = (webtraj.info(f"apps/{split}").num_tasks for split in ("train", "test"))
    assert webtraj.info("apps/all").num_tasks == train + test == count


def test_the_documentation_counts_the_tasks_of_each_application():
    page = (Path(__file__).parents[3] / "docs/apps.md").read_text("utf-8")
    told = re.findall(r"^\| `(\w+)` \|(?:[^|]*\|){3} (\d+) \|", page, re.MULTILINE)
    assert dict(told) == {source.name: str(len(source.templates())) for source in OURS}


@each("split", ["train", "test"])
def test_refusing_everything_earns_little_and_at_no_level_nothing(split):
    templates = [tasks.find_template(name) for source in OURS for name in source.templates()]
    known = [one for one in templates if one.split == split]
    impossible = [one for one in known if one.infeasible]
    assert len(impossible) / len(known) < 0.04
    if split == "test":
        assert all(sum(one.level == level for one in impossible) >= 2 for level in (1, 2, 3))


def test_only_the_test_split_plays_in_the_held_out_content():
    for source in OURS:
        source.load_tasks()
        for name, (_, split) in source.templates().items():
            template = tasks.find_template(name)
            seeds = [template.world_seed(seed) for seed in range(3 * app_lib.CONTENTS)]
            contents = {seed % app_lib.CONTENTS for seed in seeds}
            others = set(range(app_lib.CONTENTS)) - {HELD_OUT}
            assert contents == ({HELD_OUT} if split == "test" else others), name


def test_people_are_the_same_for_the_same_seed_and_all_different():
    assert people(3) == people(3) != people(4)
    assert len({person.username for person in people(3)}) == 40


def test_an_unknown_application_or_task_is_an_error_that_names_it():
    with pytest.raises(errors.InvalidInputError, match=r"No application 'shopp'.*shop"):
        app_lib.find_app("shopp")
    with pytest.raises(errors.InvalidInputError, match="No application task 'shop/nothing'"):
        tasks.find_template("shop/nothing")
