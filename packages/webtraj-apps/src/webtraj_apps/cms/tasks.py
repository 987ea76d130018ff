"""Tasks in the intranet, and their oracles."""

from __future__ import annotations

import functools
import random
import re
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from webtraj.environments import actions
from webtraj.environments.browser.oracles import (
    PATIENCE,
    OracleView,
    Step,
    check,
    click,
    fill,
    press,
    select,
    uncheck,
    wait_until,
)
from webtraj_apps.company import COMPANY
from webtraj_apps.fields import Field, columns_of, set_fields
from webtraj_apps.state import Expected
from webtraj_apps.tasks import (
    Assignment,
    Facts,
    Parts,
    Row,
    Steps,
    added,
    anything,
    assign,
    changed,
    changed_row,
    draw_day,
    draw_distinct,
    email_of,
    find,
    hash_of,
    in_changed,
    in_new,
    join_names,
    optional,
    other_than,
    removed,
    same_text,
    template,
)

START: Final = "/admin/"
task = functools.partial(template, user="user", start=START)

_TODAY: Final = "2026-03-02"
_TABLES: Final = {
    "": "northfield_sectionpage",
    "news": "northfield_articlepage",
    "events": "northfield_eventpage",
    "policies": "northfield_policypage",
    "jobs": "northfield_jobpage",
    "archive": "northfield_eventpage",
}
_REVISIONS: Final = tuple(
    kind("wagtailcore_revision", object_id=in_changed("wagtailcore_page", *_TABLES.values()))
    for kind in (added, removed)
)
"""Versions of the changed pages, added or removed."""
_CHANGED: Final = in_changed("wagtailcore_page")
_OLDER: Final = added("wagtailcore_revision", newest=False, object_id=_CHANGED)
"""Older versions of the changed pages: an agent may save twice."""
_REDIRECTS: Final = added("wagtailredirects_redirect", redirect_page_id=_CHANGED)
_UNPUBLISHED: Final = {"live": 0, "has_unpublished_changes": 1}
_SECTIONS: Final = ("news", "events", "policies", "jobs")
_WORKSHOPS: Final = tuple(one["name"] for one in COMPANY.workshops)
_CATEGORIES: Final = ("company", "people", "products", "sites")
_HOSTS: Final = ("Chess group", "Sailing group", "Singing group", "Hiking group")
_LEVELS: Final = ("information", "warning", "disruption")
_ROLES: Final = ("Editors", "Moderators")
_SUMMARIES: Final = (
    "Please read this again: it has changed.",
    "More details will follow next week.",
    "Only for colleagues in Leeds.",
    "Ask the reception if anything is unclear.",
    "Valid from April on.",
    "With thanks to all who have helped.",
)

_PLAIN: Final = (
    "closing_date", "contact", "date", "email", "first_name", "hours", "last_name", "name",
    "review_date", "role", "seats", "username", "version", "word",
)  # fmt: skip
_TEXTS: Final = ("host", "meaning", "phone", "place", "summary", "text")
_FIELDS: Final[Mapping[str, Field]] = {
    **{name: Field(fill, f"#id_{name}") for name in _PLAIN},
    **{name: Field(fill, f"#id_{name}", kept=same_text) for name in _TEXTS},
    **{name: Field(select, f"#id_{name}") for name in ("category", "department", "level")},
    "password": Field(fill, "#id_password1", kept=hash_of),
    "repeated": Field(fill, "#id_password2", "password", hash_of),
    "workplace": Field(fill, "#id_place", "place"),
}
"""The fields of all forms."""


# Facts.


def _section(facts: Facts, slug: str) -> Row:
    return find(facts["pages"], slug=slug, section="")


def live_pages(
    facts: Facts, *tests: Callable[[Any], Any], sections: Sequence[str] = _SECTIONS
) -> list[Row]:
    """Return live, unlocked pages of these sections that have no newer draft and pass all tests."""
    return [
        page
        for page in facts["pages"]
        if page["section"] in sections
        and page["live"]
        and not page["draft"]
        and not page["locked"]
        and all(test(page) for test in tests)
    ]


def _draw_page(facts: Facts, rng: random.Random, *sections: str) -> Row:
    """Draw a live page of these sections, by default of all."""
    return rng.choice(live_pages(facts, sections=sections or _SECTIONS))


def _draw_draft(facts: Facts, rng: random.Random) -> Row:
    """Draw a page that has never been public."""
    pages = [page for page in facts["pages"] if not page["live"] and page["section"] in _SECTIONS]
    return rng.choice(pages)


def _not_redirected(facts: Facts) -> Callable[[Any], bool]:
    targets = {one["page"] for one in facts["redirects"]}
    return lambda page: page["id"] not in targets


def _room(rng: random.Random) -> str:
    """Draw a room that no event uses yet."""
    return f"Dundee, room {rng.randint(1, 4)}.{rng.randint(1, 28):02}"


