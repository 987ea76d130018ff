# mypy: ignore-errors
"""The shared budgets: I hate money on Flask, in worlds of one SQLite file each.

Runs in the application's own virtual environment, without webtraj. See `serve.py` for the contract.
"""

import hashlib
import os
import random
import sqlite3
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any

import content
import email_validator
import ihatemoney.run
import serve
from flask import Flask, Response, g, request
from people import DOMAIN, people
from sqlalchemy.pool import NullPool
from sqlalchemy_continuum import Operation

_DATABASE = "db.sqlite3"
# Mail addresses end with `.test`, and nobody asks a name server for them.
email_validator.TEST_ENVIRONMENT = True
email_validator.CHECK_DELIVERABILITY = False


class _Entered:
    """The folder of the world that the current request belongs to."""

    state = Path(os.devnull)


def enter(state: Path) -> None:
    """Answer the following request in this world."""
    _Entered.state = state


def _connect() -> sqlite3.Connection:
    connection = sqlite3.connect(_Entered.state / _DATABASE, check_same_thread=False)
    connection.executescript("PRAGMA synchronous=OFF; PRAGMA journal_mode=MEMORY;")
    return connection


class _Settings:
    """Settings of the application."""

    ACTIVATE_DEMO_PROJECT = False
    BABEL_DEFAULT_TIMEZONE = "UTC"
    MAIL_DEFAULT_SENDER = f"Budget <budget@{DOMAIN}>"
    MAIL_SUPPRESS_SEND = True
    PASSWORD_HASH_METHOD = "pbkdf2:sha256:1000"
    RATELIMIT_ENABLED = False
    SECRET_KEY = "of a world without secrets"
    SEND_FILE_MAX_AGE_DEFAULT = 31536000
    SESSION_COOKIE_SECURE = False
    SITE_NAME = "Northfield Budgets"
    SQLALCHEMY_DATABASE_URI = f"sqlite:///{os.devnull}"  # Opened by `creator` instead.
    SQLALCHEMY_ENGINE_OPTIONS = {"creator": _connect, "poolclass": NullPool}  # noqa: RUF012
    SUPPORTED_LANGUAGES = ["en"]  # noqa: RUF012


def _open(settings: type[_Settings] = _Settings) -> Flask:
    # Without an instance folder; the default is one in /etc.
    return ihatemoney.run.create_app(settings, instance_path=os.devnull)


def open_application(root: Path) -> Any:
    """Return the WSGI application."""
    # The worlds have their tables already, and there may be no world yet.
    ihatemoney.run.setup_database = ihatemoney.run.db.init_app
    app = _open()
    # The participants' buttons are visible always, and not only below a mouse.
    style = Path(app.static_folder or "", "css/main.css").read_bytes() + (
        b".balance.table .action, .extra-info { visibility: visible }"
    )

    @app.before_request
    def serve_style() -> Response | None:
        if request.path != "/static/css/main.css":
            return None
        response = Response(style, mimetype="text/css")
        response.cache_control.public = True
        response.cache_control.max_age = _Settings.SEND_FILE_MAX_AGE_DEFAULT
        return response

    return app


def build(state: Path, seed: int) -> dict[str, Any]:
    """Write the budgets of a seed, and return what tasks may mention."""
    enter(state)

    class Settings(_Settings):
        """The migrations, which make the tables, go by the address alone."""

        SQLALCHEMY_DATABASE_URI = f"sqlite:///{(state / _DATABASE).absolute()}"

    app = _open(Settings)
    persons = people(seed)
    made = content.projects(seed, [person.first for person in persons])
    with app.app_context():
        departures: list[date] = []
        written = [_write(project, persons[0].email, departures) for project in made]
    _finish(state, seed, departures)
    by_user = {
        person.username: {
            project.id: project.name
            for project in made
            if project.joined and person.first in {member.name for member in project.members}
        }
        for person in persons
    }
    return {
        "user": persons[0].username,
        "name": persons[0].first,
        "projects": written,
        "people": [person.first for person in persons],
        "cookies": {name: _cookies(app, known) for name, known in by_user.items() if known},
    }


def _cookies(app: Flask, known: dict[str, str]) -> dict[str, str]:
    """Return the session of a browser that knows the codes of some projects."""
    serializer = app.session_interface.get_signing_serializer(app)
    assert serializer is not None
    session = {"_permanent": True, "lang": "en", "projects": known}
    return {app.config["SESSION_COOKIE_NAME"]: serializer.dumps(session)}


def _hash(code: str) -> str:
    """Return what is stored for a code, the same each time."""
    digest = hashlib.pbkdf2_hmac("sha256", code.encode(), b"northfield", 1000).hex()
    return f"pbkdf2:sha256:1000$northfield${digest}"


