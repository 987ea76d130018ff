# mypy: ignore-errors
"""The help desk's part that runs in its own environment: its settings, and the content of a world.

django-helpdesk (BSD licence). A world is one SQLite file; uploads lie beside it.
"""

import random
import sys
from datetime import UTC, datetime, time, timedelta
from pathlib import Path
from typing import Any

import content
import django_worlds
import people
from company import NOW, positions

# The folder of all applications has one of the name of the package "helpdesk": leave the path.
_APPS = Path(__file__).resolve().parents[1]
sys.path[:] = [entry for entry in sys.path if Path(entry).resolve() != _APPS]

enter = django_worlds.enter
_SORTABLE = "https://unpkg.com/sortablejs-make/Sortable.min.js"
_JQUERY_SORTABLE = "https://cdn.jsdelivr.net/npm/jquery-sortablejs@latest/jquery-sortable.js"
_NO_RESOLUTION = '{% if "Resolved" == ticket.get_status_display %}'
_PACKAGES = Path(next(path for path in sys.path if (Path(path) / "helpdesk/models.py").exists()))


def _patch_templates() -> dict[str, str]:
    """Return the templates that load scripts from elsewhere; jQuery UI can sort rows as well.

    A link of an agent's page is left out too, which overwrites the resolution and closes nothing.
    """
    page = (_PACKAGES / "helpdesk/templates/helpdesk/ticket_desc_table.html").read_text("utf-8")
    patched = {"helpdesk/ticket_desc_table.html": page.replace(_NO_RESOLUTION, "{% if False %}")}
    for name in ("helpdesk/checklist_form.html", "helpdesk/checklist_templates.html"):
        text = (_PACKAGES / "helpdesk/templates" / name).read_text("utf-8")
        for address in (_SORTABLE, _JQUERY_SORTABLE):
            text = text.replace(f'<script src="{address}"></script>', "")
        # A field of the form that the page's script fills in, and the page lacks.
        text = text.replace("{% csrf_token %}", "{% csrf_token %}{{ form.task_list }}")
        patched[name] = text.replace("onChange:", "update:")
    return patched


django_worlds.configure(
    HELPDESK_STAFF_ONLY_TICKET_CC=True,
    HELPDESK_STAFF_ONLY_TICKET_OWNERS=True,
    HELPDESK_SHOW_DELETE_BUTTON_SUPERUSER_FOLLOW_UP=True,
    HELPDESK_TEAMS_MODE_ENABLED=False,
    HELPDESK_VIEW_A_TICKET_PUBLIC=True,
    INSTALLED_APPS=[
        "django.contrib.admin",
        "django.contrib.auth",
        "django.contrib.contenttypes",
        "django.contrib.humanize",
        "django.contrib.messages",
        "django.contrib.sessions",
        "django.contrib.sites",
        "django.contrib.staticfiles",
        "rest_framework",
        "helpdesk",
    ],
    LOGIN_REDIRECT_URL="/",
    LOGIN_URL="/login/",
    MIDDLEWARE=[
        *django_worlds.MIDDLEWARE,
        "django.middleware.clickjacking.XFrameOptionsMiddleware",
    ],
    ROOT_URLCONF=__name__,
    SITE_ID=1,
    TEMPLATES=django_worlds.templates(pages=_patch_templates()),
)

from django.contrib import admin  # noqa: E402
from django.contrib.auth.models import User  # noqa: E402
from django.contrib.sites.models import Site  # noqa: E402
from django.db.models import Sum  # noqa: E402
from django.urls import include, path  # noqa: E402
from helpdesk import models  # noqa: E402
from helpdesk.query import query_to_base64  # noqa: E402

# Links to a ticket stay on the address by which the site is visited.
models.build_base_url = lambda: ""


def _can_be_resolved(ticket: models.Ticket) -> bool:
    """Return whether a ticket depends on no open one; asks for all tickets at once."""
    waits_for_open = models.TicketDependency.objects.filter(
        depends_on__status__in=models.Ticket.OPEN_STATUSES
    )
    return ticket.pk not in django_worlds.remember(
        "tickets that wait", lambda: set(waits_for_open.values_list("ticket_id", flat=True))
    )


