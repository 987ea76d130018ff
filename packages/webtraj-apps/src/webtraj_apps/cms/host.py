# mypy: ignore-errors
"""The intranet's part that runs in its own environment: its settings, and the content of a world.

Wagtail (BSD licence), with the pages of `page_types`. A world is one SQLite file.
"""

import random
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import company
import django_worlds
import people

enter = django_worlds.enter
_TEMPLATES = {
    f"northfield/{file.name}": file.read_text("utf-8")
    for file in Path(__file__).parent.glob("*.html")
}
_TODAY = company.COMPANY.today
_BEGUN = datetime(2025, 6, 2, 8, 0, tzinfo=UTC)
"""When the intranet was set up."""
_MODERATORS, _EDITORS = range(1, 5), range(5, 13)
"""Who may publish, and who may only write; the very first person may do all."""

django_worlds.configure(
    INSTALLED_APPS=[
        "northfield.NorthfieldConfig",
        "wagtail.contrib.redirects",
        "wagtail.contrib.settings",
        "wagtail.sites",
        "wagtail.users",
        "wagtail.snippets",
        "wagtail.documents",
        "wagtail.images",
        "wagtail.search",
        "wagtail.admin",
        "wagtail",
        "modelcluster",
        "taggit",
        "django_filters",
        "django.contrib.auth",
        "django.contrib.contenttypes",
        "django.contrib.sessions",
        "django.contrib.messages",
        "django.contrib.staticfiles",
    ],
    MIDDLEWARE=[
        *django_worlds.MIDDLEWARE,
        "django.middleware.clickjacking.XFrameOptionsMiddleware",
        "wagtail.contrib.redirects.middleware.RedirectMiddleware",
    ],
    MIGRATION_MODULES={"northfield": "no_migrations"},
    ROOT_URLCONF=__name__,
    TEMPLATES=django_worlds.templates(f"{__name__}.around", pages=_TEMPLATES),
    WAGTAILADMIN_BASE_URL="http://cms.test",
    WAGTAILADMIN_COMMENTS_ENABLED=False,
    WAGTAIL_AUTOSAVE_INTERVAL=0,
    WAGTAIL_AUTO_UPDATE_PREVIEW_INTERVAL=0,
    WAGTAIL_EDITING_SESSION_PING_INTERVAL=2_000_000_000,
    WAGTAIL_ENABLE_UPDATE_CHECK=False,
    WAGTAIL_ENABLE_WHATS_NEW_BANNER=False,
    WAGTAIL_GRAVATAR_PROVIDER_URL=None,
    WAGTAIL_SITE_NAME="Northfield",
)

import page_types  # noqa: E402
from django.apps import apps  # noqa: E402
from django.contrib.auth.management import create_permissions  # noqa: E402
from django.contrib.auth.models import Group, User  # noqa: E402
from django.contrib.contenttypes.management import create_contenttypes  # noqa: E402
from django.db import connection  # noqa: E402
from django.http import HttpRequest, HttpResponse  # noqa: E402
from django.shortcuts import render  # noqa: E402
from django.urls import include, path  # noqa: E402
from django.utils.safestring import mark_safe  # noqa: E402
from wagtail import hooks  # noqa: E402
from wagtail import urls as page_urls  # noqa: E402
from wagtail.admin import urls as admin_urls  # noqa: E402
from wagtail.admin.views.pages import listing  # noqa: E402
from wagtail.contrib.redirects.models import Redirect  # noqa: E402
from wagtail.models import Page, PageLogEntry, Revision, Site  # noqa: E402

# A list of 50 pages takes half a second.
listing.IndexView.paginate_by = 20


def around(request: HttpRequest) -> dict[str, Any]:
    """Return what every page of the site shows."""
    return {
        "latest": page_types.ArticlePage.objects.live().order_by("-date", "-id")[:8],
        "notices": page_types.Notice.objects.filter(is_shown=True),
        "sections": Page.objects.live().in_menu(),
    }


