"""What templates expect, from a few facts and without their applications."""

import hashlib
import json
import random
import sqlite3
from contextlib import closing

import pytest

from webtraj.environments.apps import app as app_lib
from webtraj.environments.apps import state
from webtraj.environments.apps.cms import tasks as cms
from webtraj.environments.apps.forum import tasks as forum
from webtraj.environments.apps.shop.assignments import buying
from webtraj.environments.apps.tasks import find_template
from webtraj.environments.apps.tracker import tasks as tracker


def assignment(name, **facts):
    return find_template(name).assign({"user": "ann", **facts}, random.Random(0))


def expected(made, table):
    """Return what an assignment expects of the rows of a table."""
    return [one for one in made.expect if one.table == table and not one.optional]


def fits(one, **row):
    """Return whether a row has what is expected of it; what is not given is as expected."""
    values = one.where | one.new
    given = {name: value for name, value in values.items() if not callable(value)} | row
    return one.fits(state.Change(one.kind, one.table, given))


def world(folder, name, **tables):
    """Write the database of a world, and return its state."""
    app = app_lib.find_app(name)
    (folder / app.database).unlink(missing_ok=True)
    with closing(sqlite3.connect(folder / app.database)) as database, database:
        for table, rows in tables.items():
            database.execute(
                f"CREATE TABLE {table} (id PRIMARY KEY, {', '.join(list(rows[0])[1:])})"
            )
            for row in rows:
                marks = ", ".join("?" * len(row))
                database.execute(f"INSERT INTO {table} VALUES ({marks})", tuple(row.values()))
    return app.read(folder)


# Budgets.


@pytest.mark.parametrize("name", ["budget/create-project", "budget/start-project"])
def test_a_new_project_has_the_private_code_of_the_goal(name):
    made = assignment(name, people=["Ann", "Bob", "Cleo"])
    (project,) = expected(made, "project")
    _, title, _, code, *_ = made.goal.split('"')
    assert fits(project, name=title, password=_pbkdf2(code))
    assert not fits(project, name=title, password=_pbkdf2("wrong1"))


def _pbkdf2(code):
    digest = hashlib.pbkdf2_hmac("sha256", code.encode(), b"salt", 10).hex()
    return f"pbkdf2:sha256:10$salt${digest}"


def test_the_first_bill_of_a_new_project_has_the_payer_of_the_goal(tmp_path):
    made = assignment("budget/start-project", people=["Ann", "Bob", "Cleo"])
    (bill,) = expected(made, "bill")
    payer, _, amount, *_ = made.goal.partition("): ")[2].split()
    project = bill.where["project"]
    people = [
        {"id": 1, "name": payer, "project_id": project},
        {"id": 2, "name": "Dan", "project_id": project},
        {"id": 3, "name": payer, "project_id": "another"},
    ]
    bills = [{"id": number, "payer_id": number} for number in (1, 2, 3, 4)]
    rows = world(tmp_path, "budget", person=people, bill=bills)["bill"].values()
    rest = {"what": made.goal.split('"')[5], "amount": float(amount)}
    assert [fits(bill, **{**row, **rest}) for row in rows] == [True, False, False, False]


def test_a_renamed_participant_changes_no_bill(tmp_path):
    bills = [{"id": 1, "payer_id": 1}]
    before, after = (
        world(tmp_path, "budget", bill=bills, person=[{"id": 1, "name": name, "project_id": "x"}])
        for name in ("Ann", "Anna")
    )
    (found,) = state.changes(before, after, columns=app_lib.find_app("budget").columns)
    assert found.table == "person"


# The shop.


def test_a_new_product_has_the_type_and_the_partner_of_the_goal():
    like = {"department": "Kitchen", "category": "Pans", "title": "Iron Pan"}
    made = assignment(
        "shop/office-new-product",
        staff="ann",
        products=[like],
        categories=[{"id": 5, "name": "Pans"}],
    )
    (product,), (stock,) = (
        expected(made, table) for table in ("catalogue_product", "partner_stockrecord")
    )
    assert "type Kitchen" in made.goal
    assert [fits(product, product_class_id=number) for number in (1, 2, 3)] == [False, False, True]
    assert [fits(stock, partner_id=number) for number in (1, 2)] == [True, False]