def _time_spent(ticket: models.Ticket) -> timedelta | None:
    """Return the time spent on a ticket; asks for all tickets at once."""
    spent = models.FollowUp.objects.order_by().values_list("ticket_id").annotate(Sum("time_spent"))
    return django_worlds.remember("time spent", lambda: dict(spent)).get(ticket.pk)


models.Ticket.can_be_resolved = property(_can_be_resolved)
models.Ticket.time_spent = property(_time_spent)

urlpatterns = [path("admin/", admin.site.urls), path("", include("helpdesk.urls"))]

_STILL = b"""
* {
    animation: none !important;
    scroll-behavior: auto !important;
    transition: none !important;
}
"""
"""Nothing on a page moves, so that what is clicked is where it was seen."""


def open_application(root: Path) -> Any:
    """Return the WSGI application of all worlds."""

    def draw(address: str) -> tuple[str, bytes] | None:
        if address == "/static/helpdesk/js/relative_dates.js":
            return "text/javascript", Path(__file__).with_name("relative_dates.js").read_bytes()
        if address == "/static/helpdesk/css/helpdesk-extend.css":
            return "text/css", (_PACKAGES / "helpdesk" / address[1:]).read_bytes() + _STILL
        return None

    return django_worlds.application(draw)


def build(state: Path, seed: int) -> dict[str, Any]:
    """Make a world in an empty folder, and return its facts."""
    django_worlds.create(state)
    rng = random.Random(f"helpdesk {seed}")
    told = content.words(seed)
    users = _people(seed)
    models.EmailTemplate.objects.all().delete()
    Site.objects.update(domain="helpdesk.test", name="Northfield Service Desk")
    _queues(told)
    answers = _knowledge(rng, users, told)
    tickets = _tickets(rng, seed, users)
    agents = [users[number] for number in content.AGENTS]
    facts = {
        "agents": [django_worlds.facts_of(user) for user in agents],
        "answers": answers,
        "checklist_templates": _checklists(rng, tickets, told),
        "colleague": users[content.COLLEAGUE].username,
        "ignored": _make_ignored(rng, told),
        "people": [django_worlds.facts_of(user) for user in users],
        "presets": _presets(told),
        "queues": [{"id": at, **queue} for at, queue in enumerate(told.queues, start=1)],
        "searches": _searches(rng, agents, told),
        "tickets": tickets,
        "user": users[0].username,
    }
    facts["cookies"] = django_worlds.cookies([users[0], users[content.COLLEAGUE]])
    django_worlds.finish(state)
    return facts


def _people(seed: int) -> list[User]:
    return [
        User.objects.create(
            **django_worlds.account(person),
            is_staff=at in content.AGENTS,
            is_superuser=at == 0,
            date_joined=datetime.combine(position.joined, time(9), UTC),
        )
        for at, (person, position) in enumerate(zip(people.people(seed), positions(), strict=True))
    ]


def _queues(told: Any) -> None:
    for queue in told.queues:
        models.Queue.objects.create(
            title=queue["title"],
            slug=queue["slug"],
            email_address=f"{queue['slug']}@desk.northfield.test",
            allow_public_submission=queue["is_public"],
            escalate_days=queue["escalate_days"],
            enable_notifications_on_email_events=True,
        )