def _people(facts: Facts) -> list[Row]:
    """Return the users that no task logs in."""
    return list(facts["people"][13:])


def _names(pages: Iterable[Row]) -> str:
    return ", ".join(map(name_of, pages))


def name_of(page: Row) -> str:
    """Return the name of a page in goals."""
    return f'"{page["title"]}"'


# Expectations.


def _page(page: Row, **new: Any) -> Expected:
    return changed_row("wagtailcore_page", page, **new)


def _fields(page: Row, **new: Any) -> Expected:
    """Expect new values of a page. The HTML of its text may change, but not the words."""
    if "body" in page["fields"]:
        new.setdefault("body", _same_body(page["fields"]["body"]))
    return changed(_TABLES[page["section"]], {"page_ptr_id": page["id"]}, **new)


def _values(page: Row) -> dict[str, Any]:
    """Return the expected columns of a copy of a page, in the table of its section."""
    columns = {"author": "author_id"}
    tests = {"body": _same_body(page["fields"].get("body", ""))}
    return {
        columns.get(name, name): tests.get(name, lambda value, text=text: str(value) == text)
        for name, text in page["fields"].items()
    }


def _same_body(html: str) -> Callable[[Any], bool]:
    return lambda text: _plain(text) == _plain(html)


def _plain(html: str) -> str:
    return " ".join(re.sub(r"<[^>]*>", " ", html).split())


def _content(page: Row) -> dict[str, Any]:
    """Return tests for a version that has the content of a page."""
    same = {"title": page["title"], "slug": page["slug"], **page["fields"]}
    none = ("seo_title", "search_description", "show_in_menus", "go_live_at", "expire_at")
    return {name: _same_body(text) for name, text in {**dict.fromkeys(none, ""), **same}.items()}


def _newest(**values: Any) -> Expected:
    """Expect a newest version with these values."""
    return added("wagtailcore_revision", newest=True, **values)


def _grown(facts: Facts, slug: str, by: int) -> Expected:
    """Expect a section to have more or fewer pages."""
    section = _section(facts, slug)
    return _page(section, numchild=section["children"] + by)


def _added(facts: Facts, slug: str, /, **values: Any) -> tuple[Expected, ...]:
    """Expect a new page in a section."""
    page = added("wagtailcore_page", **values, parent=_section(facts, slug)["path"])
    return page, _grown(facts, slug, 1)


# Steps.


def _words(page: Row) -> str:
    """Return the words to search for a page. The search finds nothing if they contain "&"."""
    return str(page["title"]).replace(" & ", " ")


def _open(page: Row) -> Steps:
    """Find a page from the dashboard, and open it for editing."""
    return (
        fill("main #id_q", _words(page)),
        press("main #id_q", "Enter"),
        click(f'main td a[href="/admin/pages/{page["id"]}/edit/"]'),
    )


_HOME: Final = click("a.sidebar-wagtail-branding")
_MORE: Final = click(".w-dropdown__toggle.button", "More actions")
_PUBLISH: Final = (_MORE, click('button[name="action-publish"]'))
_ACTIONS: Final = click("button.w-dropdown__toggle.w-h-slim-header")
_SAVE: Final = click("button.action-save")


def _action(page: Row, name: str) -> Steps:
    """Choose an action of the page that is open."""
    return _ACTIONS, click(f'a[href^="/admin/pages/{page["id"]}/{name}/"]')


def _open_section(number: int) -> Steps:
    """Open the list of a section's pages from the dashboard."""
    link = f'main td a[href="/admin/pages/{number}/"]'
    return click('main a[href="/admin/pages/3/"]'), click(link)


def _snippets(kind: str, link: str) -> Steps:
    """Open the list of snippets of a kind, and follow a link there."""
    return (
        click('a[href="/admin/snippets/"]'),
        click(f'main a[href$="/northfield/{kind}/"]'),
        click(link),
    )


def _account(person: Row) -> Steps:
    """Open a user account for editing."""
    link = f'main a[href="/admin/users/edit/{person["id"]}/"]'
    return _settings("users"), fill("main #id_q", person["username"]), wait_until(link), click(link)


def _button(name: str) -> Step:
    return click('main button[type="submit"]', name)


def _settings(path: str) -> Steps:
    return (
        click("button.sidebar-menu-item__link", "Settings"),
        click(f'a.sidebar-menu-item__link[href="/admin/{path}/"]'),
    )


# Steps with the changes that they make.


def _edit(page: Row, *more: Steps, **fields: Any) -> Parts:
    """Set fields of a page, and publish it."""
    steps = (_open(page), set_fields(_FIELDS, fields), more, _PUBLISH)
    return steps, _fields(page, **columns_of(_FIELDS, fields))


