"""Tasks in the forum: write, look up, subscribe, vote, moderate and administer.

Functions named like `reply` return the steps of an oracle together with the changes that they make.
"""

from __future__ import annotations

import functools
import html
import random
import re
from collections.abc import AsyncIterator, Callable, Sequence
from operator import itemgetter
from typing import Any, NamedTuple, TypeAlias

from webtraj.environments import actions as a
from webtraj.environments.browser.oracles import (
    OracleError,
    OracleView,
    Step,
    check,
    click,
    fill,
    select,
    uncheck,
    wait_until,
)
from webtraj_apps.fields import Field, columns_of, set_fields, tick
from webtraj_apps.tasks import (
    Assignment,
    Expected,
    Facts,
    Parts,
    Statement,
    added,
    anything,
    assign,
    changed,
    changed_row,
    draw_best,
    find,
    find_best,
    in_new,
    join_names,
    next_id,
    on_day,
    optional,
    other_than,
    removed,
    same_text,
    template,
)

task = functools.partial(template, user="user")

Topic: TypeAlias = dict[str, Any]
Comment: TypeAlias = dict[str, Any]

_PAGE = 20
"""The number of comments on a page of a topic."""
_TOPIC = "spirit_topic_topic"
_COMMENT = "spirit_comment_comment"
_NOTIFICATION = "spirit_topic_notification_topicnotification"
_LIKE = "spirit_comment_like_commentlike"
_ACCESS = "spirit_topic_private_topicprivate"
_CATEGORY = "spirit_category_category"
_POLL = "spirit_comment_poll_commentpoll"
_CHOICE = "spirit_comment_poll_commentpollchoice"
_VOTE = "spirit_comment_poll_commentpollvote"
_PROFILE = "spirit_user_userprofile"
_FLAG = "spirit_comment_flag_commentflag"
_REPORT = "spirit_comment_flag_flag"
_MOVED, _CLOSED, _UNCLOSED, _PINNED, _UNPINNED = range(1, 6)
"""Moderators' actions, as the column `action` of a comment records them."""
_CATEGORY_FIELDS = {
    "title": Field(fill, "#id_title"),
    "description": Field(fill, "#id_description", kept=same_text),
    "color": Field(fill, "#id_color", kept=same_text),
    "is_closed": Field(tick, "#id_is_closed"),
}
"""The fields of a category's form."""


# Facts.


def _id(facts: Facts, username: str) -> int:
    return int(find(facts["users"], username=username)["id"])


def _own_id(facts: Facts) -> int:
    return _id(facts, facts["user"])


def name_of(facts: Facts, username: str) -> str:
    """Return a member's full name."""
    return str(find(facts["users"], username=username)["name"])


def visible_topics(facts: Facts, *categories: str) -> list[Topic]:
    """Return the topics of these categories, by default of all, except for deleted ones."""
    return [
        topic
        for topic in facts["topics"]
        if not topic["removed"] and (not categories or topic["category"] in categories)
    ]


def find_unclosed_topics(facts: Facts, *categories: str) -> list[Topic]:
    """Return the visible topics that are open for replies."""
    return [topic for topic in visible_topics(facts, *categories) if not topic["closed"]]


def plain_topics(facts: Facts, *categories: str) -> list[Topic]:
    """Return the unclosed topics of at most one page, with no deleted comment or spam."""
    return [
        topic
        for topic in find_unclosed_topics(facts, *categories)
        if len(topic["comments"]) < _PAGE
        and not any(one["removed"] or one["spam"] for one in topic["comments"])
    ]


def _own(facts: Facts, topics: Sequence[Topic]) -> list[Topic]:
    return [topic for topic in topics if topic["author"] == facts["user"]]


def _of_others(facts: Facts, topics: Sequence[Topic]) -> list[Topic]:
    return [topic for topic in topics if topic["author"] != facts["user"]]


def _members(facts: Facts) -> list[dict[str, Any]]:
    return [one for one in facts["users"] if one["role"] == "member"]


def _by(topic: Topic, username: str) -> list[Comment]:
    return [one for one in topic["comments"] if one["by"] == username]


def _draw_comment(
    facts: Facts, rng: random.Random, fits: Callable[[Topic, Comment], bool] = lambda *_: True
) -> tuple[Topic, Comment]:
    """Draw another member's reply in a plain topic, the only comment of its writer there."""
    return rng.choice(
        [
            (topic, comment)
            for topic in plain_topics(facts)
            for comment in topic["comments"][1:]
            if comment["by"] != facts["user"]
            and len(_by(topic, comment["by"])) == 1
            and fits(topic, comment)
        ]
    )


def _open_polls(facts: Facts) -> list[Topic]:
    """Return the topics of polls in which the user can still vote."""
    return [
        topic
        for topic in visible_topics(facts)
        if (poll := topic["poll"]) and not poll["closed"] and poll["voted"] is None
    ]


def _draw_decided_poll(facts: Facts, rng: random.Random) -> tuple[Topic, dict[str, Any]]:
    """Draw an open poll in which one choice leads. Return its topic, and this choice."""
    polls = _open_polls(facts)
    return draw_best(rng, polls, lambda one: one["poll"]["options"], itemgetter("votes"))


def _draw_lowest(
    rng: random.Random, topics: Sequence[Topic], count: int, value: Callable[[Topic], Any]
) -> tuple[list[Topic], Topic]:
    """Draw topics with no tie for the lowest value. Return them, and the lowest."""
    while True:
        drawn = rng.sample(topics, count)
        if best := find_best(drawn, value, min):
            return drawn, best


def _price_of(topic: Topic) -> int:
    return int(topic["details"]["price"])


# Preparing worlds.


class Post(NamedTuple):
    """A topic that somebody has just started."""

    topic: Topic
    prepare: tuple[Statement, ...]
    """The SQL that starts it."""


def prepare_topic(
    facts: Facts,
    rng: random.Random,
    category: str,
    title: str,
    text: str,
    items: Sequence[str] = (),
) -> Post:
    """Return a new topic with a text and a list below it, for `Assignment.prepare`."""
    author = other_than(rng, facts["users"], username=facts["user"])
    number = next_id(facts["topics"], facts["private"])
    moment = "2026-02-27 10:12:00"
    lines = "".join(f"<li>{html.escape(item)}</li>\n" for item in items)
    shown = f"<p>{html.escape(text)}</p>" + (f"\n<ul>\n{lines}</ul>" if items else "")
    written = "\n".join([text, "", *(f"* {item}" for item in items)]).strip()
    slug = "-".join("".join(c if c.isalnum() else " " for c in title.lower()).split())[:50]
    place = find(facts["categories"], title=category)["id"]
    topic = (
        f"INSERT INTO {_TOPIC} (id, title, slug, date, last_active, reindex_at, is_pinned,"
        " is_globally_pinned, is_closed, is_removed, view_count, comment_count, category_id, "
        "user_id) VALUES (?, ?, ?, ?, ?, ?, 0, 0, 0, 0, 3, 1, ?, ?)"
    )
    comment = (
        f"INSERT INTO {_COMMENT} (comment, comment_html, action, date, is_removed, "
        "is_modified, ip_address, modified_count, likes_count, topic_id, user_id) "
        "VALUES (?, ?, 0, ?, 0, 0, '127.0.0.1', 0, 0, ?, ?)"
    )
    return Post(
        {"id": number, "title": title, "category": category, "comments": [{"text": written}]},
        (
            (topic, (number, title, slug, moment, moment, moment, place, author["id"])),
            (comment, (written, shown, moment, number, author["id"])),
        ),
    )


def _set(table: str, row: dict[str, Any], column: str, value: Any) -> Statement:
    return f"UPDATE {table} SET {column} = ? WHERE id = ?", (value, row["id"])