def _knowledge(rng: random.Random, users: list[User], told: Any) -> list[dict[str, Any]]:
    """Make the knowledge base, with votes of people other than the one at the browser."""
    facts = []
    for one in told.categories:
        category = models.KBCategory.objects.create(
            name=one["name"],
            title=one["title"],
            slug=one["slug"],
            description=one["about"],
            queue=models.Queue.objects.get(slug=one["queue"]),
        )
        for order, answer in enumerate(one["answers"]):
            value = rng.choice(answer["values"])
            voters = rng.sample(users[1:], rng.randint(2, 14))
            up = voters[: max(1, round(len(voters) * rng.uniform(0.55, 1)))]
            item = models.KBItem.objects.create(
                category=category,
                title=answer["title"],
                question=answer["question"],
                answer=answer["text"].format(value=value),
                order=order,
                votes=len(voters),
                recommendations=len(up),
                last_updated=NOW - timedelta(days=rng.randint(20, 300)),
            )
            item.voted_by.set(up)
            item.downvoted_by.set(voters[len(up) :])
            facts.append(
                {
                    "id": item.id,
                    "title": answer["title"],
                    "category": one["title"],
                    "slug": one["slug"],
                    "asks": answer["asks"],
                    "value": value,
                    "votes": len(voters),
                    "useful": len(up),
                    "voters": [user.username for user in voters],
                }
            )
    return facts


_DAYS = {1: (1, 3), 2: (2, 8), 3: (4, 16), 4: (8, 28), 5: (14, 40)}
"""Within how many days tickets of a priority are due."""


def _tickets(rng: random.Random, seed: int, users: list[User]) -> list[dict[str, Any]]:
    """Make tickets with follow-ups, dependencies and copies."""
    # Their dates are set below, not by the clock.
    for name in ("created", "modified"):
        field = models.Ticket._meta.get_field(name)
        field.auto_now = field.auto_now_add = False
    queues = {queue.slug: queue for queue in models.Queue.objects.all()}
    written = content.tickets(seed)
    tickets, follow_ups, facts = [], [], []
    for at, one in enumerate(written, start=1):
        owner = None if one["owner"] is None else users[one["owner"]]
        is_open = one["status"] == content.OPEN
        due = (one["created"] + timedelta(days=rng.randint(*_DAYS[one["priority"]]))).date()
        due = datetime.combine(
            due + timedelta(days=8 - due.isoweekday() if due.isoweekday() > 5 else 0), time(), UTC
        )
        ticket = models.Ticket(
            id=at,
            title=one["title"],
            queue=queues[one["queue"]],
            created=one["created"],
            modified=one["said"][-1]["date"] if one["said"] else one["created"],
            submitter_email=one["email"],
            assigned_to=owner,
            status=one["status"],
            on_hold=is_open and one["priority"] > 1 and rng.random() < 0.12,
            description=one["text"],
            resolution="" if is_open else one["end"],
            priority=one["priority"],
            due_date=due if rng.random() < 0.6 else None,
            secret_key=f"{rng.getrandbits(64):016x}",
        )
        tickets.append(ticket)
        follow_ups += _follow_ups(ticket, one, users)
        facts.append(
            {
                "id": at,
                "title": one["title"],
                "queue": one["queue"],
                "email": one["email"],
                "owner": owner.username if owner else "",
                "status": one["status"],
                "hold": ticket.on_hold,
                "priority": one["priority"],
                "created": one["created"].isoformat(),
                "due": due.date().isoformat() if ticket.due_date else "",
                "end": one["end"],
                "minutes": sum(turn["minutes"] for turn in one["said"]),
                "replies": [
                    {"public": turn["kind"] != "note", "text": turn["text"]} for turn in one["said"]
                ],
                "twin": next((n for n, t in enumerate(written, 1) if t["title"] == one["twin"]), 0),
                "depends": [n for n, t in enumerate(written, 1) if t["unit"] == one["needs"]],
                "copies": [],
                "list": one["list"],
                "lists": [],
            }
        )
    models.Ticket.objects.bulk_create(tickets)
    models.FollowUp.objects.bulk_create(follow_ups)
    for fact in facts:
        for other in fact["depends"]:
            models.TicketDependency.objects.create(ticket_id=fact["id"], depends_on_id=other)
    waiting = [fact for fact in facts if fact["status"] == content.OPEN and not fact["twin"]]
    for fact in rng.sample(waiting, 14):
        agents = [users[number] for number in content.AGENTS if number]
        user = rng.choice([user for user in agents if user.username != fact["owner"]])
        models.TicketCC.objects.create(ticket_id=fact["id"], user=user, can_view=True)
        fact["copies"].append(user.username)
    return facts


