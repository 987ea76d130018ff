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
from webtraj_apps.state import Expected
from webtraj_apps.tasks import (
    Assignment,
    Facts,
    added,
    anything,
    assign,
    changed,
    find,
    hash_of,
    in_changed,
    in_new,
    optional,
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
"""The versions of the pages that change."""
_OLDER: Final = added(
    "wagtailcore_revision", newest=False, object_id=in_changed("wagtailcore_page")
)
"""Versions that are not the newest: one may save twice."""
_REDIRECTS: Final = added(
    "wagtailredirects_redirect", redirect_page_id=in_changed("wagtailcore_page")
)
_SECTIONS: Final = ("news", "events", "policies", "jobs")
_PLACES: Final = ("Dundee", "Leeds", "Ghent")
_WORKSHOPS: Final = tuple(one["name"] for one in COMPANY.workshops)
_SUMMARIES: Final = (
    "Please read this again: it has changed.",
    "More details will follow next week.",
    "Only for colleagues in Leeds.",
    "Ask the reception if anything is unclear.",
    "Valid from April on.",
    "With thanks to all who have helped.",
)


# What is there.


def _section(facts: Facts, slug: str) -> Mapping[str, Any]:
    return find(facts["pages"], slug=slug, section="")


def live_pages(
    facts: Facts, *tests: Callable[[Any], Any], sections: Sequence[str] = _SECTIONS
) -> list[Mapping[str, Any]]:
    """Return pages of these sections that are live, without a newer draft, and not locked."""
    return [
        page
        for page in facts["pages"]
        if page["section"] in sections
        and page["live"]
        and not page["draft"]
        and not page["locked"]
        and all(test(page) for test in tests)
    ]


def _drafts(facts: Facts) -> list[Mapping[str, Any]]:
    return [page for page in facts["pages"] if not page["live"] and page["section"] in _SECTIONS]


def _not_redirected(facts: Facts) -> Callable[[Any], bool]:
    targets = {one["page"] for one in facts["redirects"]}
    return lambda page: page["id"] not in targets


def _room(rng: random.Random) -> str:
    """Return a room without a name, in which no event takes place yet."""
    return f"Dundee, room {rng.randint(1, 4)}.{rng.randint(1, 28):02}"


def _names(pages: Iterable[Mapping[str, Any]]) -> str:
    return ", ".join(map(name_of, pages))


def name_of(page: Mapping[str, Any]) -> str:
    """Return what goals call a page."""
    return f'"{page["title"]}"'


# What changes.


def _page(page: Mapping[str, Any], **new: Any) -> Expected:
    return changed("wagtailcore_page", {"id": page["id"]}, **new)


def _fields(page: Mapping[str, Any], **new: Any) -> Expected:
    """Expect new values of a page; its text may be written in other HTML, but says the same."""
    if "body" in page["fields"]:
        new.setdefault("body", _same_body(page["fields"]["body"]))
    return changed(_TABLES[page["section"]], {"page_ptr_id": page["id"]}, **new)


def _values(page: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the table of its kind holds of a page."""
    columns = {"author": "author_id", "body": "body"}
    tests = {"body": _same_body(page["fields"].get("body", ""))}
    return {
        columns.get(name, name): tests.get(name, lambda value, text=text: str(value) == text)
        for name, text in page["fields"].items()
    }


def _same_body(html: str) -> Callable[[Any], bool]:
    return lambda text: _plain(text) == _plain(html)


def _plain(html: str) -> str:
    return " ".join(re.sub(r"<[^>]*>", " ", html).split())


def _draft(page: Mapping[str, Any], **values: Any) -> tuple[Expected, ...]:
    """Expect a newest version with these values, and else as the page, that is not published."""
    return (
        _page(page, has_unpublished_changes=1),
        _newest(object_id=str(page["id"]), **_content(page) | values),
    )


def _content(page: Mapping[str, Any]) -> dict[str, Any]:
    """Return tests of what a version contains that is as the page."""
    same = {"title": page["title"], "slug": page["slug"], **page["fields"]}
    none = ("seo_title", "search_description", "show_in_menus", "go_live_at", "expire_at")
    return {name: _same_body(text) for name, text in {**dict.fromkeys(none, ""), **same}.items()}


def _newest(**values: Any) -> Expected:
    """Expect a newest version with these values."""
    return added("wagtailcore_revision", newest=True, **values)


# How to get there.


def _words(page: Mapping[str, Any]) -> str:
    """Return what finds a page: the search finds nothing for a title with "&"."""
    return str(page["title"]).replace(" & ", " ")


def _open(page: Mapping[str, Any]) -> tuple[Step, ...]:
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


def _action(page: Mapping[str, Any], name: str) -> tuple[Step, ...]:
    """Choose an action of the page that is open."""
    return (
        _ACTIONS,
        click(f'a[href^="/admin/pages/{page["id"]}/{name}/"]'),
    )


def _add(facts: Facts, slug: str, kind: str) -> tuple[Step, ...]:
    """Open the form of a new page below a section."""
    section = _section(facts, slug)["id"]
    return (
        click('main a[href="/admin/pages/3/"]'),
        click(f'main td a[href="/admin/pages/{section}/"]'),
        click(f'a.w-header-button[href="/admin/pages/{section}/add_subpage/"]'),
        *(() if slug == "" else (click(f'a[href*="/{kind}/{section}/"]'),)),
    )


def _grown(facts: Facts, slug: str, by: int) -> Expected:
    """Expect a section to have more or fewer pages."""
    section = _section(facts, slug)
    return _page(section, numchild=section["children"] + by)


def _below(facts: Facts, slug: str) -> str:
    """Return the parent of the pages of a section."""
    return str(_section(facts, slug)["path"])


def _snippets(kind: str, link: str = "") -> tuple[Step, ...]:
    """Open the list of snippets of a kind, and follow a link of it."""
    follow = (click(link),) if link else ()
    return (
        click('a[href="/admin/snippets/"]'),
        click(f'main a[href$="/northfield/{kind}/"]'),
        *follow,
    )


def _new_snippet(kind: str) -> tuple[Step, ...]:
    return _snippets(kind, f'a.w-header-button[href$="/{kind}/add/"]')


def add_term(word: str, meaning: str) -> tuple[Step, ...]:
    """Add a word to the glossary."""
    return (
        *_new_snippet("term"),
        fill("#id_word", word),
        fill("#id_meaning", meaning),
        _SAVE,
    )


def _account(person: Mapping[str, Any]) -> tuple[Step, ...]:
    """Open a user account for editing."""
    link = f'main a[href="/admin/users/edit/{person["id"]}/"]'
    return (
        *_settings("users"),
        fill("main #id_q", person["username"]),
        wait_until(link),
        click(link),
    )


def _button(name: str) -> Step:
    return click('main button[type="submit"]', name)


def _settings(path: str) -> tuple[Step, ...]:
    return (
        click("button.sidebar-menu-item__link", "Settings"),
        click(f'a.sidebar-menu-item__link[href="/admin/{path}/"]'),
    )


# One page.


@task("cms/edit-summary", level=1, split="train", allow=_REVISIONS)
def _edit_summary(facts: Facts, rng: random.Random) -> Assignment:
    page, text = rng.choice(live_pages(facts)), rng.choice(_SUMMARIES)
    return assign(
        f'Replace the summary of the page {name_of(page)} by "{text}" and publish the page.',
        (_open(page), fill("#id_summary", text), _PUBLISH),
        _fields(page, summary=same_text(text)),
    )


@task("cms/save-draft", level=1, split="train", allow=_OLDER)
def _save_draft(facts: Facts, rng: random.Random) -> Assignment:
    page, text = rng.choice(live_pages(facts)), rng.choice(_SUMMARIES)
    return assign(
        f'Prepare a new summary of the page {name_of(page)}: "{text}" Save it as a draft. The'
        " public page must stay as it is for now.",
        (_open(page), fill("#id_summary", text), _SAVE),
        _draft(page, summary=same_text(text)),
    )


@task("cms/edit-event", level=1, split="train", allow=_REVISIONS)
def _edit_event(facts: Facts, rng: random.Random) -> Assignment:
    page = rng.choice(live_pages(facts, sections=("events",)))
    place = _room(rng)
    seats = rng.choice([one for one in range(8, 40) if str(one) != page["fields"]["seats"]])
    return assign(
        f'The event {name_of(page)} moves: its place is now "{place}", and it has {seats} '
        "seats there. Publish this.",
        (_open(page), fill("#id_place", place), fill("#id_seats", str(seats)), _PUBLISH),
        _fields(page, place=same_text(place), seats=seats),
    )


@task("cms/postpone-event", level=1, split="test", allow=_REVISIONS)
def _postpone_event(facts: Facts, rng: random.Random) -> Assignment:
    page = rng.choice(live_pages(facts, sections=("events",)))
    date = f"2026-{rng.randint(5, 9):02d}-{rng.randint(10, 28)}"
    host = f"{rng.choice(('Chess', 'Sailing', 'Singing', 'Hiking'))} group"
    return assign(
        f"The event {name_of(page)} now takes place on {date}, and its organiser is now"
        f' "{host}". Publish this.',
        (_open(page), fill("#id_date", date), fill("#id_host", host), _PUBLISH),
        _fields(page, date=date, host=same_text(host)),
    )


@task("cms/edit-job", level=2, split="train", allow=_REVISIONS)
def _edit_job(facts: Facts, rng: random.Random) -> Assignment:
    page = rng.choice(live_pages(facts, sections=("jobs",)))
    hours = rng.choice((18, 22, 28, 30, 38))
    date = f"2026-{rng.randint(5, 9):02d}-{rng.randint(10, 28)}"
    person = rng.choice(facts["people"][13:])
    return assign(
        f"Correct the vacancy {name_of(page)}: {hours} hours a week, apply until {date}, "
        f"contact {person['email']}. Publish it.",
        (_open(page), fill("#id_closing_date", date), fill("#id_hours", str(hours))),
        (fill("#id_contact", person["email"]), _PUBLISH),
        _fields(page, hours=hours, closing_date=date, contact=person["email"]),
    )


@task("cms/change-category", level=2, split="test", allow=_REVISIONS)
def _change_category(facts: Facts, rng: random.Random) -> Assignment:
    page = rng.choice(live_pages(facts, sections=("news",)))
    names = ("company", "people", "products", "sites")
    category = rng.choice([one for one in names if one != page["fields"]["category"]])
    author = rng.choice(
        [one for one in _list_first_authors(facts) if str(one["id"]) != page["fields"]["author"]]
    )
    return assign(
        f'The news page {name_of(page)} belongs in the category "{category.title()}", and'
        f" its author is {author['name']}. Correct both, and publish the page.",
        (_open(page), select("#id_category", category)),
        click('#panel-child-content-author-content button[aria-label="Actions"]'),
        (click("[data-tippy-root] [data-chooser-action-choose]"), _choose(author), _PUBLISH),
        _fields(page, category=category, author_id=author["id"]),
    )


def _list_first_authors(facts: Facts) -> list[Mapping[str, Any]]:
    """Return the authors on the first page of the list to choose from."""
    return sorted(facts["authors"], key=lambda one: str(one["name"]))[:10]


def _choose(author: Mapping[str, Any]) -> tuple[Step, ...]:
    link = f'.modal a[href$="/author/chosen/{author["id"]}/"]'
    return (_await_shown(link), click(link), _DIALOG_GONE)


def _await_shown(selector: str, wanted: bool = True) -> Step:
    """Wait until an element of a dialog can be seen, or until none can."""

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
    page = rng.choice(_drafts(facts))
    return assign(
        f"The page {name_of(page)} is still a draft. Publish it as it is.",
        (_open(page), _PUBLISH),
        (_page(page, live=1, has_unpublished_changes=0), optional(_fields(page))),
    )


@task("cms/finish-draft", level=2, split="train", allow=_REVISIONS)
def _finish_draft(facts: Facts, rng: random.Random) -> Assignment:
    page, text = rng.choice(_drafts(facts)), rng.choice(_SUMMARIES)
    return assign(
        f"The page {name_of(page)} is a draft. Change its summary to"
        f' "{text}", show the page in menus, and publish it.',
        (_open(page), fill("#id_summary", text), click("#tab-label-promote")),
        (press("#id_show_in_menus", "Space"), _PUBLISH),
        _page(page, live=1, has_unpublished_changes=0, show_in_menus=1),
        _fields(page, summary=same_text(text)),
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
    page = rng.choice(live_pages(facts))
    return assign(
        f"Take the page {name_of(page)} off the public site, without deleting it.",
        (_open(page), _unpublish(page)),
        _page(page, live=0, has_unpublished_changes=1),
    )


def _unpublish(page: Mapping[str, Any]) -> tuple[Step, ...]:
    return (
        _MORE,
        click(f'[data-tippy-root] a[href^="/admin/pages/{page["id"]}/unpublish/"]'),
        click("main button", "Yes, unpublish it"),
    )


@task("cms/archive", level=2, split="train", allow=_REDIRECTS)
def _archive(facts: Facts, rng: random.Random) -> Assignment:
    page = rng.choice(live_pages(facts))
    return assign(
        f'Move the page {name_of(page)} from "{page["section"].title()}" to "Archive".',
        (_open(page), _move(facts, page)),
        _moved(facts, page),
    )


def _moved(facts: Facts, *pages: Mapping[str, Any]) -> tuple[Expected, ...]:
    """Expect pages of one section to be in the archive."""
    return (
        *(
            _page(page, parent=_below(facts, "archive"), path=anything, url_path=anything)
            for page in pages
        ),
        _grown(facts, str(pages[0]["section"]), -len(pages)),
        _grown(facts, "archive", len(pages)),
    )


def _move(facts: Facts, page: Mapping[str, Any]) -> tuple[Step, ...]:
    target = f'.modal a.choose-page[data-id="{_section(facts, "archive")["id"]}"]'
    return (
        *_action(page, "move"),
        click('main form button[aria-label="Actions"]'),
        click("[data-tippy-root] [data-chooser-action-choose]"),
        _await_shown(target),
        click(target),
        _DIALOG_GONE,
        click('main input[value="Confirm"]'),
        click('main input[type="submit"][value^="Yes"]'),
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
    page = rng.choice(live_pages(facts))
    title = f"{page['title']} - {rng.choice(('template', 'copy', 'new version'))}"
    slug = f"copy-{rng.randint(1000, 9999)}"
    return assign(
        f'Copy the page {name_of(page)} within its section, with the title "{title}" and the'
        f' slug "{slug}". The copy must not be public yet.',
        (_open(page), _action(page, "copy"), fill("#id_new_title", title)),
        (fill("#id_new_slug", slug), uncheck("#id_publish_copies")),
        click('main input[value="Copy this page"]'),
        added(
            "wagtailcore_page",
            title=title,
            slug=slug,
            live=0,
            has_unpublished_changes=1,
            parent=_below(facts, page["section"]),
        ),
        added(_TABLES[page["section"]], **_values(page)),
        _newest(**_content(page) | {"title": title, "slug": slug}),
        _grown(facts, page["section"], 1),
    )


# New pages.


@task("cms/new-article", level=2, split="train", allow=_REVISIONS)
def _new_article(facts: Facts, rng: random.Random) -> Assignment:
    category = rng.choice(("company", "people", "products", "sites"))
    author, text = rng.choice(_list_first_authors(facts)), rng.choice(_SUMMARIES)
    title = (
        f"{rng.choice(('Notes', 'Letter', 'Report', 'Greetings'))} from {rng.choice(_WORKSHOPS)}"
    )
    title += f", part {rng.randint(2, 9)}"
    date = f"2026-03-{rng.randint(10, 28)}"
    return assign(
        f'Publish a news page "{title}" of {date} in the category "{category.title()}", by'
        f' {author["name"]}, with the summary "{text}"',
        (_add(facts, "news", "articlepage"), fill("#id_title", title), fill("#id_date", date)),
        (press("#id_date", "Tab"), fill("#id_summary", text), select("#id_category", category)),
        (click(".chooser__choose-button"), _choose(author), _PUBLISH),
        added("wagtailcore_page", title=title, live=1, parent=_below(facts, "news")),
        added(
            "northfield_articlepage",
            date=date,
            category=category,
            author_id=author["id"],
            summary=same_text(text),
        ),
        _grown(facts, "news", 1),
    )


@task("cms/new-event", level=2, split="test", allow=_REVISIONS)
def _new_event(facts: Facts, rng: random.Random) -> Assignment:
    title = f"{rng.choice(('Breakfast', 'Concert', 'Reading', 'Repair day'))} {rng.randint(50, 99)}"
    place = _room(rng)
    host = f"{rng.choice(('Chess', 'Sailing', 'Singing', 'Hiking'))} group"
    seats, text = rng.randint(4, 60), rng.choice(_SUMMARIES)
    date = f"2026-{rng.randint(4, 9):02d}-{rng.randint(10, 28)}"
    return assign(
        f'Publish an event "{title}" on {date}: place "{place}", {seats} seats, organised by'
        f' "{host}", with the summary "{text}"',
        (_add(facts, "events", "eventpage"), fill("#id_title", title), fill("#id_date", date)),
        (fill("#id_place", place), fill("#id_seats", str(seats)), fill("#id_host", host)),
        (fill("#id_summary", text), _PUBLISH),
        added("wagtailcore_page", title=title, live=1, parent=_below(facts, "events")),
        added(
            "northfield_eventpage",
            date=date,
            place=same_text(place),
            seats=seats,
            host=same_text(host),
            summary=same_text(text),
        ),
        _grown(facts, "events", 1),
    )


@task("cms/new-job", level=2, split="train", allow=_OLDER)
def _new_job(facts: Facts, rng: random.Random) -> Assignment:
    place = rng.choice(_PLACES)
    title = f"{rng.choice(('Carpenter', 'Glazier', 'Cook', 'Archivist', 'Gardener'))} in {place}"
    department = rng.choice(("design", "finance", "logistics", "sales", "support"))
    hours, text = rng.choice((16, 24, 32, 40)), rng.choice(_SUMMARIES)
    date = f"2026-{rng.randint(4, 9):02d}-{rng.randint(10, 28)}"
    person = rng.choice(facts["people"])
    fields = {
        "department": department,
        "place": place,
        "closing_date": date,
        "contact": person["email"],
        "summary": same_text(text),
    }
    return assign(
        f'Prepare a vacancy "{title}" as a draft: department {department.title()}, place'
        f" {place}, {hours} hours a week, apply until {date}, contact {person['email']}, with the"
        f' summary "{text}" Do not publish it.',
        (_add(facts, "jobs", "jobpage"), fill("#id_title", title)),
        (select("#id_department", department), fill("#id_closing_date", date)),
        (fill("#id_place", place), fill("#id_hours", str(hours))),
        (fill("#id_contact", person["email"]), fill("#id_summary", text), _SAVE),
        added(
            "wagtailcore_page",
            title=title,
            live=0,
            has_unpublished_changes=1,
            parent=_below(facts, "jobs"),
        ),
        added("northfield_jobpage", hours=hours, **fields),
        (_newest(title=title, slug=anything, hours=str(hours), **fields), _grown(facts, "jobs", 1)),
    )


@task("cms/submit-for-approval", level=2, split="train", user="editor", allow=_OLDER)
def _submit_for_approval(facts: Facts, rng: random.Random) -> Assignment:
    page, text = rng.choice(live_pages(facts)), rng.choice(_SUMMARIES)
    return assign(
        f'Change the summary of the page {name_of(page)} to "{text}" and submit the change to'
        " the moderators for approval.",
        (_open(page), fill("#id_summary", text), _MORE, click('button[name="action-submit"]')),
        _draft(page, summary=same_text(text)),
        added("wagtailcore_workflowstate", object_id=str(page["id"]), status="in_progress"),
        added("wagtailcore_taskstate", status="in_progress"),
    )


# Snippets, redirects, settings, users.


@task("cms/new-notice", level=1, split="train")
def _new_notice(facts: Facts, rng: random.Random) -> Assignment:
    text = f"{rng.choice(('The gate', 'The garage', 'The print room'))} is closed on"
    text += f" {rng.choice(('Monday', 'Tuesday', 'Wednesday'))} from {rng.randint(8, 15)}:00."
    level = rng.choice(("information", "warning", "disruption"))
    return assign(
        f'Put the notice "{text}" on the site, as "{level.title()}".',
        (_new_snippet("notice"), fill("#id_text", text), select("#id_level", level), _SAVE),
        added("northfield_notice", text=same_text(text), level=level, is_shown=1),
    )


@task("cms/change-notice", level=1, split="train")
def _change_notice(facts: Facts, rng: random.Random) -> Assignment:
    notice = rng.choice(facts["notices"])
    levels = [one for one in ("information", "warning", "disruption") if one != notice["level"]]
    level, shown = rng.choice(levels), not notice["is_shown"]
    return assign(
        f'{"Show" if shown else "Hide"} the notice "{notice["text"]}", and set its level to'
        f' "{level.title()}".',
        _snippets("notice", f'main a[href$="/notice/edit/{notice["id"]}/"]'),
        ((check if shown else uncheck)("#id_is_shown"), select("#id_level", level), _SAVE),
        changed("northfield_notice", {"id": notice["id"]}, is_shown=int(shown), level=level),
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
        added("northfield_term", word=word, meaning=same_text(meaning)),
    )


@task("cms/correct-term", level=1, split="test")
def _correct_term(facts: Facts, rng: random.Random) -> Assignment:
    term, (_, meaning) = rng.choice(facts["glossary"]), rng.choice(_NEW_TERMS)
    return assign(
        f'Replace the meaning of the glossary term "{term["word"]}" by "{meaning}"',
        _snippets("term", f'main a[href$="/term/edit/{term["id"]}/"]'),
        (fill("#id_meaning", meaning), _SAVE),
        changed("northfield_term", {"id": term["id"]}, meaning=same_text(meaning)),
    )


@task("cms/new-author", level=2, split="train")
def _new_author(facts: Facts, rng: random.Random) -> Assignment:
    person = rng.choice(facts["people"][13:])
    role = rng.choice(("Guest author", "Photographer", "Cartoonist"))
    return assign(
        f'Add {person["name"]} to the authors, with the role "{role}" and the e-mail'
        " address of their user account.",
        (_account(person), _new_snippet("author"), fill("#id_name", person["name"])),
        (fill("#id_role", role), fill("#id_email", person["email"]), _SAVE),
        added("northfield_author", name=person["name"], role=role, email=person["email"]),
    )


@task("cms/contact-details", level=1, split="train")
def _contact_details(facts: Facts, rng: random.Random) -> Assignment:
    phone = f"01632 960{rng.randint(101, 999)}"
    hours = f"8:00 to {rng.choice(('16:30', '17:00', '19:00', '20:00'))}"
    return assign(
        f'Change the contact details at the foot of the site: the phone number is "{phone}",'
        f' and the opening hours are "{hours}".',
        (_settings("settings/northfield/contactdetails"), fill("#id_phone", phone)),
        (fill("#id_hours", hours), _button("Save")),
        changed("northfield_contactdetails", {}, phone=same_text(phone), hours=hours),
    )


@task("cms/new-redirect", level=1, split="test")
def _new_redirect(facts: Facts, rng: random.Random) -> Assignment:
    word = rng.choice(("shop", "wiki", "mail", "forum", "tickets"))
    path = f"/{rng.choice(('to', 'use', 'see'))}-{word}"
    url = f"https://{word}{rng.randint(2, 9)}.northfield.test/start"
    return assign(
        f"Create a permanent redirect from {path} to {url}",
        (_settings("redirects"), click('a.w-header-button[href="/admin/redirects/add/"]')),
        (fill("#id_old_path", path), fill("#id_redirect_link", url), _button("Create")),
        added("wagtailredirects_redirect", old_path=path, redirect_link=url, is_permanent=1),
    )


@task("cms/redirect-to-page", level=2, split="test")
def _redirect_to_page(facts: Facts, rng: random.Random) -> Assignment:
    page = rng.choice(live_pages(facts, sections=("policies",)))
    path = f"/{rng.choice(('rule', 'rules', 'law'))}-{rng.randint(10, 99)}"
    link = f'.modal a.choose-page[data-id="{page["id"]}"]'
    return assign(
        f"Create a redirect from {path} to the page {name_of(page)}: choose the page itself, "
        "do not type its URL. It must not be permanent.",
        (_settings("redirects"), click('a.w-header-button[href="/admin/redirects/add/"]')),
        (fill("#id_old_path", path), uncheck("#id_is_permanent"), click(".chooser__choose-button")),
        (_await_shown(".modal #id_q"), fill(".modal #id_q", _words(page)), _await_shown(link)),
        (click(link), _DIALOG_GONE, _button("Create")),
        added(
            "wagtailredirects_redirect",
            old_path=path,
            redirect_page_id=page["id"],
            is_permanent=0,
        ),
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
    person = rng.choice([one for one in facts["people"][13:] if not one["group"]])
    group = rng.choice(("Editors", "Moderators"))
    return assign(
        f"{person['name']} should be one of the {group}. Give the user account this role.",
        (_account(person), click("#tab-label-roles")),
        (check(f'input[name="groups"][value="{facts["groups"][group]}"]'), _button("Save")),
        added("auth_user_groups", user_id=person["id"], group_id=facts["groups"][group]),
    )


@task("cms/new-user", level=2, split="train")
def _new_user(facts: Facts, rng: random.Random) -> Assignment:
    first = rng.choice(("Bertram", "Wilma", "Quentin", "Odile", "Thaddeus"))
    last = rng.choice(("Oyelaran", "Castellan", "Abernathy", "Fairweather"))
    group = rng.choice(("Editors", "Moderators"))
    password = f"{rng.choice(('Teapot', 'Lantern', 'Harbour'))}-{rng.randint(1000, 9999)}-blue"
    name = first.lower()
    return assign(
        f'Create a user account "{name}" for {first} {last} ({name}@northfield.test) with the'
        f" password {password} and the role {group[:-1]}.",
        (_settings("users"), click('a.w-header-button[href="/admin/users/new/"]')),
        (fill("#id_username", name), fill("#id_email", f"{name}@northfield.test")),
        (fill("#id_first_name", first), fill("#id_last_name", last)),
        (fill("#id_password1", password), fill("#id_password2", password)),
        click("#tab-label-roles"),
        (check(f'input[name="groups"][value="{facts["groups"][group]}"]'), _button("Create")),
        added(
            "auth_user",
            username=name,
            password=hash_of(password),
            email=f"{name}@northfield.test",
            first_name=first,
            last_name=last,
            is_superuser=0,
        ),
        added(
            "auth_user_groups",
            user_id=in_new("auth_user"),
            group_id=facts["groups"][group],
        ),
    )


@task("cms/deactivate-user", level=2, split="test")
def _deactivate_user(facts: Facts, rng: random.Random) -> Assignment:
    person = rng.choice(facts["people"][13:])
    return assign(
        f"{person['name']} has left. Deactivate the user account without deleting it.",
        (_account(person), uncheck("#id_is_active"), _button("Save")),
        changed("auth_user", {"id": person["id"]}, is_active=0),
    )


# Questions.


def visit_page(page: Mapping[str, Any]) -> tuple[Step, ...]:
    """Open a page of the public site from the front page."""
    return (
        click("header a", page["section"].title()),
        click("main a", page["title"]),
    )


@task("cms/who-keeps", level=1, split="train", user="editor", start="/")
def _who_keeps(facts: Facts, rng: random.Random) -> Assignment:
    page = rng.choice(live_pages(facts, sections=("policies",)))
    return assign(
        f"Who looks after the policy {name_of(page)}, and which version is it? Answer with the"
        " name and the version, separated by a comma.",
        visit_page(page),
        answer=(page["fields"]["keeper"], f"version {page['fields']['version']}"),
    )


@task("cms/job-contact", level=1, split="test", user="editor", start="/")
def _job_contact(facts: Facts, rng: random.Random) -> Assignment:
    page = rng.choice(live_pages(facts, sections=("jobs",)))
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
    return assign(
        f'Which pages directly below "{section["title"]}" are drafts that are not public at'
        " all? Answer with their titles, separated by semicolons.",
        click('main a[href="/admin/pages/3/"]'),
        click(f'main td a[href="/admin/pages/{section["id"]}/"]'),
        prepare=(
            *(_set_live(page, True) for page in mine if page not in drafts),
            *(_set_live(page, False) for page in drafts),
        ),
        answer=tuple(page["title"] for page in drafts),
    )


def _set_live(page: Mapping[str, Any], live: bool) -> tuple[str, tuple[Any, ...]]:
    return "UPDATE wagtailcore_page SET live = ? WHERE id = ?", (int(live), page["id"])


@task("cms/sum-seats", level=3, split="train", user="editor", start="/")
def _sum_seats(facts: Facts, rng: random.Random) -> Assignment:
    chosen = rng.sample(live_pages(facts, sections=("events",)), 4)
    names = _names(chosen)
    return assign(
        f"How many seats do these events on the public site have together: {names}?"
        " Answer with the number.",
        [visit_page(page) for page in chosen],
        answer=str(sum(int(page["fields"]["seats"]) for page in chosen)),
    )


@task("cms/next-review", level=3, split="test", user="editor", start="/")
def _next_review(facts: Facts, rng: random.Random) -> Assignment:
    while True:
        chosen = rng.sample(live_pages(facts, sections=("policies",)), 5)
        by_date = sorted(chosen, key=lambda page: str(page["fields"]["review_date"]))
        if len({page["fields"]["review_date"] for page in chosen}) == len(chosen):
            break
    names = _names(chosen)
    return assign(
        f"Which of these policies has to be reviewed first, and which one last: {names}?"
        " Answer with both titles, separated by a comma.",
        [visit_page(page) for page in chosen],
        answer=(by_date[0]["title"], by_date[-1]["title"]),
        ordered=True,
    )


# Many pages.


@task("cms/review-policies", level=3, split="train", allow=_REVISIONS)
def _review_policies(facts: Facts, rng: random.Random) -> Assignment:
    chosen = rng.sample(live_pages(facts, sections=("policies",)), 3)
    date = f"2027-{rng.randint(2, 9):02d}-{rng.randint(10, 28)}"
    version = f"{rng.randint(5, 9)}.{rng.randint(0, 9)}"
    names = _names(chosen)
    return assign(
        f"The policies {names} have been reviewed. Set each one's version to {version} and its"
        f" review date to {date}, and publish them.",
        [
            (
                _HOME,
                _open(page),
                fill("#id_review_date", date),
                fill("#id_version", version),
                _PUBLISH,
            )
            for page in chosen
        ],
        [_fields(page, version=version, review_date=date) for page in chosen],
    )


@task("cms/archive-several", level=3, split="train", allow=_REDIRECTS)
def _archive_several(facts: Facts, rng: random.Random) -> Assignment:
    chosen = rng.sample(live_pages(facts, sections=("events",)), 2)
    names = " and ".join(name_of(page) for page in chosen)
    return assign(
        f'Move the events {names} from "Events" to "Archive".',
        [(_HOME, _open(page), _move(facts, page)) for page in chosen],
        _moved(facts, *chosen),
    )


@task("cms/close-jobs", level=3, split="test")
def _close_jobs(facts: Facts, rng: random.Random) -> Assignment:
    jobs = live_pages(facts, sections=("jobs",))
    over = [page for page in jobs if page["fields"]["closing_date"] < _TODAY]
    still = [page for page in jobs if page["fields"]["closing_date"] > _TODAY]
    late = rng.sample(over, rng.randint(1, 2))
    chosen = [*late, *rng.sample(still, 2)]
    rng.shuffle(chosen)
    names = _names(chosen)
    return assign(
        "Today is 2 March 2026. Unpublish those of the following vacancies whose closing date"
        f" has passed: {names}.",
        [(_HOME, _open(page), *(_unpublish(page) if page in late else ())) for page in chosen],
        [_page(page, live=0, has_unpublished_changes=1) for page in late],
    )


# What cannot be done.


@task("cms/no-such-page", level=1, split="train", infeasible=True)
def _no_such_page(facts: Facts, rng: random.Random) -> Assignment:
    name = rng.choice(("Company jets", "Smoking in the lift", "Pet snakes", "Night trains"))
    return assign(
        f'Change the summary of the policy "{name}" to "{rng.choice(_SUMMARIES)}"',
        (fill("main #id_q", name), press("main #id_q", "Enter")),
    )


@task("cms/may-not-publish", level=1, split="train", user="editor", infeasible=True)
def _may_not_publish(facts: Facts, rng: random.Random) -> Assignment:
    page = rng.choice(_drafts(facts))
    return assign(
        f"Publish the draft {name_of(page)} at once. Do not submit it for approval instead.",
        (_open(page), _MORE),
    )


@task("cms/no-such-user", level=1, split="train", infeasible=True)
def _no_such_user(facts: Facts, rng: random.Random) -> Assignment:
    name = (
        f"{rng.choice(('Gideon', 'Lavinia', 'Rufus'))} {rng.choice(('Marchbanks', 'Thistlewood'))}"
    )
    group = rng.choice(("Editors", "Moderators"))
    return assign(
        f"Put the existing user {name} into the group {group}.",
        (_settings("users"), fill("main #id_q", name)),
    )