def _write(made: content.Project, email: str, departures: list[date]) -> dict[str, Any]:
    """Write a project and return its facts. Append the days on which members leave."""
    from ihatemoney.models import Bill, Person, Project, db

    project = Project(
        id=made.id,
        name=made.name,
        password=_hash(made.code),
        contact_email=email,
        default_currency="XXX",
    )
    db.session.add(project)
    db.session.commit()
    persons = {}
    for member in made.members:
        person = Person(name=member.name, project=project, weight=member.weight, activated=True)
        db.session.add(person)
        db.session.commit()
        persons[member.name] = person
    bills = []
    leavers = {member.left: persons[member.name] for member in made.members if member.left}

    def deactivate(until: date) -> None:
        for left in sorted(left for left in leavers if left <= until):
            leavers.pop(left).activated = False
            db.session.commit()
            departures.append(left)

    for one in made.bills:
        deactivate(one.day)
        bill = Bill(
            amount=one.amount,
            date=one.day,
            original_currency="XXX",
            owers=[persons[name] for name in one.owers],
            payer_id=persons[one.payer].id,
            project_default_currency="XXX",
            what=one.what,
            bill_type="Reimbursement" if one.reimbursement else "Expense",
        )
        bill.creation_date = one.day
        db.session.add(bill)
        db.session.commit()
        bills.append(bill)
    deactivate(date.max)
    g.project = project
    balances, spent, paid, _, _ = project.full_balance
    facts = {
        "id": made.id,
        "name": made.name,
        "code": made.code,
        "email": email,
        "joined": made.joined,
        "members": [
            {
                "id": person.id,
                "name": person.name,
                "weight": person.weight,
                "activated": person.activated,
                "bills": bool(person.has_bills()),
                "balance": round(balances[person.id], 2),
                "paid": round(paid[person.id], 2),
                "spent": round(spent[person.id], 2),
            }
            for person in persons.values()
        ],
        "bills": [
            {
                "id": bill.id,
                "what": one.what,
                "amount": one.amount,
                "payer": one.payer,
                "owers": one.owers,
                "date": one.day.isoformat(),
                "reimbursement": one.reimbursement,
            }
            for bill, one in zip(bills, made.bills, strict=True)
        ],
        "settlements": [
            {
                "payer": one["ower"].name,
                "receiver": one["receiver"].name,
                "amount": round(one["amount"], 2),
            }
            for one in project.get_transactions_to_settle_bill()
        ],
    }
    del g.project
    return facts


def _finish(state: Path, seed: int, departures: list[date]) -> None:
    """Date the history back, and make the database small.

    Args:
        state: The world's folder.
        seed: The seed.
        departures: The days from which somebody is gone, in the order of their entries.
    """
    enter(state)
    connection = _connect()
    rows = connection.execute(
        "SELECT t.id, min(bill.date), min(bill.bill_type), max(person.operation_type) "
        'FROM "transaction" AS t '
        "LEFT JOIN bill_version AS bill ON bill.transaction_id = t.id "
        "LEFT JOIN person_version AS person ON person.transaction_id = t.id "
        "GROUP BY 1 ORDER BY 1 DESC"
    )
    rng = random.Random(f"history {seed}")
    moments, first, begun, settled = [], "2026-02-27", None, datetime.max
    for number, day, kind, operation in rows.fetchall():  # From the last entry to the first.
        if day:  # Bills are entered late in the evening, or some day after; repayments at once.
            first, begun = day, None
            repays = kind.upper() == "REIMBURSEMENT"
            at_once = repays or day >= "2026-02-24"
            days = 0 if at_once else rng.choices((0, 1, 2, 4), (8, 5, 2, 1))[0]
            minutes = rng.choice((450, 720, 1080, 1200) if days else (1230,)) + rng.randrange(130)
            seconds = 60 * minutes + rng.randrange(1, 60)
            when = datetime.fromisoformat(day) + timedelta(days, seconds)
            if when >= settled:  # Before somebody pays a debt back, or leaves.
                when = settled - timedelta(seconds=rng.randrange(60, 40 * 60))
            if repays:
                settled = when
        elif operation == Operation.UPDATE:  # Somebody left, late on the evening before.
            left = datetime.combine(departures.pop(), datetime.min.time())
            when = settled = left - timedelta(seconds=rng.randrange(20 * 60, 75 * 60))
        else:  # Backwards: on the evening before, the participants, and before them the project.
            settled = datetime.max
            begun = begun or datetime.fromisoformat(first) - timedelta(
                minutes=rng.randrange(110, 390)
            )
            when = begun = begun - timedelta(seconds=rng.randint(5, 40))
        moments.append((f"{when:%Y-%m-%d %H:%M:%S}.000000", number))
    connection.executemany('UPDATE "transaction" SET issued_at = ? WHERE id = ?', moments)
    connection.commit()
    connection.close()
    serve.compact(state / _DATABASE)