def _follow_ups(
    ticket: models.Ticket, written: dict[str, Any], users: list[User]
) -> list[models.FollowUp]:
    """Return what happened to a ticket: it was opened, talked about, and perhaps closed."""
    opened = models.FollowUp(
        ticket=ticket,
        date=ticket.created,
        title="Ticket Opened Via Web",
        comment=ticket.description,
        public=True,
    )
    return [
        opened,
        *(
            models.FollowUp(
                ticket=ticket,
                date=turn["date"],
                title={
                    "end": "Resolved" if ticket.status == content.RESOLVED else "Closed",
                    "sender": f"E-Mail Received from {ticket.submitter_email}",
                }.get(turn["kind"], "Comment"),
                comment=turn["text"],
                public=turn["kind"] != "note",
                user=None if turn["by"] is None else users[turn["by"]],
                new_status=ticket.status if turn["kind"] == "end" else None,
                time_spent=timedelta(minutes=turn["minutes"]) if turn["minutes"] else None,
            )
            for turn in written["said"]
        ),
    ]


def _checklists(
    rng: random.Random, tickets: list[dict[str, Any]], told: Any
) -> list[dict[str, Any]]:
    """Make the templates of checklists, and the lists of tickets."""
    facts = []
    for name, tasks in told.checklists:
        made = models.ChecklistTemplate.objects.create(name=name, task_list=list(tasks))
        facts.append({"id": made.id, "name": name, "tasks": list(tasks)})
    for ticket in [one for one in tickets if one["list"]]:
        template = next(one for one in facts if one["name"] == ticket["list"])
        made = models.Checklist.objects.create(ticket_id=ticket["id"], name=template["name"])
        texts, tasks = template["tasks"], []
        is_open = ticket["status"] == content.OPEN
        done = rng.randint(0, len(texts) - 1) if is_open else len(texts)
        begun = datetime.fromisoformat(ticket["created"])
        for position, text in enumerate(texts):
            moment = begun + (NOW - begun) * (position + 1) / 9 if position < done else None
            task = models.ChecklistTask.objects.create(
                checklist=made, description=text, position=position, completion_date=moment
            )
            tasks.append({"id": task.id, "text": text, "done": moment is not None})
        ticket["lists"].append({"id": made.id, "name": made.name, "tasks": tasks})
    return facts


def _make_ignored(rng: random.Random, told: Any) -> list[dict[str, Any]]:
    facts = []
    for name, email in told.ignored:
        made = models.IgnoreEmail.objects.create(
            name=name, email_address=email, keep_in_mailbox=rng.random() < 0.4
        )
        facts.append({"id": made.id, "name": name, "email": email, "keep": made.keep_in_mailbox})
    return facts


def _presets(told: Any) -> list[dict[str, Any]]:
    facts = []
    for name, body, slugs in told.presets:
        made = models.PreSetReply.objects.create(name=name, body=body)
        made.queues.set(models.Queue.objects.filter(slug__in=slugs))
        facts.append({"id": made.id, "name": name, "text": body, "queues": list(slugs)})
    return facts


def _searches(rng: random.Random, agents: list[User], told: Any) -> list[dict[str, Any]]:
    """Make saved searches; the first two belong to the user at the browser."""
    facts = []
    for at, (title, chosen) in enumerate(told.searches):
        owner = agents[0] if at < 2 else rng.choice(agents[1:])
        query = {
            "filtering": chosen,
            "filtering_null": {},
            "sorting": "created",
            "sortreverse": False,
            "search_string": "",
        }
        made = models.SavedSearch.objects.create(
            user=owner, title=title, shared=at > 0, query=query_to_base64(query)
        )
        facts.append(
            {"id": made.id, "title": title, "owner": owner.username, "shared": made.shared}
        )
    return facts