def _draw_reported(facts: Facts, rng: random.Random) -> tuple[Topic, Comment, int, list[Statement]]:
    """Draw a comment in a topic without reports, and let some members report it.

    Returns:
        The topic, the comment, the id of its flag, and the SQL that reports it.
    """
    known = {flag["topic"] for flag in facts["flags"]}
    topic, comment = _draw_comment(facts, rng, lambda topic, _: topic["id"] not in known)
    members = [one for one in facts["users"][3:39] if one["username"] != comment["by"]]
    flag = f"INSERT INTO {_FLAG} (id, comment_id, date, is_closed) VALUES (?, ?, ?, 0)"
    report = (
        f"INSERT INTO {_REPORT} (user_id, comment_id, date, reason, body) VALUES (?, ?, ?, 1, ?)"
    )
    number, text, when = comment["id"], "Please have a look at this.", "2026-03-01 18:30:00"
    reporters = rng.sample(members, rng.randint(1, 4))
    reports = [(report, (one["id"], number, when, text)) for one in reporters]
    flag_id = 10_000 + number
    return topic, comment, flag_id, [(flag, (flag_id, number, when)), *reports]


# Expectations.


def _written(facts: Facts, topic: Any, author: str, text: Any, **more: Any) -> tuple[Expected, ...]:
    """Expect a new comment in the topic with this id. `text` may be a test."""
    text = same_text(text) if isinstance(text, str) else text
    row = added(_COMMENT, topic_id=topic, user_id=_id(facts, author), comment=text, **more)
    return row, _follows(facts, author, topic)


def _follows(facts: Facts, username: str, topic: Any) -> Expected:
    """Allow the subscription that a member gets by writing or being named in a topic."""
    return optional(added(_NOTIFICATION, topic_id=topic, user_id=_id(facts, username), is_active=1))


def _grows(topic: Topic, **more: Any) -> Expected:
    """Expect a topic to have one more comment."""
    count = len(topic["comments"]) + 1
    return changed_row(_TOPIC, topic, comment_count=count, last_active=anything, **more)


def _recorded(facts: Facts, topic: Topic, action: int) -> Expected:
    """Expect the comment that records a moderator's action."""
    moderator = _id(facts, facts["moderator"])
    return added(_COMMENT, topic_id=topic["id"], user_id=moderator, action=action)


def _moderated(facts: Facts, topic: Topic, action: int, **new: Any) -> tuple[Expected, ...]:
    """Expect a moderator's change of a topic, and the comment that records it."""
    change = changed_row(_TOPIC, topic, reindex_at=anything, **new)
    return change, _recorded(facts, topic, action)


# Steps.


def find_topic(topic: Topic) -> tuple[Step, ...]:
    """Search for a topic by its title, and open it."""
    return (
        click("a.header__tabs__item[href='/search/']"),
        fill(".js-search-content input[name=q]", topic["title"]),
        click(".js-search-content input[type=submit]"),
        click("a.topic__link", topic["title"]),
    )


def _browse(facts: Facts, topic: Topic) -> tuple[Step, ...]:
    """Open a topic from the list of its category."""
    return (*_category_page(facts, topic["category"]), _page_to(topic["title"]))


def _category_page(facts: Facts, title: str) -> tuple[Step, ...]:
    parent = find(facts["categories"], title=title)["parent"]
    chosen = [click("a.header__logo")]
    for one in (parent, title) if parent else (title,):
        chosen += [click(".layout__menu .dropdown_button"), click(".menu_list__link", one)]
    return tuple(chosen)


def _page_to(title: str, selector: str = "a.topic__link") -> Step:
    """Page through a list to a link, by default a topic's, and follow it."""

    async def step(page: OracleView) -> AsyncIterator[a.Action]:
        for _ in range(10):
            found = await page.find((selector,), title or None)
            if found is not None:
                yield a.Click(found)
                return
            onward = await page.find((".paginator__button:last-child a",))
            if onward is None:
                break
            yield a.Click(onward)
        raise OracleError(f"No page of the list has {selector!r} with the text {title!r}.")

    return step


def _menu(entry: str) -> tuple[Step, ...]:
    """Choose an entry of the user's menu."""
    link = click(".js-user-content .menu_list__link", entry)
    return click("a.header__tabs__item[href='/user/menu/']"), link


def _admin(entry: str) -> tuple[Step, ...]:
    """Choose an entry of the administrators' menu."""
    link = click(".js-nav-content .menu_list__link", entry)
    return (*_menu("Admin"), click(".layout__admin .dropdown_button"), link)


def _moderate(entry: str) -> tuple[Step, ...]:
    """Choose an entry of the moderators' menu of the topic that is open."""
    link = click(".js-mod-content .menu_list__link", entry)
    return click(".layout__menu .dropdown_button"), link


def _write_reply(text: str) -> tuple[Step, ...]:
    """Reply in the topic that is open."""
    return fill("#reply textarea", text), click("#reply .comment__reply__actions__publish")


_SAVE = click("[class^=layout__a] form > input[type=submit]")
_PUBLISH = click(".comment__reply__actions__publish")
_NEW_TOPIC = click(".menu__new_topic a")
_NOTIFY = click(".comments__footer_menu__notify input[type=submit]")


def _at(comment: Comment, link: str) -> Step:
    """Click a link of a comment."""
    return click(f"[data-pk='{comment['id']}'] a[href*='{link}']")


def _results(poll: dict[str, Any]) -> Step:
    """Switch between the choices of a poll and its results."""
    return click(f"#p{poll['id']} a[href*='show_poll']")


def _page_of(topic: Topic, comment: Comment) -> int:
    return int(topic["comments"].index(comment)) // _PAGE + 1


def _to_comment(topic: Topic, comment: Comment) -> list[Step]:
    """Page through the open topic to a comment."""
    onward = ".paginator__button a[href^='?page={}']:has(.fa-chevron-right)"
    return [click(onward.format(page)) for page in range(2, _page_of(topic, comment) + 1)]


def _read_all(topic: Topic) -> list[Step]:
    """Page through the open topic to its end."""
    return _to_comment(topic, topic["comments"][-1])


def _choose(field: str, value: Any) -> Step:
    """Choose an option by its value. Labels may vary, such as the offsets of time zones."""

    async def step(page: OracleView) -> AsyncIterator[a.Action]:
        label = await page.evaluate(
            "([field, value]) => document.querySelector(`${field} option[value='${value}']`).label",
            [field, value],
        )
        ref = await page.find((field,))
        assert ref is not None
        yield a.SelectOption(ref, (label,))

    return step


def _move_to(category: dict[str, Any]) -> tuple[Step, ...]:
    """Move the topic that is open."""
    return click("a.topic_edit_link"), _choose("#id_category", category["id"]), _SAVE


def _edit_user(user: dict[str, Any], field: Step) -> tuple[Step, ...]:
    """Change a setting of a member, who may be on any page of the list."""
    link = _page_to("", f"a[href='/st/admin/user/edit/{user['id']}/']")
    return (*_admin("Users"), link, field, _SAVE)


def _open_flag(flag: int) -> tuple[Step, ...]:
    return (*_admin("Flags"), click(f"a[href='/st/admin/comment/flag/{flag}/']"))


# Steps with the changes that they make.


def reply(facts: Facts, topic: Topic, text: str) -> Parts:
    """Reply, as the user, in the topic that is open."""
    written = _written(facts, topic["id"], facts["user"], text, action=0, is_removed=0)
    return _write_reply(text), written, _grows(topic)