def _glossary(request: HttpRequest) -> HttpResponse:
    return render(request, "northfield/glossary.html", {"terms": page_types.Term.objects.all()})


@hooks.register("insert_global_admin_css")
def _still() -> str:
    """Keep pages from moving, so that what is clicked is where it was seen."""
    rules = "animation:none!important;scroll-behavior:auto!important;transition:none!important"
    return mark_safe(f"<style>*{{{rules}}}</style>")


@hooks.register("insert_global_admin_js")
def _stop_watching() -> str:
    """Keep editors from looking for changes twice a second: their notice comes sooner or later."""
    return mark_safe("<script>wagtail.app.unload('w-unsaved')</script>")


urlpatterns = [
    path("admin/", include(admin_urls)),
    path("glossary/", _glossary),
    path("", include(page_urls)),
]


def open_application(root: Path) -> Any:
    """Return the WSGI application of all worlds."""
    return django_worlds.application()


def build(state: Path, seed: int) -> dict[str, Any]:
    """Make a world in an empty folder, and return its facts."""
    django_worlds.create(state)
    _create_tables()
    rng = random.Random(f"cms {seed}")
    users = _people(seed)
    site = _Site(rng, users, seed)
    pages = site.pages()
    facts = {
        "authors": site.authors,
        "contact": site.contact(),
        "editor": users[_EDITORS[0]].username,
        "glossary": _make(page_types.Term, ("word", "meaning"), site.words.terms),
        "notices": site.notices(),
        "pages": pages,
        "groups": {group.name: group.pk for group in Group.objects.all()},
        "people": [
            {**django_worlds.facts_of(user), "group": _group(at)} for at, user in enumerate(users)
        ],
        "redirects": site.redirects(),
        "user": users[0].username,
    }
    facts["cookies"] = django_worlds.cookies([users[0], users[_EDITORS[0]]])
    django_worlds.finish(state)
    return facts


def _create_tables() -> None:
    """Make the tables of Northfield's page types."""
    northfield = apps.get_app_config("northfield")
    with connection.schema_editor() as editor:
        for model in northfield.get_models():
            editor.create_model(model)
    create_contenttypes(northfield, verbosity=0)
    create_permissions(northfield, verbosity=0)


def _group(at: int) -> str:
    return "Moderators" if at in _MODERATORS else "Editors" if at in _EDITORS else ""


def _people(seed: int) -> list[User]:
    users = []
    for at, person in enumerate(people.people(seed, 24)):
        user = User.objects.create(
            **django_worlds.account(person),
            is_superuser=at == 0,
            date_joined=_BEGUN + timedelta(minutes=3 * at),
        )
        if _group(at):
            user.groups.add(Group.objects.get(name=_group(at)))
        users.append(user)
    return users


def _make(kind: Any, names: tuple[str, ...], rows: Any) -> list[dict[str, Any]]:
    """Make snippets, and return their facts."""
    facts = []
    for row in rows:
        values = dict(zip(names, row, strict=True))
        facts.append({"id": kind.objects.create(**values).pk, **values})
    return facts


def _paragraphs(texts: list[str]) -> str:
    return "".join(f"<p>{text}</p>" for text in texts)