def _draft_summary(page: Row, text: str, *buttons: Step) -> Parts:
    """Change only the summary of a page, in a draft that `buttons` save or submit."""
    content = _content(page) | {"summary": same_text(text)}
    return (
        (_open(page), fill("#id_summary", text), buttons),
        _page(page, has_unpublished_changes=1),
        _newest(object_id=str(page["id"]), **content),
    )


def _create(
    facts: Facts,
    slug: str,
    title: str,
    *parts: Steps | dict[str, Any],
    publish: bool = True,
    **columns: Any,
) -> Parts:
    """Add a page to a section. `parts` are values of fields, and steps that set `columns`."""
    section, table = _section(facts, slug)["id"], _TABLES[slug]
    steps = [set_fields(_FIELDS, part) if isinstance(part, dict) else part for part in parts]
    for part in parts:
        columns |= columns_of(_FIELDS, part) if isinstance(part, dict) else {}
    # A version stores numbers as text.
    version = {name: one if callable(one) else str(one) for name, one in columns.items()}
    return (
        _open_section(section),
        click(f'a.w-header-button[href="/admin/pages/{section}/add_subpage/"]'),
        click(f'a[href*="/{table.removeprefix("northfield_")}/{section}/"]'),
        (fill("#id_title", title), steps, _PUBLISH if publish else _SAVE),
        _added(facts, slug, title=title, **({"live": 1} if publish else _UNPUBLISHED)),
        added(table, **columns),
        () if publish else _newest(title=title, slug=anything, **version),
    )


def _unpublish(page: Row) -> Parts:
    """Take the page that is open off the public site."""
    return (
        _MORE,
        click(f'[data-tippy-root] a[href^="/admin/pages/{page["id"]}/unpublish/"]'),
        click("main button", "Yes, unpublish it"),
        _page(page, **_UNPUBLISHED),
    )


def _create_snippet(kind: str, fields: Mapping[str, str], **columns: Any) -> Parts:
    """Add a snippet with these fields. `columns` are the values that need no field."""
    return (
        _snippets(kind, f'a.w-header-button[href$="/{kind}/add/"]'),
        (set_fields(_FIELDS, fields), _SAVE),
        added(f"northfield_{kind}", **columns_of(_FIELDS, fields), **columns),
    )


def add_term(word: str, meaning: str) -> Parts:
    """Add a word to the glossary."""
    return _create_snippet("term", {"word": word, "meaning": meaning})


def _create_redirect(path: str, *more: Steps, **columns: Any) -> Parts:
    """Add a redirect; `more` sets all columns but the path."""
    return (
        (_settings("redirects"), click('a.w-header-button[href="/admin/redirects/add/"]')),
        (fill("#id_old_path", path), more, _button("Create")),
        added("wagtailredirects_redirect", old_path=path, **columns),
    )


def _choose_role(facts: Facts, group: str, user: Any) -> Parts:
    """Choose a role in the form of a user."""
    number = facts["groups"][group]
    return (
        click("#tab-label-roles"),
        check(f'input[name="groups"][value="{number}"]'),
        added("auth_user_groups", user_id=user, group_id=number),
    )


# One page.


@task("cms/edit-summary", level=1, split="train", allow=_REVISIONS)
def _edit_summary(facts: Facts, rng: random.Random) -> Assignment:
    page, text = _draw_page(facts, rng), rng.choice(_SUMMARIES)
    return assign(
        f'Replace the summary of the page {name_of(page)} by "{text}" and publish the page.',
        _edit(page, summary=text),
    )


@task("cms/save-draft", level=1, split="train", allow=_OLDER)
def _save_draft(facts: Facts, rng: random.Random) -> Assignment:
    page, text = _draw_page(facts, rng), rng.choice(_SUMMARIES)
    return assign(
        f'Prepare a new summary of the page {name_of(page)}: "{text}" Save it as a draft. The'
        " public page must stay as it is for now.",
        _draft_summary(page, text, _SAVE),
    )


@task("cms/edit-event", level=1, split="train", allow=_REVISIONS)
def _edit_event(facts: Facts, rng: random.Random) -> Assignment:
    page, place = _draw_page(facts, rng, "events"), _room(rng)
    seats = other_than(rng, range(8, 40), int(page["fields"]["seats"]))
    return assign(
        f'The event {name_of(page)} moves: its place is now "{place}", and it has {seats} '
        "seats there. Publish this.",
        _edit(page, place=place, seats=seats),
    )


@task("cms/postpone-event", level=1, split="test", allow=_REVISIONS)
def _postpone_event(facts: Facts, rng: random.Random) -> Assignment:
    page, date = _draw_page(facts, rng, "events"), draw_day(rng, 5, 9, days=(10, 28))
    host = rng.choice(_HOSTS)
    return assign(
        f"The event {name_of(page)} now takes place on {date}, and its organiser is now"
        f' "{host}". Publish this.',
        _edit(page, date=date, host=host),
    )