def start_topic(
    facts: Facts, category: str, title: str, text: str, *before: Step, kept: Any = None
) -> Parts:
    """Start a topic as the user.

    Args:
        facts: The facts of the world.
        category: The title of its category.
        title: Its title.
        text: What to write.
        *before: Steps between the title and the text.
        kept: A test of the saved text; by default, that it is `text`.
    """
    place = find(facts["categories"], title=category)["id"]
    return (
        (_category_page(facts, category), _NEW_TOPIC, fill("#id_title", title)),
        (before, fill("#id_comment", text), _PUBLISH),
        added(_TOPIC, title=same_text(title), category_id=place, user_id=_own_id(facts)),
        _written(facts, in_new(_TOPIC), facts["user"], kept or text),
    )


def _rewrite(comment: Comment, text: str) -> Parts:
    """Replace the text of a comment on the page. It may be saved more than once."""
    new = {"comment": same_text(text), "comment_html": anything, "modified_count": anything}
    return (
        (_at(comment, "/update/"), fill("#id_comment", text), _PUBLISH),
        changed_row(_COMMENT, comment, **new),
    )


def _delete(comment: Comment) -> Parts:
    """Delete a comment on the page as a moderator."""
    return _at(comment, "/delete/"), changed_row(_COMMENT, comment, is_removed=1)


def _like(facts: Facts, comment: Comment, *, undo: bool = False) -> Parts:
    """Like a comment, or undo the like, and wait until the page shows it."""
    done = "/create/" if undo else "/delete/"
    row = {"user_id": _own_id(facts), "comment_id": comment["id"]}
    return (
        _at(comment, "/like/"),
        wait_until(f"[data-pk='{comment['id']}'] a[href*='/like/'][href$='{done}']"),
        removed(_LIKE, **row) if undo else added(_LIKE, **row),
        changed_row(_COMMENT, comment, likes_count=comment["likes"] + (-1 if undo else 1)),
    )


def _subscribe_to(facts: Facts, topic: Topic) -> Parts:
    """Subscribe to the topic that is open."""
    row = {"topic_id": topic["id"], "user_id": _own_id(facts)}
    return _NOTIFY, added(_NOTIFICATION, **row, is_active=1)


def _vote(facts: Facts, topic: Topic, option: dict[str, Any]) -> Parts:
    """Vote in the poll of the topic that is open."""
    poll = f"#p{topic['poll']['id']}"
    return (
        check(f"{poll} input[type=radio][value='{option['id']}']"),
        click(f"{poll} input[type=submit]"),
        added(_VOTE, voter_id=_own_id(facts), choice_id=option["id"], is_removed=0),
        changed_row(_CHOICE, option, vote_count=option["votes"] + 1),
    )


def _start_private(facts: Facts, title: str, text: str, invited: Sequence[str]) -> Parts:
    """Start a private topic with members."""
    own, topic = _own_id(facts), in_new(_TOPIC)
    return (
        (_menu("Private topics"), _NEW_TOPIC, fill("#id_title", title)),
        (fill("#id_users", ", ".join(invited)), fill("#id_comment", text), _PUBLISH),
        added(_TOPIC, title=same_text(title), category_id=1, user_id=own),
        added(_ACCESS, user_id=own, topic_id=topic),
        _written(facts, topic, facts["user"], text),
        [added(_ACCESS, user_id=_id(facts, one), topic_id=topic) for one in invited],
        [_follows(facts, one, topic) for one in invited],
    )


def _prefer(facts: Facts, *fields: Step, **new: Any) -> Parts:
    """Change the user's preferences."""
    return (
        (_menu("Profile"), click(".profile__profile_preferences a"), fields, _SAVE),
        changed(_PROFILE, {"user_id": _own_id(facts)}, **new),
    )


def _reply_and_close(facts: Facts, topic: Topic, text: str, **new: Any) -> Parts:
    """Reply, as the moderator, in the topic that is open, and close it."""
    return (
        (_write_reply(text), _moderate("Close topic")),
        _written(facts, topic["id"], facts["moderator"], text, action=0, is_removed=0),
        _grows(topic, is_closed=1, reindex_at=anything, **new),
        _recorded(facts, topic, _CLOSED),
    )


def _edit_category(category: dict[str, Any], **fields: Any) -> Parts:
    """Set fields of a category, named as in `_CATEGORY_FIELDS`."""
    link = click(f"a[href='/st/admin/category/update/{category['id']}/']")
    columns = columns_of(_CATEGORY_FIELDS, fields)
    return (
        (_admin("Categories"), link, set_fields(_CATEGORY_FIELDS, fields), _SAVE),
        changed_row(_CATEGORY, category, **columns, reindex_at=anything),
    )


def _close_flag(facts: Facts, flag: int, *before: Parts) -> Parts:
    """Open a flag as the administrator, do some steps on its page, and close it."""
    new = {"is_closed": 1, "moderator_id": _id(facts, facts["admin"])}
    steps = (_open_flag(flag), before, check("#id_is_closed"), _SAVE)
    return steps, changed(_FLAG, {"id": flag}, **new)


def _delete_reported(comment: int) -> Parts:
    """Delete the comment of the flag that is open."""
    link = click(".comment__actions a", "delete")
    return link, changed(_COMMENT, {"id": comment}, is_removed=1)


# Words.

_ANSWERS = (
    "I can help with that on {day}.",
    "Please count me in for {day}.",
    "Let us talk about it on {day} at {hour}.",
    "I will ask my team and answer on {day}.",
    "Is {day} at {hour} early enough?",
    "We had the same last {day}. Thanks for the hint!",
)
_NEW_TOPICS = (
    ("Hardware", "{thing} for the {room} room", "We need a {thing} in the {room} room by {day}."),
    ("Canteen", "{thing} in the canteen kitchen", "Who put a {thing} into the kitchen on {day}?"),
    ("Wanted", "Wanted: {thing} until {day}", "I need a {thing} for the {room} room."),
    ("Projects", "Project idea for the {room} room", "Let us plan a {thing} there on {day}."),
    ("Gardening", "{thing} for the roof garden", "Can somebody lend us a {thing} on {day}?"),
    ("Ideas", "A {thing} for everyone", "I would vote for a {thing}. Tell me until {day}."),
)
_THINGS = ("whiteboard", "ladder", "toaster", "fan", "trolley", "shelf", "kettle", "clock")
ROOMS = ("Oak", "Maple", "Birch", "Cedar", "Willow", "Linden", "Hazel", "Rowan")
_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday")
_HOURS = ("9:15", "10:30", "11:45", "14:00", "15:30", "16:45")
_ZONES = ("Europe/Berlin", "Europe/Madrid", "Asia/Tokyo", "America/Toronto", "Africa/Accra")
_HOMES = (
    "Seaford", "Highbridge", "Stonewell", "Marlow Bay", "Old Quay",
    "Westhaven", "Larkfield", "Elmstead", "Ravensby", "Coldwater",
)  # fmt: skip


def _answer_text(rng: random.Random) -> str:
    return rng.choice(_ANSWERS).format(day=rng.choice(_DAYS), hour=rng.choice(_HOURS))


# Members write.


@task("forum/reply", level=1, split="train")
def _reply(facts: Facts, rng: random.Random) -> Assignment:
    topic, text = rng.choice(find_unclosed_topics(facts)), _answer_text(rng)
    return assign(
        f'Reply in the topic "{topic["title"]}" with this text: "{text}"',
        (find_topic(topic), reply(facts, topic, text)),
    )


@task("forum/create-topic", level=1, split="train")
def _create_topic(facts: Facts, rng: random.Random) -> Assignment:
    category, title, text = rng.choice(_NEW_TOPICS)
    words = {"thing": rng.choice(_THINGS), "room": rng.choice(ROOMS), "day": rng.choice(_DAYS)}
    title, text = title.format(**words), text.format(**words)
    title = title[0].upper() + title[1:]
    return assign(
        f'Create a topic with the title "{title}" in the category "{category}". '
        f'Its text is: "{text}"',
        start_topic(facts, category, title, text),
    )


