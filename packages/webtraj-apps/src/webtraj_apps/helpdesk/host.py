# mypy: ignore-errors
"""The help desk's part that runs in its own environment: its settings, and the content of a world.

django-helpdesk (BSD licence). A world is one SQLite file; uploads lie beside it.
"""

import random
import sys
import tomllib
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import django_worlds
import people

# The folder of all applications has one of the name of the package "helpdesk": leave the path.
_APPS = Path(__file__).resolve().parents[1]
sys.path[:] = [entry for entry in sys.path if Path(entry).resolve() != _APPS]

enter = django_worlds.enter
WORDS = SimpleNamespace(
    **tomllib.loads(Path(__file__).with_name("content.toml").read_text("utf-8"))
)
"""What `content.toml` holds."""
_ROOMS = tuple(f"{floor}.{room:02d}" for floor in range(1, 6) for room in range(1, 19))
_AGENTS = 8
"""The first people are agents, the very first with all rights; the others are colleagues."""
_TICKETS = 420
_NOW = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)
_OPEN, _REOPENED, _RESOLVED, _CLOSED, _DUPLICATE = 1, 2, 3, 4, 5
_SORTABLE = "https://unpkg.com/sortablejs-make/Sortable.min.js"
_JQUERY_SORTABLE = "https://cdn.jsdelivr.net/npm/jquery-sortablejs@latest/jquery-sortable.js"
_NO_RESOLUTION = '{% if "Resolved" == ticket.get_status_display %}'
_PACKAGES = Path(next(path for path in sys.path if (Path(path) / "helpdesk/models.py").exists()))


def _patched() -> dict[str, str]:
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
    TEMPLATES=django_worlds.templates(pages=_patched()),
)

from django.contrib import admin  # noqa: E402
from django.contrib.auth.models import User  # noqa: E402
from django.contrib.sites.models import Site  # noqa: E402
from django.urls import include, path  # noqa: E402
from helpdesk import models  # noqa: E402
from helpdesk.query import query_to_base64  # noqa: E402

# Links to a ticket stay on the address by which the site is visited.
models.build_base_url = lambda: ""

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
    staff = _people(seed)
    models.EmailTemplate.objects.all().delete()
    Site.objects.update(domain="helpdesk.test", name="Northfield Service Desk")
    _queues()
    answers = _knowledge(rng, list(staff.values()))
    tickets = _tickets(rng, list(staff.values()), answers)
    facts = {
        "answers": answers,
        "checklist_templates": _checklists(rng, tickets),
        "ignored": _ignored(rng),
        "people": [django_worlds.facts_of(user) for user in staff.values()],
        "presets": _presets(),
        "queues": [{"id": at, **queue} for at, queue in enumerate(WORDS.queues, start=1)],
        "searches": _searches(rng, list(staff.values())),
        "tickets": tickets,
        "user": next(iter(staff)),
    }
    facts["agents"] = facts["people"][:_AGENTS]
    facts["colleague"] = facts["people"][_AGENTS]["username"]
    shown = [
        user for user in staff.values() if user.username in (facts["user"], facts["colleague"])
    ]
    facts["cookies"] = django_worlds.cookies(shown)
    django_worlds.finish(state)
    return facts


def _people(seed: int) -> dict[str, User]:
    """Make the users; one of the later ones writes tickets and reads answers only."""
    users = {}
    for at, person in enumerate(people.people(seed)):
        users[person.username] = User.objects.create(
            **django_worlds.account(person),
            is_staff=at < _AGENTS,
            is_superuser=at == 0,
            date_joined=datetime(2025, 6, 2, 8, 0, tzinfo=UTC) + timedelta(days=at),
        )
    return users


def _queues() -> None:
    for queue in WORDS.queues:
        models.Queue.objects.create(
            title=queue["title"],
            slug=queue["slug"],
            email_address=f"{queue['slug']}@desk.northfield.test",
            allow_public_submission=queue["is_public"],
            escalate_days=queue["escalate_days"],
            enable_notifications_on_email_events=True,
        )