@task("cms/edit-job", level=2, split="train", allow=_REVISIONS)
def _edit_job(facts: Facts, rng: random.Random) -> Assignment:
    page, hours = _draw_page(facts, rng, "jobs"), rng.choice((18, 22, 28, 30, 38))
    date, contact = draw_day(rng, 5, 9, days=(10, 28)), rng.choice(_people(facts))["email"]
    return assign(
        f"Correct the vacancy {name_of(page)}: {hours} hours a week, apply until {date}, "
        f"contact {contact}. Publish it.",
        _edit(page, closing_date=date, hours=hours, contact=contact),
    )


@task("cms/change-category", level=2, split="test", allow=_REVISIONS)
def _change_category(facts: Facts, rng: random.Random) -> Assignment:
    page = _draw_page(facts, rng, "news")
    category = other_than(rng, _CATEGORIES, page["fields"]["category"])
    others = [one for one in _first_authors(facts) if str(one["id"]) != page["fields"]["author"]]
    author = rng.choice(others)
    return assign(
        f'The news page {name_of(page)} belongs in the category "{category.title()}", and'
        f" its author is {author['name']}. Correct both, and publish the page.",
        (_open(page), select("#id_category", category)),
        click('#panel-child-content-author-content button[aria-label="Actions"]'),
        (click("[data-tippy-root] [data-chooser-action-choose]"), _choose(author), _PUBLISH),
        _fields(page, category=category, author_id=author["id"]),
    )


def _first_authors(facts: Facts) -> list[Row]:
    """Return the authors on the first page of the dialog that chooses one."""
    return sorted(facts["authors"], key=lambda one: str(one["name"]))[:10]


def _choose(author: Row) -> Steps:
    link = f'.modal a[href$="/author/chosen/{author["id"]}/"]'
    return _await_shown(link), click(link), _DIALOG_GONE


def _await_shown(selector: str, wanted: bool = True) -> Step:
    """Wait until an element of a dialog is visible, or until none is if `wanted` is false."""

    async def step(page: OracleView) -> AsyncIterator[actions.Action]:
        for seconds in PATIENCE:
            if any(element.visible for element in await page.all(selector)) == wanted:
                return
            yield actions.Wait(seconds)

    return step


_DIALOG_GONE: Final = _await_shown(".modal, .modal-backdrop", False)


@task("cms/rename", level=2, split="train", allow=(*_REVISIONS, _REDIRECTS))
def _rename(facts: Facts, rng: random.Random) -> Assignment:
    page = rng.choice(live_pages(facts, _not_redirected(facts)))
    word = rng.choice(("revised", "continued", "second edition", "update"))
    title = f"{page['title']} ({word})"
    slug = f"{word.replace(' ', '-')}-{rng.randint(100, 999)}"
    return assign(
        f'Rename the page {name_of(page)} to "{title}", give it the slug "{slug}", and publish it.',
        (_open(page), fill("#id_title", title), click("#tab-label-promote")),
        (fill("#id_slug", slug), _PUBLISH),
        (_page(page, title=title, slug=slug, url_path=anything), optional(_fields(page))),
    )


@task("cms/publish-draft", level=1, split="train", allow=_REVISIONS)
def _publish_draft(facts: Facts, rng: random.Random) -> Assignment:
    page = _draw_draft(facts, rng)
    return assign(
        f"The page {name_of(page)} is still a draft. Publish it as it is.",
        (_open(page), _PUBLISH),
        (_page(page, live=1, has_unpublished_changes=0), optional(_fields(page))),
    )


@task("cms/finish-draft", level=2, split="train", allow=_REVISIONS)
def _finish_draft(facts: Facts, rng: random.Random) -> Assignment:
    page, text = _draw_draft(facts, rng), rng.choice(_SUMMARIES)
    show_in_menus = click("#tab-label-promote"), press("#id_show_in_menus", "Space")
    return assign(
        f"The page {name_of(page)} is a draft. Change its summary to"
        f' "{text}", show the page in menus, and publish it.',
        _edit(page, show_in_menus, summary=text),
        _page(page, live=1, has_unpublished_changes=0, show_in_menus=1),
    )


@task("cms/publish-changes", level=1, split="test", allow=_REVISIONS)
def _publish_changes(facts: Facts, rng: random.Random) -> Assignment:
    page = rng.choice([one for one in facts["pages"] if one.get("draft")])
    return assign(
        f"The page {name_of(page)} has changes that are not public yet. Publish them as they are.",
        (_open(page), _PUBLISH),
        (_page(page, has_unpublished_changes=0), _fields(page, summary=same_text(page["draft"]))),
    )


@task("cms/unpublish", level=1, split="train")
def _unpublish_page(facts: Facts, rng: random.Random) -> Assignment:
    page = _draw_page(facts, rng)
    return assign(
        f"Take the page {name_of(page)} off the public site, without deleting it.",
        (_open(page), _unpublish(page)),
    )