@task("forum/edit-own-comment", level=1, split="train")
def _edit_own_comment(facts: Facts, rng: random.Random) -> Assignment:
    topics = _of_others(facts, plain_topics(facts))
    topic = rng.choice([topic for topic in topics if len(_by(topic, facts["user"])) == 1])
    text = _answer_text(rng)
    return assign(
        f'Replace the text of your comment in the topic "{topic["title"]}" by this text: "{text}"',
        (find_topic(topic), _rewrite(_by(topic, facts["user"])[0], text)),
    )


@task("forum/append-to-own-comment", level=2, split="test")
def _append_to_own_comment(facts: Facts, rng: random.Random) -> Assignment:
    topics = find_unclosed_topics(facts, "For Sale", "Commuting", "Hardware")
    topic = rng.choice(_own(facts, topics))
    comment = topic["comments"][0]
    addition = f"Update: please write to me by {rng.choice(_DAYS)} at {rng.choice(_HOURS)}."
    return assign(
        f"Add this sentence at the end of the opening comment of your topic "
        f'"{topic["title"]}", and leave the rest of it as it is: "{addition}"',
        (_menu("Profile"), click(".nav__tabs__link", "Topics")),
        click("a.topic__link", topic["title"]),
        _rewrite(comment, f"{comment['text']}\n\n{addition}"),
    )


@task("forum/rename-own-topic", level=1, split="train")
def _rename_own_topic(facts: Facts, rng: random.Random) -> Assignment:
    topic = rng.choice(_own(facts, find_unclosed_topics(facts)))
    title = f"{topic['title']} ({rng.choice(('solved', 'update', 'still open', 'reserved'))})"
    return assign(
        f'Change the title of your topic "{topic["title"]}" to "{title}".',
        (find_topic(topic), click("a.topic_edit_link"), fill("#id_title", title), _SAVE),
        changed_row(_TOPIC, topic, title=same_text(title), slug=anything, reindex_at=anything),
    )


@task("forum/quote", level=2, split="train")
def _quote(facts: Facts, rng: random.Random) -> Assignment:
    topic, comment = _draw_comment(facts, rng)
    text = _answer_text(rng)
    whole = f"> @{comment['by']} said:\n> {comment['text']}\n\n{text}"
    return assign(
        f'In the topic "{topic["title"]}", quote the comment of {name_of(facts, comment["by"])} '
        f'with the forum\'s quote function, and write below the quotation: "{text}"',
        (find_topic(topic), _at(comment, "/quote/"), fill("#id_comment", whole), _PUBLISH),
        _written(facts, topic["id"], facts["user"], whole),
        (_follows(facts, comment["by"], topic["id"]), _grows(topic)),
    )


@task("forum/create-poll", level=2, split="test")
def _create_poll(facts: Facts, rng: random.Random) -> Assignment:
    thing, room = rng.choice(_THINGS), rng.choice(ROOMS)
    title = f"Vote: {thing} for the {room} room"
    question = f"When shall we buy the {thing}?"
    options = list(enumerate(rng.sample(_DAYS, rng.randint(2, 4)), 1))
    choices = "".join(f"{number}. {text}\n" for number, text in options)
    text = f"[poll name=1]\n# {question}\n{choices}[/poll]"
    shared = {"poll_id": in_new(_POLL), "is_removed": 0}
    return assign(
        f'Create a topic with the title "{title}" in the category "Ideas". It contains nothing '
        f'but a poll with the title "{question}" and these choices, in this order: '
        f"{', '.join(text for _, text in options)}.",
        start_topic(facts, "Ideas", title, text, click(".js-box-poll"), kept=_is_poll),
        added(_POLL, title=same_text(question), is_removed=0),
        [added(_CHOICE, **shared, number=n, description=same_text(day)) for n, day in options],
    )


def _is_poll(comment: str) -> bool:
    """Return whether a comment is nothing but one poll."""
    return bool(re.fullmatch(r"\s*\[poll[^]]*\][^[]*\[/poll\]\s*", comment))


@task("forum/answer-own-question", level=3, split="train")
def _answer_own_question(facts: Facts, rng: random.Random) -> Assignment:
    first = rng.choice(visible_topics(facts, "Book Club"))
    second = rng.choice(find_unclosed_topics(facts, "Board Games"))
    text = f"The book has {first['details']['pages']} pages."
    return assign(
        f'How many pages does the book of the topic "{first["title"]}" have? Write it as a '
        f'reply in the topic "{second["title"]}", in these words, with the number in place of '
        'N: "The book has N pages."',
        (_browse(facts, first), _browse(facts, second), reply(facts, second, text)),
    )


@task("forum/offer-less", level=3, split="test")
def _offer_less(facts: Facts, rng: random.Random) -> Assignment:
    adverts = _of_others(facts, find_unclosed_topics(facts, "For Sale"))
    pair, cheap = _draw_lowest(rng, adverts, 2, _price_of)
    less = rng.randint(2, 9)
    items = join_names([f"the {topic['details']['item']}" for topic in pair], "or")
    return assign(
        f"You would buy {items}, whichever is cheaper in the category For Sale. Reply in "
        f"the topic of the cheaper one with an offer that is £{less} below its price, in "
        'these words, with the amount in place of N: "I would pay £N."',
        [_browse(facts, topic) for topic in pair],
        () if cheap is pair[1] else find_topic(cheap),
        reply(facts, cheap, f"I would pay £{_price_of(cheap) - less}."),
    )


@task("forum/reply-twice", level=2, split="train")
def _reply_twice(facts: Facts, rng: random.Random) -> Assignment:
    topics = rng.sample(find_unclosed_topics(facts, "Wanted", "Running", "Cooking"), 2)
    text = _answer_text(rng)
    titles = join_names([f'"{topic["title"]}"' for topic in topics])
    return assign(
        f'Reply in both of the topics {titles} with the same text: "{text}"',
        [(find_topic(topic), reply(facts, topic, text)) for topic in topics],
    )


# Members like, subscribe, vote and report.


@task("forum/like", level=1, split="train")
def _like_one_comment(facts: Facts, rng: random.Random) -> Assignment:
    topic, comment = _draw_comment(facts, rng, lambda _, comment: not comment["liked"])
    return assign(
        f'Like the comment of {name_of(facts, comment["by"])} in the topic "{topic["title"]}".',
        (find_topic(topic), _like(facts, comment)),
    )


@task("forum/like-all-of-one", level=3, split="train")
def _like_all_of_one(facts: Facts, rng: random.Random) -> Assignment:
    fit = [
        (topic, writer, comments)
        for topic in visible_topics(facts)
        if len(topic["comments"]) > _PAGE
        for writer in sorted({one["by"] for one in topic["comments"]})
        if writer not in (facts["user"], facts["spammer"])
        and len(comments := _by(topic, writer)) in (3, 4, 5)
        and not any(one["removed"] or one["liked"] for one in comments)
    ]
    topic, writer, comments = rng.choice(fit)

    def like_on(page: int) -> list[Parts]:
        return [_like(facts, one) for one in comments if _page_of(topic, one) == page]

    return assign(
        f'Like every comment of {name_of(facts, writer)} in the topic "{topic["title"]}".',
        (find_topic(topic), like_on(1)),
        [(turn, like_on(page)) for page, turn in enumerate(_read_all(topic), 2)],
    )


@task("forum/unlike", level=2, split="test")
def _unlike(facts: Facts, rng: random.Random) -> Assignment:
    topics = visible_topics(facts)
    topic, comment = rng.choice([(t, c) for t in topics for c in t["comments"] if c["liked"]])
    return assign(
        f'You like a comment in the topic "{topic["title"]}". Take your like back.',
        (find_topic(topic), _to_comment(topic, comment), _like(facts, comment, undo=True)),
    )