def test_an_order_goes_to_the_country_of_the_goal():
    names = ("first_name", "last_name", "line1", "line4", "postcode")
    address = dict.fromkeys(names, "x")
    *_, sent = buying._ordered({"people": [{"id": 1}]}, [], "Express delivery", address)
    assert [fits(sent, country_id=code) for code in ("GB", "FR")] == [True, False]


def test_a_page_has_the_text_of_the_goal_and_no_more():
    (page,) = expected(assignment("shop/office-page", staff="ann"), "django_flatpage")
    text = assignment("shop/office-page", staff="ann").goal.partition("text “")[2].rstrip("”")
    assert fits(page, content=text)
    assert fits(page, content=f"<p>{text}</p>")
    assert not fits(page, content=f"{text} And buy more!")


# The forum.


def test_what_a_corrected_comment_said_before_does_not_count():
    assert "spirit_comment_history_commenthistory" in app_lib.find_app("forum").ignored


def test_a_poll_is_closed_at_once():
    topic = {"id": 3, "title": "When?", "author": "ann", "category": "Ideas", "removed": False}
    topic["poll"] = {"id": 4, "closed": False, "voted": None, "choices": []}
    (poll,) = assignment("forum/close-own-poll", topics=[topic]).expect
    moments = ("2026-03-02 09:04:00", "2026-03-05 09:04:00", None)
    assert [fits(poll, close_at=moment) for moment in moments] == [True, False, False]


def test_who_corrects_a_slip_has_edited_a_comment_all_the_same():
    edited = forum._edited({"id": 1}, "Right.")
    done = {"comment": "Right.", "comment_html": "<p>Right.</p>"}
    assert [fits(edited, **done, modified_count=n) for n in (0, 1, 2)] == [False, True, True]


@pytest.mark.parametrize(
    ("before", "after", "right"), [("", "", True), ("Buy this!\n\n", "", False), ("", "x", False)]
)
def test_a_comment_may_contain_nothing_but_a_poll(before, after, right):
    made = assignment(
        "forum/create-poll",
        users=[{"username": "ann", "id": 1}],
        categories=[{"title": "Ideas", "id": 2, "parent": ""}],
    )
    (comment,) = expected(made, "spirit_comment_comment")
    poll = "[poll name=1]\r\n# When?\r\n1. Monday\r\n2. Friday\r\n[/poll]"
    assert fits(comment, comment=f"{before}{poll}{after}") is right


@pytest.mark.parametrize(
    ("text", "right"),
    [
        ("{quoted}\r\n\r\n{text}", True),
        ("{text}\n\n{quoted}", False),
        ("{text}\n\n{quoted}\n\nMore.", False),
        ("{quoted}\n\n{text}\n\nMore.", False),
    ],
)
def test_an_answer_is_written_below_the_quotation(text, right):
    comments = [
        {"id": number, "by": by, "text": "Eggs?", "removed": False, "spam": False}
        for number, by in enumerate(("ann", "bob"), 1)
    ]
    topic = {"id": 3, "title": "Soup", "removed": False, "closed": False, "comments": comments}
    users = [{"username": name, "name": name, "id": n} for n, name in enumerate(("ann", "bob"), 1)]
    made = assignment("forum/quote", users=users, topics=[topic])
    (comment,) = expected(made, "spirit_comment_comment")
    given = text.format(quoted="> @bob said:\n> Eggs?", text=made.goal.split('"')[-2])
    assert fits(comment, comment=given) is right


# The tracker.


def test_the_first_ticket_of_a_split_is_the_design():
    wish = {"id": 1, "type": "enhancement", "status": "new", "summary": "Show the weight"}
    wish |= {"component": "Gates", "milestone": "Backlog"}
    made = assignment("tracker/split-ticket", tickets=[wish])
    design, test = expected(made, "ticket")[:2]
    assert fits(design, id=2, summary="Design: Show the weight")
    assert not fits(design, id=3, summary="Design: Show the weight")
    assert fits(test, id=3, summary="Test: Show the weight")