@task("cms/archive", level=2, split="train", allow=_REDIRECTS)
def _archive(facts: Facts, rng: random.Random) -> Assignment:
    page = _draw_page(facts, rng)
    return assign(
        f'Move the page {name_of(page)} from "{page["section"].title()}" to "Archive".',
        (_open(page), _move(facts, page)),
        (_grown(facts, page["section"], -1), _grown(facts, "archive", 1)),
    )


def _move(facts: Facts, page: Row) -> Parts:
    """Move the page that is open to the archive."""
    archive = _section(facts, "archive")
    target = f'.modal a.choose-page[data-id="{archive["id"]}"]'
    return (
        _action(page, "move"),
        click('main form button[aria-label="Actions"]'),
        click("[data-tippy-root] [data-chooser-action-choose]"),
        (_await_shown(target), click(target), _DIALOG_GONE),
        click('main input[value="Confirm"]'),
        click('main input[type="submit"][value^="Yes"]'),
        _page(page, parent=archive["path"], path=anything, url_path=anything),
    )


@task("cms/delete", level=2, split="train", allow=_REVISIONS)
def _delete(facts: Facts, rng: random.Random) -> Assignment:
    page = rng.choice(live_pages(facts, _not_redirected(facts)))
    return assign(
        f"Delete the page {name_of(page)} for good.",
        (_open(page), _action(page, "delete"), click('main input[value="Yes, delete it"]')),
        removed("wagtailcore_page", id=page["id"]),
        removed(_TABLES[page["section"]], page_ptr_id=page["id"]),
        _grown(facts, page["section"], -1),
    )


@task("cms/copy", level=2, split="test", allow=_OLDER)
def _copy(facts: Facts, rng: random.Random) -> Assignment:
    page = _draw_page(facts, rng)
    title = f"{page['title']} - {rng.choice(('template', 'copy', 'new version'))}"
    slug = f"copy-{rng.randint(1000, 9999)}"
    named, section = {"title": title, "slug": slug}, page["section"]
    return assign(
        f'Copy the page {name_of(page)} within its section, with the title "{title}" and the'
        f' slug "{slug}". The copy must not be public yet.',
        (_open(page), _action(page, "copy"), fill("#id_new_title", title)),
        (fill("#id_new_slug", slug), uncheck("#id_publish_copies")),
        click('main input[value="Copy this page"]'),
        (_added(facts, section, **named, **_UNPUBLISHED), added(_TABLES[section], **_values(page))),
        _newest(**_content(page) | named),
    )


# New pages.


@task("cms/new-article", level=2, split="train", allow=_REVISIONS)
def _new_article(facts: Facts, rng: random.Random) -> Assignment:
    category, author = rng.choice(_CATEGORIES), rng.choice(_first_authors(facts))
    text, kind = rng.choice(_SUMMARIES), rng.choice(("Notes", "Letter", "Report", "Greetings"))
    title = f"{kind} from {rng.choice(_WORKSHOPS)}, part {rng.randint(2, 9)}"
    date = draw_day(rng, 3, days=(10, 28))
    return assign(
        f'Publish a news page "{title}" of {date} in the category "{category.title()}", by'
        f' {author["name"]}, with the summary "{text}"',
        _create(
            facts,
            "news",
            title,
            {"date": date},
            press("#id_date", "Tab"),
            {"summary": text, "category": category},
            (click(".chooser__choose-button"), _choose(author)),
            author_id=author["id"],
        ),
    )


@task("cms/new-event", level=2, split="test", allow=_REVISIONS)
def _new_event(facts: Facts, rng: random.Random) -> Assignment:
    title = f"{rng.choice(('Breakfast', 'Concert', 'Reading', 'Repair day'))} {rng.randint(50, 99)}"
    place, host, seats = _room(rng), rng.choice(_HOSTS), rng.randint(4, 60)
    text, date = rng.choice(_SUMMARIES), draw_day(rng, 4, 9, days=(10, 28))
    fields = {"date": date, "place": place, "seats": seats, "host": host, "summary": text}
    return assign(
        f'Publish an event "{title}" on {date}: place "{place}", {seats} seats, organised by'
        f' "{host}", with the summary "{text}"',
        _create(facts, "events", title, fields),
    )