@task("forum/subscribe", level=1, split="train")
def _subscribe(facts: Facts, rng: random.Random) -> Assignment:
    topic = rng.choice([one for one in visible_topics(facts) if not one["subscribed"]])
    return assign(
        f'Let the forum notify you of new comments in the topic "{topic["title"]}".',
        (_browse(facts, topic), _subscribe_to(facts, topic)),
    )


@task("forum/subscribe-to-several", level=2, split="train")
def _subscribe_to_several(facts: Facts, rng: random.Random) -> Assignment:
    news = visible_topics(facts, "Announcements")
    topics = rng.sample([one for one in news if one["details"] and not one["subscribed"]], 3)
    systems = ", ".join(topic["details"]["system"] for topic in topics)
    return assign(
        "Let the forum notify you of new comments in the maintenance announcements of these "
        f"systems: {systems}.",
        [(find_topic(topic), _subscribe_to(facts, topic)) for topic in topics],
    )


@task("forum/unsubscribe", level=1, split="test")
def _unsubscribe(facts: Facts, rng: random.Random) -> Assignment:
    topic = rng.choice([one for one in visible_topics(facts) if one["subscribed"]])
    row = {"topic_id": topic["id"], "user_id": _own_id(facts)}
    return assign(
        f'Stop the notifications of new comments in the topic "{topic["title"]}".',
        (find_topic(topic), _NOTIFY, changed(_NOTIFICATION, row, is_active=0)),
    )


@task("forum/vote", level=1, split="train")
def _vote_in_poll(facts: Facts, rng: random.Random) -> Assignment:
    topic = rng.choice(_open_polls(facts))
    option = rng.choice(topic["poll"]["options"])
    return assign(
        f'Vote for "{option["text"]}" in the poll of the topic "{topic["title"]}".',
        (_browse(facts, topic), _vote(facts, topic, option)),
    )


_NEW_VOTE = f"""
    INSERT INTO {_VOTE} (voter_id, choice_id, is_removed, created_at)
    VALUES (?, ?, 0, ?)
"""


@task("forum/change-vote", level=2, split="test")
def _change_vote(facts: Facts, rng: random.Random) -> Assignment:
    topic, user = rng.choice(_open_polls(facts)), _own_id(facts)
    old, option = rng.sample(topic["poll"]["options"], 2)
    return assign(
        f'You voted in the poll of the topic "{topic["title"]}". '
        f'Change your vote to "{option["text"]}".',
        (find_topic(topic), _results(topic["poll"]), _vote(facts, topic, option)),
        changed(_VOTE, {"voter_id": user, "choice_id": old["id"]}, is_removed=1),
        changed_row(_CHOICE, old, vote_count=old["votes"]),
        prepare=(
            (_NEW_VOTE, (user, old["id"], "2026-02-27 10:00:00")),
            (f"UPDATE {_CHOICE} SET vote_count = vote_count + 1 WHERE id = ?", (old["id"],)),
        ),
    )


@task("forum/vote-for-leader", level=2, split="train")
def _vote_for_leader(facts: Facts, rng: random.Random) -> Assignment:
    topic, option = _draw_decided_poll(facts, rng)
    return assign(
        f'In the poll of the topic "{topic["title"]}", vote for the choice that has the most '
        "votes so far.",
        (find_topic(topic), _results(topic["poll"]), _results(topic["poll"])),
        _vote(facts, topic, option),
    )


@task("forum/close-own-poll", level=1, split="train")
def _close_own_poll(facts: Facts, rng: random.Random) -> Assignment:
    topic = rng.choice(_own(facts, _open_polls(facts)))
    poll = topic["poll"]
    return assign(
        f'Close the poll in your topic "{topic["title"]}", so that nobody can vote any more.',
        (find_topic(topic), click(f"#p{poll['id']} a[href*='/poll/close/']")),
        changed_row(_POLL, poll, close_at=on_day("2026-03-02")),
    )


@task("forum/report-comment", level=2, split="train")
def _report_bad_comment(facts: Facts, rng: random.Random) -> Assignment:
    flagged = {flag["comment"] for flag in facts["flags"]}
    topic, comment = _draw_comment(facts, rng, lambda _, comment: comment["id"] not in flagged)
    reason = rng.choice(("Spam", "Other"))
    text = rng.choice(("Please have a look.", "This is off topic.", "I do not like the tone."))
    row = {"user_id": _own_id(facts), "comment_id": comment["id"], "reason": int(reason == "Other")}
    return assign(
        f"Report the comment of {name_of(facts, comment['by'])} in the topic "
        f'"{topic["title"]}". The reason is "{reason}", and the text is: "{text}"',
        (find_topic(topic), _at(comment, "/flag/"), select("#id_reason", reason)),
        (fill("#id_body", text), _SAVE),
        added(_REPORT, **row, body=same_text(text)),
        added(_FLAG, comment_id=comment["id"], is_closed=0),
    )


# Private topics.


@task("forum/private-message", level=2, split="train")
def _private_message(facts: Facts, rng: random.Random) -> Assignment:
    other = rng.choice(_members(facts)[1:])
    title = f"{rng.choice(('Lunch', 'A question', 'Meeting', 'Handover'))} on {rng.choice(_DAYS)}"
    text = _answer_text(rng)
    return assign(
        f"Start a private topic with {other['name']} (user name {other['username']}). "
        f'Title: "{title}". Text: "{text}"',
        _start_private(facts, title, text, [other["username"]]),
    )


@task("forum/write-to-author", level=3, split="test")
def _write_to_author(facts: Facts, rng: random.Random) -> Assignment:
    fit = _of_others(facts, visible_topics(facts, "Commuting", "For Sale"))
    first = rng.choice(fit)
    second = other_than(rng, fit, author=first["author"])
    title, text = f"Coffee on {rng.choice(_DAYS)}", f"Do you have time at {rng.choice(_HOURS)}?"
    return assign(
        f'Start one private topic with the authors of the topics "{first["title"]}" and '
        f'"{second["title"]}", both together. Title: "{title}". Text: "{text}"',
        (_browse(facts, first), _browse(facts, second)),
        _start_private(facts, title, text, [first["author"], second["author"]]),
    )


def _open_private(topic: Topic) -> tuple[Step, ...]:
    return (*_menu("Private topics"), click("a.topic__link", topic["title"]))


@task("forum/private-reply", level=1, split="train")
def _private_reply(facts: Facts, rng: random.Random) -> Assignment:
    topic, text = rng.choice(facts["private"]), _answer_text(rng)
    return assign(
        f'Reply in the private topic "{topic["title"]}" with this text: "{text}"',
        (_open_private(topic), reply(facts, topic, text)),
    )


@task("forum/invite", level=2, split="test")
def _invite(facts: Facts, rng: random.Random) -> Assignment:
    topic = rng.choice(_own(facts, facts["private"]))
    other = rng.choice([u for u in facts["users"][3:] if u["username"] not in topic["members"]])
    return assign(
        f'Invite {other["name"]} to your private topic "{topic["title"]}".',
        (_open_private(topic), fill(".invite_user input[name=user]", other["username"])),
        click(".invite_user input[type=submit]"),
        added(_ACCESS, topic_id=topic["id"], user_id=other["id"]),
        _follows(facts, other["username"], topic["id"]),
    )


@task("forum/remove-from-private", level=2, split="train")
def _remove_from_private(facts: Facts, rng: random.Random) -> Assignment:
    topic = rng.choice(_own(facts, facts["private"]))
    other = other_than(rng, topic["members"], facts["user"])
    return assign(
        f"Remove {name_of(facts, other)} from the participants of your private topic "
        f'"{topic["title"]}".',
        (_open_private(topic), click(".layout__menu .dropdown_button")),
        click(f".menu_list__participant:has(a[href$='/{other}/']) .menu_list__participant__remove"),
        click(".layout__article form input[type=submit]"),
        removed(_ACCESS, topic_id=topic["id"], user_id=_id(facts, other)),
    )