def _knowledge(rng: random.Random, users: list[User]) -> list[dict[str, Any]]:
    """Make the knowledge base, with votes of people other than the one at the browser."""
    facts = []
    for one in WORDS.categories:
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
            up = voters[: rng.randint(1, len(voters))]
            item = models.KBItem.objects.create(
                category=category,
                title=answer["title"],
                question=answer["question"],
                answer=answer["text"].format(value=value),
                order=order,
                votes=len(voters),
                recommendations=len(up),
                last_updated=_NOW - timedelta(days=rng.randint(20, 300)),
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


def _tickets(
    rng: random.Random, users: list[User], answers: list[dict[str, Any]]
) -> list[dict[str, Any]]:
    """Make tickets with follow-ups, dependencies and copies."""
    # Their dates are set below, not by the clock.
    for name in ("created", "modified"):
        field = models.Ticket._meta.get_field(name)
        field.auto_now = field.auto_now_add = False
    queues = {queue.slug: queue for queue in models.Queue.objects.all()}
    customers = [
        f"{person.first.lower()}.{person.last.lower()}@{rng.choice(WORDS.companies)}.example"
        for person in people.people(rng.randrange(10**6), 36)
    ]
    numbers = _Numbers(rng)
    moments = sorted(_NOW - timedelta(minutes=rng.randint(60, 150 * 1440)) for _ in range(_TICKETS))
    tickets, follow_ups, facts = [], [], []
    for at, created in enumerate(moments, start=1):
        slug = rng.choices(list(queues), weights=(6, 4, 3, 3, 6, 4, 4, 3))[0]
        title, description = numbers.scenario(slug)
        is_inside = slug not in ("ord", "ret", "web")
        email = rng.choice(customers)
        if is_inside:
            # Some come from the colleague whose cookies tasks may use. The page shows 25 at most.
            email = rng.choice(users[_AGENTS : _AGENTS + (1 if at % 16 == 0 else 32)]).email
        age = (_NOW - created).days
        ended = rng.random() < min(0.9, age / 75)
        status = rng.choices(
            (_RESOLVED, _CLOSED, _DUPLICATE) if ended else (_OPEN, _REOPENED),
            weights=(3, 14, 0) if ended else (9, 1),
        )[0]
        owner = None
        if ended or rng.random() < 0.72:
            owner = rng.choices(users[:_AGENTS], weights=(2, *[1] * (_AGENTS - 1)))[0]
        due = created.replace(hour=0, minute=0, second=0) + timedelta(days=rng.randint(3, 40))
        ticket = models.Ticket(
            id=at,
            title=title,
            queue=queues[slug],
            created=created,
            modified=created,
            submitter_email=email,
            assigned_to=owner,
            status=status,
            on_hold=not ended and rng.random() < 0.1,
            description=description,
            resolution=rng.choice(WORDS.resolutions[slug]) if ended else "",
            priority=rng.choices((1, 2, 3, 4, 5), weights=(1, 3, 8, 3, 1))[0],
            due_date=due if rng.random() < 0.6 else None,
            secret_key=f"{rng.getrandbits(64):016x}",
            kbitem_id=rng.choice(
                [answer["id"] for answer in answers if answer["slug"] == _CATEGORY[slug]]
            )
            if slug in _CATEGORY and rng.random() < 0.2
            else None,
        )
        made = _follow_ups(rng, ticket, users)
        ticket.modified = made[-1].date
        tickets.append(ticket)
        follow_ups += made
        facts.append(
            {
                "id": at,
                "title": title,
                "queue": slug,
                "email": email,
                "key": ticket.secret_key,
                "owner": owner.username if owner else "",
                "status": status,
                "hold": ticket.on_hold,
                "priority": ticket.priority,
                "created": created.isoformat(),
                "due": due.date().isoformat() if ticket.due_date else "",
                "resolution": ticket.resolution or "",
                "answer": ticket.kbitem_id,
                "minutes": sum(
                    int(made_.time_spent.total_seconds()) // 60
                    for made_ in made
                    if made_.time_spent
                ),
                "replies": [
                    {"by": made_.user.username, "public": made_.public, "text": made_.comment}
                    for made_ in made[1:]
                ],
                "depends": [],
                "copies": [],
                "lists": [],
            }
        )
    models.Ticket.objects.bulk_create(tickets)
    models.FollowUp.objects.bulk_create(follow_ups)
    _links(rng, facts, users)
    return facts


_CATEGORY = {
    "it": "devices",
    "fac": "building",
    "hr": "people",
    "ord": "delivery",
    "ret": "returns",
}


def _follow_ups(
    rng: random.Random, ticket: models.Ticket, users: list[User]
) -> list[models.FollowUp]:
    """Return what happened to a ticket: it was opened, talked about, and perhaps closed."""
    made = [
        models.FollowUp(
            ticket=ticket,
            date=ticket.created,
            title="Ticket Opened Via Web",
            comment=ticket.description,
            public=True,
        )
    ]
    moment = ticket.created
    ended = ticket.status in (_RESOLVED, _CLOSED)
    count = rng.choices((0, 1, 2, 3), weights=(4, 4, 2, 1))[0] + ended
    agent = ticket.assigned_to or rng.choice(users[1:_AGENTS])
    for at in range(count):
        moment += (_NOW - moment) * rng.uniform(0.05, 0.4)
        is_end = ended and at == count - 1
        is_public = is_end or rng.random() < 0.65
        words = WORDS.agent_replies if is_public else WORDS.agent_notes
        comment = rng.choice(words).format(
            city=rng.choice(WORDS.slots["city"]), n=rng.randint(12, 480)
        )
        made.append(
            models.FollowUp(
                ticket=ticket,
                date=moment.replace(microsecond=0),
                title=("Resolved" if ticket.status == _RESOLVED else "Closed")
                if is_end
                else "Comment",
                comment=ticket.resolution if is_end else comment,
                public=is_public,
                user=agent if is_end or rng.random() < 0.6 else rng.choice(users[1:_AGENTS]),
                new_status=ticket.status if is_end else None,
                time_spent=timedelta(minutes=rng.randint(1, 18) * 5)
                if rng.random() < 0.6
                else None,
            )
        )
    return made


def _links(rng: random.Random, facts: list[dict[str, Any]], users: list[User]) -> None:
    """Make dependencies between open tickets, and copies to agents and others."""
    waiting = [fact for fact in facts if fact["status"] in (_OPEN, _REOPENED)]
    chosen = rng.sample(waiting, 28)
    for fact, other in zip(chosen[:14], chosen[14:], strict=True):
        models.TicketDependency.objects.create(ticket_id=fact["id"], depends_on_id=other["id"])
        fact["depends"].append(other["id"])
    for fact in rng.sample(waiting, 30):
        user = rng.choice([user for user in users[1:_AGENTS] if user.username != fact["owner"]])
        models.TicketCC.objects.create(ticket_id=fact["id"], user=user, can_view=True)
        fact["copies"].append(user.username)


class _Numbers:
    """Hands out ticket texts whose numbers come only once."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        pool = {
            "device": ("NB-{}", range(1000, 9999)),
            "order": ("NF-{}", range(40000, 99999)),
            "invoice": ("R{}", range(20000, 79999)),
            "badge": ("{}", range(3000, 9999)),
        }
        self._pools = {
            slot: (text, rng.sample(values, _TICKETS)) for slot, (text, values) in pool.items()
        }

    def scenario(self, slug: str) -> tuple[str, str]:
        """Return the title and the description of a new ticket of a queue."""
        title, description = self._rng.choice(WORDS.scenarios[slug])
        slots = {"room": self._rng.choice(_ROOMS)}
        slots |= {slot: self._rng.choice(values) for slot, values in WORDS.slots.items()}
        slots |= {slot: text.format(values.pop()) for slot, (text, values) in self._pools.items()}
        return title.format(**slots), description.format(**slots)


def _checklists(rng: random.Random, tickets: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Make the templates of checklists, and lists on some open tickets."""
    facts = []
    for name, tasks in WORDS.checklists:
        made = models.ChecklistTemplate.objects.create(name=name, task_list=list(tasks))
        facts.append({"id": made.id, "name": name, "tasks": list(tasks)})
    for ticket in rng.sample([fact for fact in tickets if fact["status"] == _OPEN], 24):
        template = rng.choice(facts)
        made = models.Checklist.objects.create(ticket_id=ticket["id"], name=template["name"])
        done = rng.randint(0, len(template["tasks"]) - 1)
        tasks = []
        for position, text in enumerate(template["tasks"]):
            moment = _NOW - timedelta(hours=rng.randint(2, 40)) if position < done else None
            task = models.ChecklistTask.objects.create(
                checklist=made, description=text, position=position, completion_date=moment
            )
            tasks.append({"id": task.id, "text": text, "done": moment is not None})
        ticket["lists"].append({"id": made.id, "name": made.name, "tasks": tasks})
    return facts


def _ignored(rng: random.Random) -> list[dict[str, Any]]:
    facts = []
    for name, email in WORDS.ignored:
        made = models.IgnoreEmail.objects.create(
            name=name, email_address=email, keep_in_mailbox=rng.random() < 0.4
        )
        facts.append({"id": made.id, "name": name, "email": email, "keep": made.keep_in_mailbox})
    return facts


def _presets() -> list[dict[str, Any]]:
    facts = []
    for name, body, slugs in WORDS.presets:
        made = models.PreSetReply.objects.create(name=name, body=body)
        made.queues.set(models.Queue.objects.filter(slug__in=slugs))
        facts.append({"id": made.id, "name": name, "text": body, "queues": list(slugs)})
    return facts


def _searches(rng: random.Random, users: list[User]) -> list[dict[str, Any]]:
    """Make saved searches; the first two belong to the user at the browser."""
    facts = []
    for at, (title, chosen) in enumerate(WORDS.searches):
        owner = users[0] if at < 2 else rng.choice(users[1:_AGENTS])
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