@task("cms/new-job", level=2, split="train", allow=_OLDER)
def _new_job(facts: Facts, rng: random.Random) -> Assignment:
    place = rng.choice(("Dundee", "Leeds", "Ghent"))
    title = f"{rng.choice(('Carpenter', 'Glazier', 'Cook', 'Archivist', 'Gardener'))} in {place}"
    department = rng.choice(("design", "finance", "logistics", "sales", "support"))
    hours, text = rng.choice((16, 24, 32, 40)), rng.choice(_SUMMARIES)
    date, contact = draw_day(rng, 4, 9, days=(10, 28)), rng.choice(facts["people"])["email"]
    fields = {"department": department, "closing_date": date, "workplace": place, "hours": hours}
    fields |= {"contact": contact, "summary": text}
    return assign(
        f'Prepare a vacancy "{title}" as a draft: department {department.title()}, place'
        f" {place}, {hours} hours a week, apply until {date}, contact {contact}, with the"
        f' summary "{text}" Do not publish it.',
        _create(facts, "jobs", title, fields, publish=False),
    )


@task("cms/submit-for-approval", level=2, split="train", user="editor", allow=_OLDER)
def _submit_for_approval(facts: Facts, rng: random.Random) -> Assignment:
    page, text = _draw_page(facts, rng), rng.choice(_SUMMARIES)
    return assign(
        f'Change the summary of the page {name_of(page)} to "{text}" and submit the change to'
        " the moderators for approval.",
        _draft_summary(page, text, _MORE, click('button[name="action-submit"]')),
        added("wagtailcore_workflowstate", object_id=str(page["id"]), status="in_progress"),
        added("wagtailcore_taskstate", status="in_progress"),
    )


# Snippets, redirects, settings, users.


@task("cms/new-notice", level=1, split="train")
def _new_notice(facts: Facts, rng: random.Random) -> Assignment:
    place = rng.choice(("The gate", "The garage", "The print room"))
    day, hour = rng.choice(("Monday", "Tuesday", "Wednesday")), rng.randint(8, 15)
    text, level = f"{place} is closed on {day} from {hour}:00.", rng.choice(_LEVELS)
    return assign(
        f'Put the notice "{text}" on the site, as "{level.title()}".',
        _create_snippet("notice", {"text": text, "level": level}, is_shown=1),
    )


@task("cms/change-notice", level=1, split="train")
def _change_notice(facts: Facts, rng: random.Random) -> Assignment:
    notice = rng.choice(facts["notices"])
    level, shown = other_than(rng, _LEVELS, notice["level"]), not notice["is_shown"]
    return assign(
        f'{"Show" if shown else "Hide"} the notice "{notice["text"]}", and set its level to'
        f' "{level.title()}".',
        _snippets("notice", f'main a[href$="/notice/edit/{notice["id"]}/"]'),
        ((check if shown else uncheck)("#id_is_shown"), select("#id_level", level), _SAVE),
        changed_row("northfield_notice", notice, is_shown=int(shown), level=level),
    )


_NEW_TERMS: Final = (
    ("Dead stock", "Goods that nobody has bought for a year."),
    ("Cross docking", "Moving goods from one lorry into the next without storing them."),
    ("Bill of lading", "The paper that says what is on board."),
    ("Shrinkage", "What is in the books but not on the shelf."),
    ("Reverse auction", "The lowest price wins."),
)


@task("cms/new-term", level=1, split="train")
def _new_term(facts: Facts, rng: random.Random) -> Assignment:
    word, meaning = rng.choice(_NEW_TERMS)
    word = f"{word} {rng.choice(('(sales)', '(logistics)', '(finance)', '(purchasing)'))}"
    return assign(
        f'Add the glossary term "{word}" with the meaning "{meaning}"',
        add_term(word, meaning),
    )


@task("cms/correct-term", level=1, split="test")
def _correct_term(facts: Facts, rng: random.Random) -> Assignment:
    term, (_, meaning) = rng.choice(facts["glossary"]), rng.choice(_NEW_TERMS)
    return assign(
        f'Replace the meaning of the glossary term "{term["word"]}" by "{meaning}"',
        _snippets("term", f'main a[href$="/term/edit/{term["id"]}/"]'),
        (fill("#id_meaning", meaning), _SAVE),
        changed_row("northfield_term", term, meaning=same_text(meaning)),
    )


@task("cms/new-author", level=2, split="train")
def _new_author(facts: Facts, rng: random.Random) -> Assignment:
    person = rng.choice(_people(facts))
    role = rng.choice(("Guest author", "Photographer", "Cartoonist"))
    fields = {"name": person["name"], "role": role, "email": person["email"]}
    return assign(
        f'Add {person["name"]} to the authors, with the role "{role}" and the e-mail'
        " address of their user account.",
        _account(person),
        _create_snippet("author", fields),
    )


@task("cms/contact-details", level=1, split="train")
def _contact_details(facts: Facts, rng: random.Random) -> Assignment:
    phone = f"01632 960{rng.randint(101, 999)}"
    hours = f"8:00 to {rng.choice(('16:30', '17:00', '19:00', '20:00'))}"
    fields = {"phone": phone, "hours": hours}
    return assign(
        f'Change the contact details at the foot of the site: the phone number is "{phone}",'
        f' and the opening hours are "{hours}".',
        _settings("settings/northfield/contactdetails"),
        (set_fields(_FIELDS, fields), _button("Save")),
        changed("northfield_contactdetails", {}, **columns_of(_FIELDS, fields)),
    )