@task("forum/leave-private", level=1, split="train")
def _leave_private(facts: Facts, rng: random.Random) -> Assignment:
    topic = rng.choice(_of_others(facts, facts["private"]))
    return assign(
        f'Leave the private topic "{topic["title"]}".',
        (_open_private(topic), click(".menu__new_topic a", "Leave topic")),
        removed(_ACCESS, topic_id=topic["id"], user_id=_own_id(facts)),
    )


# Preferences.


@task("forum/preferences", level=2, split="train")
def _preferences(facts: Facts, rng: random.Random) -> Assignment:
    town, zone = rng.choice(_HOMES), rng.choice(_ZONES)
    fields = fill("#id_location", town), _choose("#id_timezone", zone)
    return assign(
        f"In your preferences, set your location to {town} and your time zone to {zone}.",
        _prefer(facts, *fields, location=town, timezone=zone),
    )


@task("forum/email-preferences", level=2, split="test")
def _email_preferences(facts: Facts, rng: random.Random) -> Assignment:
    town = rng.choice(_HOMES)
    when, bit = rng.choice((("Immediately", 2), ("Weekly", 4)))
    label, left = rng.choice((("mentions", 16), ("replies", 8)))
    off = uncheck(f"#id_notify_{label}")
    fields = select("#id_notify_when", when), off, fill("#id_location", town)
    return assign(
        f'In your preferences, set the email notifications to "{when}", and switch the emails '
        f"about {label} off. Leave the other emails as they are. Also set your location "
        f"to {town}.",
        _prefer(facts, *fields, notify=bit | left, location=town),
    )


# Questions.


@task("forum/who-started", level=1, split="train")
def _who_started(facts: Facts, rng: random.Random) -> Assignment:
    topic = rng.choice(visible_topics(facts))
    return assign(
        f'Who started the topic "{topic["title"]}"? Answer with first and last name.',
        _browse(facts, topic),
        answer=name_of(facts, topic["author"]),
    )


@task("forum/last-reply", level=2, split="train")
def _last_reply(facts: Facts, rng: random.Random) -> Assignment:
    fit = [
        topic
        for topic in visible_topics(facts)
        if len(topic["comments"]) > 5 and not any(one["removed"] for one in topic["comments"])
    ]
    topic = rng.choice(fit)
    return assign(
        f'Who wrote the newest comment in the topic "{topic["title"]}"? '
        "Answer with first and last name.",
        (_browse(facts, topic), _read_all(topic)),
        answer=name_of(facts, topic["comments"][-1]["by"]),
    )


@task("forum/price", level=1, split="train")
def _price(facts: Facts, rng: random.Random) -> Assignment:
    topic = rng.choice(visible_topics(facts, "For Sale"))
    return assign(
        f"How much does the {topic['details']['item']} in the category For Sale cost? "
        "Answer with the number of pounds.",
        _browse(facts, topic),
        answer=f"{_price_of(topic)} pounds",
    )


@task("forum/maintenance", level=1, split="test")
def _maintenance(facts: Facts, rng: random.Random) -> Assignment:
    topics = visible_topics(facts)
    topic = rng.choice([one for one in topics if one["title"].startswith("Maintenance")])
    details = topic["details"]
    what = f"maintenance of the {details['system']}"
    whom = f"Who is the contact for the {what}? Answer with first and last name."
    long = f"How many hours does the announced {what} take? Answer with the number."
    questions = (whom, details["contact"]), (long, f"{details['hours']} hours")
    question, right = rng.choice(questions)
    return assign(question, _browse(facts, topic), answer=right)


@task("forum/lost-and-found", level=1, split="train")
def _lost_and_found(facts: Facts, rng: random.Random) -> Assignment:
    topic = rng.choice(visible_topics(facts, "Lost and Found"))
    details = topic["details"]
    question = (
        f"Somebody found a {details['thing']}. In which room can you fetch it?"
        if topic["title"].startswith("Found")
        else f"Somebody lost a {details['thing']}. To which room are you asked to bring it?"
    )
    return assign(
        f"{question} Answer with the name of the room, one word.",
        find_topic(topic),
        answer=details["room"],
    )


@task("forum/cheapest", level=3, split="test")
def _cheapest(facts: Facts, rng: random.Random) -> Assignment:
    topics, best = _draw_lowest(rng, visible_topics(facts, "For Sale"), 4, _price_of)
    items = ", ".join(topic["details"]["item"] for topic in topics)
    return assign(
        f"Which of these is the cheapest in the category For Sale: {items}? "
        "Answer with its name as given here.",
        [find_topic(topic) for topic in topics],
        answer=best["details"]["item"],
    )


@task("forum/total-budget", level=3, split="train")
def _total_budget(facts: Facts, rng: random.Random) -> Assignment:
    topics = rng.sample(visible_topics(facts, "Projects"), 3)
    titles = ", ".join(f'"{topic["title"]}"' for topic in topics)
    return assign(
        "What is the sum of the budgets in the opening comments of these topics? "
        f"{titles}. Answer with the number of pounds.",
        [_browse(facts, topic) for topic in topics],
        answer=f"{sum(int(topic['details']['budget']) for topic in topics)} pounds",
    )


@task("forum/most-liked", level=2, split="train")
def _most_liked(facts: Facts, rng: random.Random) -> Assignment:
    long = [topic for topic in visible_topics(facts) if len(topic["comments"]) > 8]
    topic, best = draw_best(rng, long, itemgetter("comments"), itemgetter("likes"))
    return assign(
        f'Who wrote the comment with the most likes in the topic "{topic["title"]}"? '
        "Answer with first and last name.",
        (find_topic(topic), _read_all(topic)),
        answer=name_of(facts, best["by"]),
    )


@task("forum/count-comments", level=3, split="test")
def _count_comments(facts: Facts, rng: random.Random) -> Assignment:
    fit = [
        (topic, writer)
        for topic in visible_topics(facts)
        if len(topic["comments"]) > _PAGE and not any(one["removed"] for one in topic["comments"])
        for writer in sorted({one["by"] for one in topic["comments"]})
    ]
    topic, writer = rng.choice(fit)
    return assign(
        f"How many comments did {name_of(facts, writer)} write in the topic "
        f'"{topic["title"]}"? The opening comment counts too. Answer with the number.',
        (_browse(facts, topic), _read_all(topic)),
        answer=str(len(_by(topic, writer))),
    )


@task("forum/count-topics", level=2, split="train")
def _count_topics(facts: Facts, rng: random.Random) -> Assignment:
    topic = rng.choice(visible_topics(facts, "Running", "Cooking", "Software"))
    count = sum(one["author"] == topic["author"] for one in visible_topics(facts))
    return assign(
        f'How many topics did the author of the topic "{topic["title"]}" start in the whole '
        "forum, this one included? Answer with the number.",
        find_topic(topic),
        click(f"[data-pk='{topic['comments'][0]['id']}'] .comment__info__username__link"),
        click(".nav__tabs__link", "Topics"),
        answer=str(count),
    )


@task("forum/poll-winner", level=2, split="train")
def _poll_winner(facts: Facts, rng: random.Random) -> Assignment:
    topic, best = _draw_decided_poll(facts, rng)
    return assign(
        f'Which choice has the most votes in the poll of the topic "{topic["title"]}"? '
        "Do not vote. Answer with the text of the choice.",
        (find_topic(topic), _results(topic["poll"])),
        answer=best["text"],
    )


