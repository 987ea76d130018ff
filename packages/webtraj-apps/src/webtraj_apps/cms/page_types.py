# mypy: ignore-errors
"""The page types, snippets and settings of Northfield's intranet."""
# ruff: noqa: D106, RUF012  Django reads these lists and inner classes.

from company import COMPANY
from django.db import models
from wagtail.admin.panels import FieldPanel
from wagtail.contrib.settings.models import BaseSiteSetting, register_setting
from wagtail.fields import RichTextField
from wagtail.models import Page
from wagtail.snippets.models import register_snippet

_FEATURES = ["bold", "italic", "link", "ul"]
_CATEGORIES = [(name.lower(), name) for name in ("Company", "People", "Products", "Sites")]
_DEPARTMENTS = [(one["name"].lower(), one["name"]) for one in COMPANY.departments]
_LEVELS = [(name.lower(), name) for name in ("Information", "Warning", "Disruption")]


def _panels(*names: str) -> list[FieldPanel]:
    return [*Page.content_panels, *map(FieldPanel, names)]


class _Page(Page):
    """A page of ours."""

    class Meta:
        abstract = True
        app_label = "northfield"


class HomePage(_Page):
    """The first page of the intranet."""

    intro = models.TextField(blank=True)
    content_panels = _panels("intro")
    template = "northfield/home.html"


class SectionPage(_Page):
    """A page that lists others."""

    intro = models.TextField(blank=True)
    content_panels = _panels("intro")
    template = "northfield/section.html"


@register_snippet
class Author(models.Model):
    """A colleague who writes."""

    name = models.CharField(max_length=80)
    role = models.CharField(max_length=80)
    email = models.EmailField()
    panels = [FieldPanel("name"), FieldPanel("role"), FieldPanel("email")]

    class Meta:
        app_label = "northfield"
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name


@register_snippet
class Notice(models.Model):
    """A notice at the top of all pages."""

    text = models.CharField(max_length=200)
    level = models.CharField(max_length=20, choices=_LEVELS, default="information")
    is_shown = models.BooleanField("Shown", default=True)
    panels = [FieldPanel("text"), FieldPanel("level"), FieldPanel("is_shown")]

    class Meta:
        app_label = "northfield"
        ordering = ["text"]

    def __str__(self) -> str:
        return self.text


@register_snippet
class Term(models.Model):
    """An entry of the glossary."""

    word = models.CharField(max_length=60)
    meaning = models.TextField()
    panels = [FieldPanel("word"), FieldPanel("meaning")]

    class Meta:
        app_label = "northfield"
        ordering = ["word"]
        verbose_name = "glossary term"

    def __str__(self) -> str:
        return self.word


class ArticlePage(_Page):
    """A piece of news."""

    date = models.DateField()
    category = models.CharField(max_length=20, choices=_CATEGORIES)
    author = models.ForeignKey(Author, null=True, blank=True, on_delete=models.SET_NULL)
    summary = models.TextField()
    body = RichTextField(blank=True, features=_FEATURES)
    content_panels = _panels("date", "category", "author", "summary", "body")
    template = "northfield/page.html"

    def rows(self) -> list[tuple[str, str]]:
        """Return what the page shows besides its texts."""
        return [
            ("Date", f"{self.date:%-d %B %Y}"),
            ("Category", self.get_category_display()),
            ("Author", self.author.name if self.author else "-"),
        ]


class EventPage(_Page):
    """Something that takes place."""

    date = models.DateField()
    place = models.CharField(max_length=80)
    seats = models.PositiveIntegerField()
    host = models.CharField("Organised by", max_length=80)
    summary = models.TextField()
    content_panels = _panels("date", "place", "seats", "host", "summary")
    template = "northfield/page.html"

    def rows(self) -> list[tuple[str, str]]:
        """Return what the page shows besides its texts."""
        return [
            ("Date", f"{self.date:%-d %B %Y}"),
            ("Place", self.place),
            ("Seats", str(self.seats)),
            ("Organised by", self.host),
        ]


class PolicyPage(_Page):
    """A rule of the company."""

    keeper = models.CharField("Looked after by", max_length=80)
    version = models.CharField(max_length=10)
    review_date = models.DateField()
    summary = models.TextField()
    body = RichTextField(blank=True, features=_FEATURES)
    content_panels = _panels("keeper", "version", "review_date", "summary", "body")
    template = "northfield/page.html"

    def rows(self) -> list[tuple[str, str]]:
        """Return what the page shows besides its texts."""
        return [
            ("Looked after by", self.keeper),
            ("Version", self.version),
            ("To be reviewed", f"{self.review_date:%-d %B %Y}"),
        ]


class JobPage(_Page):
    """A vacancy."""

    department = models.CharField(max_length=20, choices=_DEPARTMENTS)
    place = models.CharField(max_length=80)
    hours = models.PositiveIntegerField("Hours a week")
    closing_date = models.DateField()
    contact = models.EmailField()
    summary = models.TextField()
    content_panels = _panels("department", "place", "hours", "closing_date", "contact", "summary")
    template = "northfield/page.html"

    def rows(self) -> list[tuple[str, str]]:
        """Return what the page shows besides its texts."""
        return [
            ("Department", self.get_department_display()),
            ("Place", self.place),
            ("Hours a week", str(self.hours)),
            ("Apply until", f"{self.closing_date:%-d %B %Y}"),
            ("Contact", self.contact),
        ]


@register_setting(icon="mail")
class ContactDetails(BaseSiteSetting):
    """What the foot of every page says."""

    phone = models.CharField(max_length=40, blank=True)
    email = models.EmailField(blank=True)
    address = models.CharField(max_length=120, blank=True)
    hours = models.CharField("Opening hours", max_length=80, blank=True)

    class Meta:
        app_label = "northfield"
        verbose_name = "contact details"
