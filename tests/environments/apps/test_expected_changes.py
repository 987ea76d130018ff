"""What templates expect, from a few facts and without their applications."""

import hashlib
import random
import sqlite3
from contextlib import closing

import pytest

from webtraj.environments.apps import app as app_lib
from webtraj.environments.apps import state
from webtraj.environments.apps.tasks import find_template


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


def test_a_page_has_the_text_of_the_goal_and_no_more():
    (page,) = expected(assignment("shop/office-page", staff="ann"), "django_flatpage")
    text = assignment("shop/office-page", staff="ann").goal.partition("text “")[2].rstrip("”")
    assert fits(page, content=text)
    assert fits(page, content=f"<p>{text}</p>")
    assert not fits(page, content=f"{text} And buy more!")


# The forum.


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


# The tracker.


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


DRAFT = {"title": "Prizes", "slug": "prizes", "seo_title": "", "search_description": ""}
DRAFT |= {"show_in_menus": False, "go_live_at": None, "expire_at": None}
DRAFT |= {"summary": "New.", "body": "<p>One.</p>\n<p>Two.</p>", "seats": 20}