@task("forum/poll-voters", level=2, split="test")
def _poll_voters(facts: Facts, rng: random.Random) -> Assignment:
    topic = rng.choice([one for one in visible_topics(facts) if one["poll"]])
    poll = topic["poll"]
    option = rng.choice([one for one in poll["options"] if one["votes"]])
    shown = poll["closed"] or poll["voted"] is not None
    return assign(
        f'How many members voted for "{option["text"]}" in the poll of the topic '
        f'"{topic["title"]}"? Do not vote yourself. Answer with the number.',
        (find_topic(topic), () if shown else _results(poll)),
        click(f"#p{poll['id']} a[href='/comment/poll/voters/{option['id']}/']"),
        answer=str(option["votes"]),
    )


@task("forum/early-car-pool", level=3, split="train")
def _early_car_pool(facts: Facts, rng: random.Random) -> Assignment:
    topics, first = _draw_lowest(
        rng, visible_topics(facts, "Commuting"), 3, lambda topic: topic["details"]["hour"]
    )
    towns = ", ".join(topic["details"]["town"] for topic in topics)
    return assign(
        f"There are car pools from {towns} in the category Commuting. Whose leaves first in "
        "the morning? Answer with the driver's first and last name.",
        [find_topic(topic) for topic in topics],
        answer=name_of(facts, first["author"]),
    )


# Moderators.


@task("forum/close-topic", level=1, split="train", user="moderator")
def _close_topic(facts: Facts, rng: random.Random) -> Assignment:
    topic = rng.choice(find_unclosed_topics(facts))
    return assign(
        f'As a moderator, close the topic "{topic["title"]}".',
        (find_topic(topic), _moderate("Close topic")),
        _moderated(facts, topic, _CLOSED, is_closed=1),
    )


@task("forum/reopen-topic", level=1, split="test", user="moderator")
def _reopen_topic(facts: Facts, rng: random.Random) -> Assignment:
    topic = rng.choice(visible_topics(facts))
    return assign(
        f'As a moderator, open the closed topic "{topic["title"]}" again.',
        (find_topic(topic), _moderate("Open topic")),
        _moderated(facts, topic, _UNCLOSED, is_closed=0),
        prepare=(_set(_TOPIC, topic, "is_closed", 1),),
    )


@task("forum/pin-topic", level=1, split="train", user="moderator")
def _pin_topic(facts: Facts, rng: random.Random) -> Assignment:
    fit = [t for t in visible_topics(facts) if not (t["pinned"] or t["globally_pinned"])]
    topic = rng.choice(fit)
    how, entry, column = (
        ("globally, not only in its category", "Pin topic globally", "is_globally_pinned")
        if rng.random() < 0.5
        else ("in its category, not globally", "Pin topic", "is_pinned")
    )
    return assign(
        f'As a moderator, pin the topic "{topic["title"]}" {how}.',
        (find_topic(topic), _moderate(entry)),
        _moderated(facts, topic, _PINNED, **{column: 1}),
    )


@task("forum/unpin-topic", level=1, split="test", user="moderator")
def _unpin_topic(facts: Facts, rng: random.Random) -> Assignment:
    topic = rng.choice([one for one in visible_topics(facts) if not one["globally_pinned"]])
    return assign(
        f'As a moderator, unpin the pinned topic "{topic["title"]}".',
        (find_topic(topic), _moderate("Unpin topic")),
        _moderated(facts, topic, _UNPINNED, is_pinned=0),
        prepare=(_set(_TOPIC, topic, "is_pinned", 1),),
    )


@task("forum/delete-topic", level=1, split="train", user="moderator")
def _delete_topic(facts: Facts, rng: random.Random) -> Assignment:
    topic = rng.choice(visible_topics(facts))
    return assign(
        f'As a moderator, delete the topic "{topic["title"]}".',
        (find_topic(topic), _moderate("Delete topic")),
        changed_row(_TOPIC, topic, is_removed=1, reindex_at=anything),
    )


@task("forum/move-topic", level=2, split="train", user="moderator")
def _move_topic(facts: Facts, rng: random.Random) -> Assignment:
    topic = rng.choice(find_unclosed_topics(facts))
    fit = [c for c in facts["categories"] if c["title"] != topic["category"] and c["parent"]]
    category = rng.choice(fit)
    return assign(
        f'As a moderator, move the topic "{topic["title"]}" to the category '
        f'"{category["title"]}", which is part of "{category["parent"]}".',
        (find_topic(topic), _move_to(category)),
        _moderated(facts, topic, _MOVED, category_id=category["id"]),
    )


@task("forum/move-and-close", level=3, split="test", user="moderator")
def _move_and_close(facts: Facts, rng: random.Random) -> Assignment:
    topic = rng.choice(find_unclosed_topics(facts, "Hardware", "Software"))
    title = "Software" if topic["category"] == "Hardware" else "Hardware"
    target = find(facts["categories"], title=title)
    text = f"I moved this to {title}."
    return assign(
        f'The topic "{topic["title"]}" is in the wrong category. As a moderator, move it to '
        f'"{title}", reply in it with the text "{text}", and then close it.',
        (_browse(facts, topic), _move_to(target), _recorded(facts, topic, _MOVED)),
        _reply_and_close(facts, topic, text, category_id=target["id"]),
    )


@task("forum/delete-comment", level=2, split="train", user="moderator")
def _delete_comment(facts: Facts, rng: random.Random) -> Assignment:
    topic, comment = _draw_comment(facts, rng)
    return assign(
        f"As a moderator, delete the comment of {name_of(facts, comment['by'])} in the topic "
        f'"{topic["title"]}".',
        (_browse(facts, topic), _delete(comment)),
    )


@task("forum/undelete-comment", level=1, split="test", user="moderator")
def _undelete_comment(facts: Facts, rng: random.Random) -> Assignment:
    topic, comment = _draw_comment(facts, rng)
    return assign(
        f'As a moderator, undelete the deleted comment in the topic "{topic["title"]}".',
        (find_topic(topic), _at(comment, "/undelete/")),
        changed_row(_COMMENT, comment, is_removed=0),
        prepare=(_set(_COMMENT, comment, "is_removed", 1),),
    )


@task("forum/censor-comment", level=2, split="train", user="moderator")
def _censor_comment(facts: Facts, rng: random.Random) -> Assignment:
    topic, comment = _draw_comment(facts, rng)
    texts = ("Removed by a moderator.", "Please stay friendly.", "Moved to the intranet.")
    text = rng.choice(texts)
    return assign(
        f"As a moderator, replace the text of {name_of(facts, comment['by'])}'s comment in the "
        f'topic "{topic["title"]}" by: "{text}"',
        (find_topic(topic), _rewrite(comment, text)),
    )


@task("forum/clean-up-spam", level=3, split="train", user="moderator")
def _clean_up_spam(facts: Facts, rng: random.Random) -> Assignment:
    spammer, topics = facts["spammer"], find_unclosed_topics(facts)
    topic = rng.choice([topic for topic in topics if len(_by(topic, spammer)) > 1])
    return assign(
        f"The account of {name_of(facts, spammer)} was abused for advertising. As a moderator, "
        f'delete all comments of this account in the topic "{topic["title"]}".',
        # Deleting a comment opens its page of the topic, so the next one starts with a search.
        [
            (find_topic(topic), _to_comment(topic, comment), _delete(comment))
            for comment in _by(topic, spammer)
        ],
    )


@task("forum/move-comment", level=3, split="test", user="moderator")
def _move_comment(facts: Facts, rng: random.Random) -> Assignment:
    topic, comment = _draw_comment(facts, rng)
    target = other_than(rng, plain_topics(facts), id=topic["id"])
    return assign(
        f"As a moderator, move the comment of {name_of(facts, comment['by'])} in the topic "
        f'"{topic["title"]}" to the topic "{target["title"]}".',
        find_topic(target),  # Its address shows the number to enter.
        (find_topic(topic), _moderate("Select comments to move")),
        check(f".js-move-comment-checkbox[value='{comment['id']}']"),
        fill("#id_move_comments_topic", str(target["id"])),
        click(".js-move-comments-button"),
        changed_row(_COMMENT, comment, topic_id=target["id"]),
        changed_row(_TOPIC, topic, comment_count=len(topic["comments"]) - 1),
        (_follows(facts, comment["by"], target["id"]), _grows(target)),
    )