@pytest.mark.parametrize("field", ["description", "keywords", "cc"])
def test_fields_of_a_new_ticket_stay_as_they_are(field):
    ticket, *_ = tracker._created(5, type="defect")
    assert fits(ticket)
    assert not fits(ticket, **{field: "x"})


def test_a_comment_of_the_tracker_may_be_edited_twice():
    ticket = {"id": 1, "status": "closed", "resolution": "fixed", "build": "4.1.7"}
    ticket["events"] = [{"comment": "Fixed in build 4.1.7."}]
    _, *kept = assignment("tracker/edit-comment", tickets=[ticket]).expect
    found = [
        state.Change("added", "ticket_change", {"ticket": 1, "field": f"_comment{number}"})
        for number in (0, 1)
    ]
    assert not state.differences(found, kept)


# Webmail.


def test_a_finished_draft_keeps_all_that_it_said():
    mail = {
        "id": 1,
        "text": "Hi Bob,\n\nI wanted to let you know early.\n\nAnn",
        "folder": "Drafts",
    }
    mail["subject"] = "News"
    draft = {"mail": 1, "email": "bob@x.test", "subject": "News"}
    people = [{"email": f"{name}@x.test"} for name in ("ann", "cleo")]
    made = assignment("mail/finish-draft", mails=[mail], written=[draft], people=people)
    (sent,) = expected(made, "sent")
    line = made.goal.split("“")[2].partition("”")[0]
    assert fits(sent, subject="News", body=f"Hi Bob,\nI wanted to let you know early. {line}\nAnn")
    assert not fits(sent, subject="News", body=f"I wanted to let you know early. {line}")


# The intranet.


def test_a_new_account_has_the_password_of_the_goal():
    made = assignment("cms/new-user", groups={"Editors": 1, "Moderators": 2})
    (account,) = expected(made, "auth_user")
    password = made.goal.partition("the password ")[2].split()[0]
    stored, wrong = (
        f"md5$salt${hashlib.md5(f'salt{text}'.encode()).hexdigest()}" for text in (password, "x")
    )
    assert fits(account, password=stored)
    assert not fits(account, password=wrong)


PAGE = {
    "id": 7,
    "title": "Prizes",
    "slug": "prizes",
    "fields": {"summary": "Old.", "body": "<p>One.</p><p>Two.</p>", "seats": "20"},
}
DRAFT = {"title": "Prizes", "slug": "prizes", "seo_title": "", "search_description": ""}
DRAFT |= {"show_in_menus": False, "go_live_at": None, "expire_at": None}
DRAFT |= {"summary": "New.", "body": "<p>One.</p>\n<p>Two.</p>", "seats": 20}


@pytest.mark.parametrize(
    ("drafts", "right"),
    [
        ([{}], True),
        ([{"summary": "Nwe."}, {}], True),
        ([{}, {"summary": "Something else."}], False),
        ([{"title": "Prices"}], False),
        ([{"seats": 30}], False),
        ([{"body": "<p>One.</p>"}], False),
        ([{"show_in_menus": True}], False),
        ([{"go_live_at": "2026-04-01T10:00:00Z"}], False),
    ],
)
def test_the_newest_draft_has_the_new_text_and_is_else_as_the_page(drafts, right, tmp_path):
    page = {"id": 7, "has_unpublished_changes": 0, "latest_revision_id": 1}
    old = {"id": 1, "object_id": "7", "content": json.dumps({**DRAFT, "summary": "Old."})}
    added = [
        {"id": number, "object_id": "7", "content": json.dumps(DRAFT | other)}
        for number, other in enumerate(drafts, 2)
    ]
    now = {"id": 7, "has_unpublished_changes": 1, "latest_revision_id": added[-1]["id"]}
    before = world(tmp_path, "cms", wagtailcore_page=[page], wagtailcore_revision=[old])
    after = world(tmp_path, "cms", wagtailcore_page=[now], wagtailcore_revision=[old, *added])
    found = state.changes(before, after, columns=app_lib.find_app("cms").columns)
    wanted = cms._draft(PAGE, summary="New.")
    assert bool(state.differences(found, wanted)) is not right