class _Site:
    """The pages, and what belongs to them."""

    def __init__(self, rng: random.Random, users: list[User], seed: int) -> None:
        self.words = company.words(Path(__file__).parent, seed, "content.toml")
        self._rng = rng
        self._users = users
        self._moments: dict[int, datetime] = {}
        self._facts: list[dict[str, Any]] = []
        self._additions = iter(rng.sample(self.words.additions, len(self.words.additions)))
        self._names = {f"n{at}": person.name for at, person in enumerate(people.people(seed))} | {
            f"f{at}": person.first for at, person in enumerate(people.people(seed))
        }
        titles = [position.title for position in company.positions()]
        rows = [
            (u.get_full_name(), title, u.email)
            for u, title in zip(users[1:13], titles[1:13], strict=True)
        ]
        self.authors = _make(page_types.Author, ("name", "role", "email"), rows)

    def pages(self) -> list[dict[str, Any]]:
        """Make the tree of pages."""
        root = Page.objects.get(depth=1)
        Page.objects.get(depth=2).delete()
        root.refresh_from_db()
        home = page_types.HomePage(
            title="Northfield", slug="home", intro="News and rules for everyone at Northfield."
        )
        root.add_child(instance=home)
        Site.objects.create(
            hostname="cms.test",
            port=80,
            site_name="Northfield",
            root_page=home,
            is_default_site=True,
        )
        self._record(home, "", _BEGUN + timedelta(hours=1))
        makers = {
            "news": (self._article, self.words.articles),
            "events": (self._event, self.words.events),
            "policies": (self._policy, self.words.policies),
            "jobs": (self._job, self.words.jobs),
            "archive": (self._event, self.words.archive),
        }
        for at, (title, slug, intro) in enumerate(self.words.sections):
            section = page_types.SectionPage(
                title=title, slug=slug, intro=intro, show_in_menus=slug != "archive"
            )
            home.add_child(instance=section)
            self._record(section, "", _BEGUN + timedelta(hours=1, minutes=7 * at + 4))
            make, rows = makers[slug]
            kind = {"news": "articles"}.get(slug, slug)
            chosen = self._rng.sample(rows, self.words.counts.get(kind, len(rows)))
            made = [make({key: self._fill(value) for key, value in row.items()}) for row in chosen]
            for moment, page in sorted(made, key=lambda one: one[0]):
                self._add(section, slug, page, moment)
        for page, moment in self._moments.items():
            Page.objects.filter(id=page).update(
                first_published_at=moment,
                last_published_at=moment,
                latest_revision_created_at=moment,
            )
            Revision.objects.filter(object_id=str(page)).update(created_at=moment)
            PageLogEntry.objects.filter(page=page).update(timestamp=moment)
        Page.objects.filter(live=False).update(first_published_at=None, last_published_at=None)
        for fact in self._facts:
            page = Page.objects.get(id=fact["id"])
            fact |= {"path": page.path, "children": page.numchild}
        return self._facts

    def _add(self, section: Any, slug: str, page: Any, moment: datetime) -> None:
        """Add a page below a section; one in seven is a draft, one in nine has a newer draft."""
        owner = self._rng.choice(self._users[1:13])
        chance = self._rng.random()
        page.owner = owner
        page.live = chance > 0.14
        page.show_in_menus = False
        section.add_child(instance=page)
        revision = page.save_revision(user=owner)
        if page.live:
            revision.publish(user=owner, skip_permission_checks=True)
        draft = ""
        if page.live and chance > 0.89:
            page = page.get_latest_revision_as_object()
            draft = page.summary = f"{page.summary} {next(self._additions)}"
            page.save_revision(user=owner)
        self._record(page, slug, moment)
        fact = self._facts[-1]
        fact |= {"owner": owner.username, "draft": draft, "locked": False}
        if fact["live"] and not draft and self._rng.random() < 0.06:
            Page.objects.filter(id=page.id).update(
                locked=True, locked_at=self._moments[page.id], locked_by=self._users[1]
            )
            fact["locked"] = True

    def _record(self, page: Any, section: str, moment: datetime) -> None:
        """Note when a page was last changed, and its facts."""
        self._moments[page.id] = moment
        page = Page.objects.get(id=page.id).specific
        fields = {
            field.name: str(getattr(page, field.attname) or "")
            for field in page._meta.local_fields
            if field.name != "page_ptr"
        }
        self._facts.append(
            {
                "id": page.id,
                "title": page.title,
                "slug": page.slug,
                "section": section,
                "live": page.live,
                "url": page.url if page.live else "",
                "fields": fields,
            }
        )

    def _fill(self, value: Any) -> Any:
        """Return a value with its slots filled."""
        if isinstance(value, list):
            return [self._fill(one) for one in value]
        return value.format(**self._names) if isinstance(value, str) else value

    def _moment(self, first: int, last: int, before: date = _TODAY) -> datetime:
        """Return when something was published, so many days before a day and before today."""
        last_day = min(before - timedelta(last), _TODAY - timedelta(3))
        return company.moment(
            self._rng, min(before - timedelta(first), last_day - timedelta(9)), last_day
        )

    def _seats(self, row: dict[str, Any]) -> int:
        """Return how many seats an event has: a number that somebody would choose."""
        low, high = row["seats"]
        free = range(low, high + 1)
        usual = [n for n in free if n % 10 == 0 or (n < 40 and n % 2 == 0) or n < 10]
        return int(self._rng.choice(usual or free))

    def _article(self, row: dict[str, Any]) -> tuple[datetime, Any]:
        return company.moment(self._rng, row["date"], row["date"]), page_types.ArticlePage(
            title=row["title"],
            date=row["date"],
            category=row["category"],
            author_id=self.authors[row["author"] - 1]["id"],
            summary=row["summary"],
            body=_paragraphs(row["body"]),
        )

    def _event(self, row: dict[str, Any]) -> tuple[datetime, Any]:
        return self._moment(60, 14, row["date"]), page_types.EventPage(
            title=row["title"],
            date=row["date"],
            place=row["place"],
            seats=self._seats(row),
            host=row["host"],
            summary=row["summary"],
        )

    def _policy(self, row: dict[str, Any]) -> tuple[datetime, Any]:
        return self._moment(260, 6), page_types.PolicyPage(
            title=row["title"],
            keeper=self._users[row["keeper"]].get_full_name(),
            version=f"{self._rng.randint(1, 4)}.{self._rng.randint(0, 9)}",
            review_date=_TODAY + timedelta(days=self._rng.randint(-60, 300)),
            summary=row["summary"],
            body=_paragraphs(row["body"]),
        )

    def _job(self, row: dict[str, Any]) -> tuple[datetime, Any]:
        moment = self._moment(54, 4)
        town = company.site(row["site"])["town"]
        leads = {one["name"].lower(): one["lead"] for one in company.COMPANY.departments}
        lead = leads[row["department"]]
        contact = self._users[lead if lead in (*_MODERATORS, *_EDITORS) else leads["people"]]
        return moment, page_types.JobPage(
            title=f"{row['title']} ({town})",
            department=row["department"],
            place=town,
            hours=row.get("hours", self._rng.choice((37, 37, 37, 32))),
            closing_date=moment.date() + timedelta(days=self._rng.randint(26, 46)),
            contact=contact.email,
            summary=row["summary"],
        )

    def contact(self) -> dict[str, Any]:
        """Make the contact details, below every page."""
        office = company.site("dundee")
        details = {
            "phone": office["phone"],
            "email": f"reception@{people.DOMAIN}",
            "address": office["address"],
            "hours": company.COMPANY.hours["reception"],
        }
        page_types.ContactDetails.objects.create(site=Site.objects.get(), **details)
        return details

    def notices(self) -> list[dict[str, Any]]:
        """Make notices, of which some are shown."""
        shown = self._rng.sample(range(len(self.words.notices)), 2)
        rows = [(*row, at in shown) for at, row in enumerate(self.words.notices)]
        return _make(page_types.Notice, ("text", "level", "is_shown"), rows)

    def redirects(self) -> list[dict[str, Any]]:
        """Make redirects to pages."""
        live = [fact for fact in self._facts if fact["live"] and fact["section"]]
        facts = []
        for page in self._rng.sample(live, 12):
            old = f"/{self._rng.choice(('old', 'go', 'intern'))}/{page['slug'][:20].strip('-')}"
            made = Redirect.objects.create(
                old_path=Redirect.normalise_path(old), redirect_page_id=page["id"]
            )
            facts.append({"id": made.id, "old": made.old_path, "page": page["id"]})
        return facts