@task("forum/close-duplicate", level=2, split="train", user="moderator")
def _close_duplicate(facts: Facts, rng: random.Random) -> Assignment:
    topic, other = rng.sample(find_unclosed_topics(facts, "Network", "Wanted", "Gardening"), 2)
    text = f"See also: {other['title']}"
    return assign(
        f'As a moderator, reply in the topic "{topic["title"]}" with the text "{text}", and '
        "then close this topic.",
        (find_topic(topic), _reply_and_close(facts, topic, text)),
    )


# Administrators.


@task("forum/undelete-topic", level=2, split="test", user="admin")
def _undelete_topic(facts: Facts, rng: random.Random) -> Assignment:
    topic = rng.choice(facts["topics"])
    return assign(
        f'As an administrator, undelete the deleted topic "{topic["title"]}".',
        (_admin("Topics"), click(".layout__admin a", topic["title"]), _moderate("Undelete topic")),
        changed_row(_TOPIC, topic, is_removed=0, reindex_at=anything),
        prepare=(_set(_TOPIC, topic, "is_removed", 1),),
    )


@task("forum/create-category", level=2, split="train", user="admin")
def _create_category(facts: Facts, rng: random.Random) -> Assignment:
    title = rng.choice(("Chess", "Photography", "Safety", "Trainees", "Pets", "Parents", "Sailing"))
    parent = rng.choice([c for c in facts["categories"] if not c["parent"]])
    description = f"Everything about {title.lower()} at Northfield"
    color = f"#{rng.randrange(0x1000000):06x}"
    new = {"title": title, "description": description, "color": color}
    columns = columns_of(_CATEGORY_FIELDS, new)
    return assign(
        f'As an administrator, create the category "{title}" inside "{parent["title"]}". '
        f'Description: "{description}". Colour: {color}.',
        (_admin("Categories"), click(".admin__category_menu__new_category a")),
        (select("#id_parent", parent["title"]), set_fields(_CATEGORY_FIELDS, new), _SAVE),
        added(_CATEGORY, **columns, parent_id=parent["id"], is_closed=0, is_removed=0, is_global=1),
    )


@task("forum/describe-category", level=2, split="train", user="admin")
def _describe_category(facts: Facts, rng: random.Random) -> Assignment:
    category = rng.choice(facts["categories"])
    text = f"{category['title']}: ask here, best before {rng.choice(_DAYS)}"
    return assign(
        f'As an administrator, change the description of the category "{category["title"]}" '
        f'to "{text}".',
        _edit_category(category, description=text),
    )


@task("forum/close-category", level=2, split="test", user="admin")
def _close_category(facts: Facts, rng: random.Random) -> Assignment:
    category = rng.choice([c for c in facts["categories"] if c["parent"]])
    return assign(
        f'As an administrator, close the category "{category["title"]}", so that nobody can '
        "create topics in it. Do not remove it.",
        _edit_category(category, is_closed=1),
    )


@task("forum/make-moderator", level=2, split="train", user="admin")
def _make_moderator(facts: Facts, rng: random.Random) -> Assignment:
    user = rng.choice(_members(facts))
    return assign(
        f"As an administrator, give {user['name']} (user name {user['username']}) the "
        "moderator status.",
        _edit_user(user, check("#id_is_moderator")),
        changed(_PROFILE, {"user_id": user["id"]}, is_moderator=1),
    )


@task("forum/deactivate-member", level=2, split="test", user="admin")
def _deactivate_member(facts: Facts, rng: random.Random) -> Assignment:
    user = rng.choice(_members(facts))
    return assign(
        f"{user['name']} has left the company. As an administrator, deactivate the account.",
        _edit_user(user, uncheck("#id_is_active")),
        changed_row("auth_user", user, is_active=0),
    )


@task("forum/settings", level=2, split="train", user="admin")
def _settings(facts: Facts, rng: random.Random) -> Assignment:
    count = str(rng.choice((10, 15, 25, 30, 40, 50)))
    what = rng.choice(("comments", "topics"))
    text = f"Northfield talks, {rng.choice(_DAYS)}s and always"
    new = {f"{what}_per_page": count, "site_description": same_text(text), "_updated_at": anything}
    return assign(
        f"As an administrator, change the forum's basic settings: {count} {what} per page, "
        f'and the site description "{text}".',
        (_admin("Basic settings"), fill("#id_site_description", text)),
        (fill(f"#id_{what}_per_page", count), _SAVE),
        [changed("djconfig_config", {"key": key}, value=value) for key, value in new.items()],
    )


@task("forum/settle-flag", level=3, split="train", user="admin")
def _settle_flag(facts: Facts, rng: random.Random) -> Assignment:
    topic, comment, flag, prepare = _draw_reported(facts, rng)
    return assign(
        f'A comment in the topic "{topic["title"]}" was reported. As an administrator, delete '
        "this comment, and close its flag.",
        _close_flag(facts, flag, _delete_reported(comment["id"])),
        prepare=prepare,
    )


@task("forum/dismiss-flag", level=2, split="test", user="admin")
def _dismiss_flag(facts: Facts, rng: random.Random) -> Assignment:
    topic, _, flag, prepare = _draw_reported(facts, rng)
    return assign(
        f'A comment in the topic "{topic["title"]}" was reported, but it is harmless. As an '
        "administrator, close its flag and keep the comment.",
        _close_flag(facts, flag),
        prepare=prepare,
    )


@task("forum/clean-up-flags", level=3, split="test", user="admin")
def _clean_up_flags(facts: Facts, rng: random.Random) -> Assignment:
    spam = [one for one in facts["flags"] if one["spam"] and not one["closed"]]
    flags, topics = rng.sample(spam, 2), facts["topics"]
    titles = join_names([f'"{find(topics, id=flag["topic"])["title"]}"' for flag in flags])
    return assign(
        f"Advertising was reported in the topics {titles}. As an administrator, delete the two "
        "reported comments, and close their flags.",
        [_close_flag(facts, flag["id"], _delete_reported(flag["comment"])) for flag in flags],
    )


@task("forum/count-reporters", level=1, split="train", user="admin")
def _count_reporters(facts: Facts, rng: random.Random) -> Assignment:
    topic, _, flag, prepare = _draw_reported(facts, rng)
    return assign(
        f'A comment in the topic "{topic["title"]}" was reported. How many members reported '
        "it? You are an administrator. Answer with the number.",
        _open_flag(flag),
        prepare=prepare,
        answer=str(len(prepare) - 1),
    )


# What cannot be done.


@task("forum/reply-in-closed-topic", level=1, split="train", infeasible=True)
def _reply_in_closed_topic(facts: Facts, rng: random.Random) -> Assignment:
    topic = rng.choice(visible_topics(facts))
    return assign(
        f'Reply in the topic "{topic["title"]}" with this text: "{_answer_text(rng)}"',
        find_topic(topic),
        prepare=(_set(_TOPIC, topic, "is_closed", 1),),
    )


@task("forum/vote-in-closed-poll", level=1, split="train", infeasible=True)
def _vote_in_closed_poll(facts: Facts, rng: random.Random) -> Assignment:
    topic = rng.choice(_open_polls(facts))
    option = rng.choice(topic["poll"]["options"])
    return assign(
        f'Vote for "{option["text"]}" in the poll of the topic "{topic["title"]}".',
        _browse(facts, topic),
        prepare=(_set(_POLL, topic["poll"], "close_at", "2026-02-20 12:00:00"),),
    )