@task("cms/new-redirect", level=1, split="test")
def _new_redirect(facts: Facts, rng: random.Random) -> Assignment:
    word = rng.choice(("shop", "wiki", "mail", "forum", "tickets"))
    path = f"/{rng.choice(('to', 'use', 'see'))}-{word}"
    url = f"https://{word}{rng.randint(2, 9)}.northfield.test/start"
    target = fill("#id_redirect_link", url)
    return assign(
        f"Create a permanent redirect from {path} to {url}",
        _create_redirect(path, target, redirect_link=url, is_permanent=1),
    )


@task("cms/redirect-to-page", level=2, split="test")
def _redirect_to_page(facts: Facts, rng: random.Random) -> Assignment:
    page = _draw_page(facts, rng, "policies")
    path = f"/{rng.choice(('rule', 'rules', 'law'))}-{rng.randint(10, 99)}"
    link = f'.modal a.choose-page[data-id="{page["id"]}"]'
    steps = (
        (uncheck("#id_is_permanent"), click(".chooser__choose-button")),
        (_await_shown(".modal #id_q"), fill(".modal #id_q", _words(page)), _await_shown(link)),
        (click(link), _DIALOG_GONE),
    )
    return assign(
        f"Create a redirect from {path} to the page {name_of(page)}: choose the page itself, "
        "do not type its URL. It must not be permanent.",
        _create_redirect(path, steps, redirect_page_id=page["id"], is_permanent=0),
    )


@task("cms/delete-redirect", level=2, split="train")
def _delete_redirect(facts: Facts, rng: random.Random) -> Assignment:
    redirect = rng.choice(facts["redirects"])
    page = find(facts["pages"], id=redirect["page"])
    return assign(
        f"There is a redirect to the page {name_of(page)}. Delete it.",
        (_settings("redirects"), click(f'main a[href="/admin/redirects/{redirect["id"]}/"]')),
        (_ACTIONS, click(f'a[href^="/admin/redirects/{redirect["id"]}/delete/"]')),
        click('main [type="submit"].serious'),
        removed("wagtailredirects_redirect", id=redirect["id"]),
    )


@task("cms/give-role", level=2, split="train")
def _give_role(facts: Facts, rng: random.Random) -> Assignment:
    person = rng.choice([one for one in _people(facts) if not one["group"]])
    group = rng.choice(_ROLES)
    return assign(
        f"{person['name']} should be one of the {group}. Give the user account this role.",
        (_account(person), _choose_role(facts, group, person["id"]), _button("Save")),
    )


@task("cms/new-user", level=2, split="train")
def _new_user(facts: Facts, rng: random.Random) -> Assignment:
    first = rng.choice(("Bertram", "Wilma", "Quentin", "Odile", "Thaddeus"))
    last = rng.choice(("Oyelaran", "Castellan", "Abernathy", "Fairweather"))
    group, word = rng.choice(_ROLES), rng.choice(("Teapot", "Lantern", "Harbour"))
    password, name = f"{word}-{rng.randint(1000, 9999)}-blue", first.lower()
    email = email_of(name)
    fields = {"username": name, "email": email, "first_name": first, "last_name": last}
    fields |= {"password": password, "repeated": password}
    return assign(
        f'Create a user account "{name}" for {first} {last} ({email}) with the'
        f" password {password} and the role {group[:-1]}.",
        (_settings("users"), click('a.w-header-button[href="/admin/users/new/"]')),
        set_fields(_FIELDS, fields),
        added("auth_user", **columns_of(_FIELDS, fields), is_superuser=0),
        (_choose_role(facts, group, in_new("auth_user")), _button("Create")),
    )


@task("cms/deactivate-user", level=2, split="test")
def _deactivate_user(facts: Facts, rng: random.Random) -> Assignment:
    person = rng.choice(_people(facts))
    return assign(
        f"{person['name']} has left. Deactivate the user account without deleting it.",
        (_account(person), uncheck("#id_is_active"), _button("Save")),
        changed_row("auth_user", person, is_active=0),
    )


# Questions.

reading = functools.partial(template, user="editor", start="/")


def visit_page(page: Row) -> Steps:
    """Open a page of the public site from the front page."""
    return click("header a", page["section"].title()), click("main a", page["title"])


@reading("cms/who-keeps", level=1, split="train")
def _who_keeps(facts: Facts, rng: random.Random) -> Assignment:
    page = _draw_page(facts, rng, "policies")
    return assign(
        f"Who looks after the policy {name_of(page)}, and which version is it? Answer with the"
        " name and the version, separated by a comma.",
        visit_page(page),
        answer=(page["fields"]["keeper"], f"version {page['fields']['version']}"),
    )


@reading("cms/job-contact", level=1, split="test")
def _job_contact(facts: Facts, rng: random.Random) -> Assignment:
    page = _draw_page(facts, rng, "jobs")
    return assign(
        f"To which mail address does one write for the vacancy {name_of(page)}, and how many"
        " hours a week is it? Answer with both, separated by a comma.",
        visit_page(page),
        answer=(page["fields"]["contact"], f"{page['fields']['hours']} hours a week"),
    )


@task("cms/find-drafts", level=2, split="train")
def _find_drafts(facts: Facts, rng: random.Random) -> Assignment:
    slug = rng.choice(("policies", "jobs"))
    section = _section(facts, slug)
    mine = [page for page in facts["pages"] if page["section"] == slug]
    drafts = rng.sample(mine, rng.randint(2, 3))
    public = [page for page in mine if page not in drafts]
    return assign(
        f'Which pages directly below "{section["title"]}" are drafts that are not public at'
        " all? Answer with their titles, separated by semicolons.",
        _open_section(section["id"]),
        prepare=(*(_set_live(one, 1) for one in public), *(_set_live(one, 0) for one in drafts)),
        answer=tuple(page["title"] for page in drafts),
    )


def _set_live(page: Row, live: int) -> tuple[str, tuple[Any, ...]]:
    return "UPDATE wagtailcore_page SET live = ? WHERE id = ?", (live, page["id"])


@reading("cms/sum-seats", level=3, split="train")
def _sum_seats(facts: Facts, rng: random.Random) -> Assignment:
    chosen = rng.sample(live_pages(facts, sections=("events",)), 4)
    return assign(
        f"How many seats do these events on the public site have together: {_names(chosen)}?"
        " Answer with the number.",
        [visit_page(page) for page in chosen],
        answer=str(sum(int(page["fields"]["seats"]) for page in chosen)),
    )


@reading("cms/next-review", level=3, split="test")
def _next_review(facts: Facts, rng: random.Random) -> Assignment:
    def reviewed(page: Row) -> str:
        return str(page["fields"]["review_date"])

    chosen = draw_distinct(rng, live_pages(facts, sections=("policies",)), 5, reviewed)
    by_date = sorted(chosen, key=reviewed)
    return assign(
        f"Which of these policies has to be reviewed first, and which one last: {_names(chosen)}?"
        " Answer with both titles, separated by a comma.",
        [visit_page(page) for page in chosen],
        answer=(by_date[0]["title"], by_date[-1]["title"]),
        ordered=True,
    )


# Many pages.


@task("cms/review-policies", level=3, split="train", allow=_REVISIONS)
def _review_policies(facts: Facts, rng: random.Random) -> Assignment:
    chosen = rng.sample(live_pages(facts, sections=("policies",)), 3)
    date = draw_day(rng, 2, 9, days=(10, 28), year=2027)
    version = f"{rng.randint(5, 9)}.{rng.randint(0, 9)}"
    return assign(
        f"The policies {_names(chosen)} have been reviewed. Set each one's version to {version} and"
        f" its review date to {date}, and publish them.",
        [(_HOME, _edit(page, review_date=date, version=version)) for page in chosen],
    )


@task("cms/archive-several", level=3, split="train", allow=_REDIRECTS)
def _archive_several(facts: Facts, rng: random.Random) -> Assignment:
    chosen = rng.sample(live_pages(facts, sections=("events",)), 2)
    return assign(
        f'Move the events {join_names([*map(name_of, chosen)])} from "Events" to "Archive".',
        [(_HOME, _open(page), _move(facts, page)) for page in chosen],
        (_grown(facts, "events", -2), _grown(facts, "archive", 2)),
    )


@task("cms/close-jobs", level=3, split="test")
def _close_jobs(facts: Facts, rng: random.Random) -> Assignment:
    jobs = live_pages(facts, sections=("jobs",))
    over = [page for page in jobs if page["fields"]["closing_date"] < _TODAY]
    still = [page for page in jobs if page["fields"]["closing_date"] > _TODAY]
    late = rng.sample(over, rng.randint(1, 2))
    chosen = [*late, *rng.sample(still, 2)]
    rng.shuffle(chosen)
    return assign(
        "Today is 2 March 2026. Unpublish those of the following vacancies whose closing date"
        f" has passed: {_names(chosen)}.",
        [(_HOME, _open(page), _unpublish(page) if page in late else ()) for page in chosen],
    )


# What cannot be done.


@task("cms/may-not-publish", level=1, split="train", user="editor", infeasible=True)
def _may_not_publish(facts: Facts, rng: random.Random) -> Assignment:
    page = _draw_draft(facts, rng)
    return assign(
        f"Publish the draft {name_of(page)} at once. Do not submit it for approval instead.",
        (_open(page), _MORE),
    )
