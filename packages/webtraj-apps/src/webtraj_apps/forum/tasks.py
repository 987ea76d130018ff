"""Tasks in the forum: write, look up, subscribe, vote, moderate and administer."""

from __future__ import annotations

import functools
import html
import random
import re
from collections.abc import AsyncIterator, Iterable, Sequence
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
from webtraj_apps.tasks import (
    Assignment,
    Expected,
    Facts,
    Statement,
    added,
    anything,
    assign,
    changed,
    find,
    find_best,
    in_new,
    on_day,
    optional,
    removed,
    same_text,
    template,
)

task = functools.partial(template, user="user")

Topic: TypeAlias = dict[str, Any]
Comment: TypeAlias = dict[str, Any]

_PAGE = 20
"""Comments, and topics, on a page."""
_TOPIC = "spirit_topic_topic"
_COMMENT = "spirit_comment_comment"
_NOTIFICATION = "spirit_topic_notification_topicnotification"
_LIKE = "spirit_comment_like_commentlike"
_ACCESS = "spirit_topic_private_topicprivate"
_CATEGORY = "spirit_category_category"
_POLL = "spirit_comment_poll_commentpoll"
_CHOICE = "spirit_comment_poll_commentpollchoice"
_PROFILE = "spirit_user_userprofile"
_FLAG = "spirit_comment_flag_commentflag"
_CLOSED, _UNCLOSED, _PINNED, _UNPINNED, _MOVED = 2, 3, 4, 5, 1
"""Actions of moderators, as comments tell them."""


# Facts.


def _id(facts: Facts, username: str) -> int:
    return int(find(facts["users"], username=username)["id"])


def name_of(facts: Facts, username: str) -> str:
    """Return a member's full name."""
    return str(find(facts["users"], username=username)["name"])


def plain_topics(topics: Iterable[Topic]) -> list[Topic]:
    """Return the topics of one page in which nothing was deleted, advertised or closed."""
    return [
        topic
        for topic in topics
        if not (topic["removed"] or topic["closed"])
        and len(topic["comments"]) < _PAGE
        and not any(one["removed"] or one["spam"] for one in topic["comments"])
    ]


def find_unclosed_topics(topics: Iterable[Topic]) -> list[Topic]:
    """Return the topics that one can reply in."""
    return [topic for topic in topics if not (topic["removed"] or topic["closed"])]


def visible_topics(topics: Iterable[Topic]) -> list[Topic]:
    """Return the topics that were not deleted."""
    return [topic for topic in topics if not topic["removed"]]


def _by(topic: Topic, username: str) -> list[Comment]:
    return [one for one in topic["comments"] if one["by"] == username]


def _single(facts: Facts, topics: Iterable[Topic]) -> list[tuple[Topic, Comment]]:
    """Return replies of members with only one comment in the topic, without the user's."""
    return [
        (topic, comment)
        for topic in topics
        for comment in topic["comments"][1:]
        if comment["by"] != facts["user"] and len(_by(topic, comment["by"])) == 1
    ]


# What worlds are prepared with.


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
    author = rng.choice([u for u in facts["users"] if u["username"] != facts["user"]])
    number = 1 + max(int(topic["id"]) for topic in (*facts["topics"], *facts["private"]))
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


def _set_topic(topic: Topic, column: str, value: int) -> tuple[str, tuple[Any, ...]]:
    return f"UPDATE {_TOPIC} SET {column} = ? WHERE id = ?", (value, topic["id"])


def _set_removed(comment: Comment) -> tuple[str, tuple[Any, ...]]:
    return f"UPDATE {_COMMENT} SET is_removed = 1 WHERE id = ?", (comment["id"],)


def _report_comment(facts: Facts, comment: Comment, rng: random.Random) -> list[tuple[str, Any]]:
    """Report a comment by one to four members, in the name of all of them."""
    members = [one for one in facts["users"][3:39] if one["username"] != comment["by"]]
    flag = f"INSERT INTO {_FLAG} (id, comment_id, date, is_closed) VALUES (?, ?, ?, 0)"
    report = (
        "INSERT INTO spirit_comment_flag_flag (user_id, comment_id, date, reason, body) "
        "VALUES (?, ?, ?, 1, ?)"
    )
    when, text = "2026-03-01 18:30:00", "Please have a look at this."
    return [
        (flag, (_new_flag(comment), comment["id"], when)),
        *(
            (report, (one["id"], comment["id"], when, text))
            for one in rng.sample(members, rng.randint(1, 4))
        ),
    ]


def _new_flag(comment: Comment) -> int:
    """Return the id of the flag of a comment that `_report_comment` reports."""
    return 10_000 + int(comment["id"])


def _draw_unreported(facts: Facts, rng: random.Random) -> tuple[Topic, Comment]:
    """Return a comment of a topic in which none was reported."""
    reported = {flag["topic"] for flag in facts["flags"]}
    fit = [topic for topic in plain_topics(facts["topics"]) if topic["id"] not in reported]
    return rng.choice(_single(facts, fit))


# Expectations.


def expect_reply(facts: Facts, topic: Topic, author: str, text: str) -> tuple[Expected, ...]:
    """Expect a reply."""
    return (
        added(
            _COMMENT,
            topic_id=topic["id"],
            user_id=_id(facts, author),
            comment=same_text(text),
            action=0,
            is_removed=0,
        ),
        _follows(facts, author, topic["id"]),
        _grows(topic),
    )


def _follows(facts: Facts, username: str, topic: Any) -> Expected:
    """Allow the subscription that a member gets by writing in a topic or being named in it."""
    return optional(added(_NOTIFICATION, topic_id=topic, user_id=_id(facts, username), is_active=1))


def _grows(topic: Topic, by: int = 1) -> Expected:
    count = len(topic["comments"])
    return changed(
        _TOPIC,
        {"id": topic["id"]},
        comment_count=count + by,
        last_active=anything,
    )


def _edited(comment: Comment, text: str) -> Expected:
    return changed(
        _COMMENT,
        {"id": comment["id"]},
        comment=same_text(text),
        comment_html=anything,
        modified_count=anything,  # Who corrects a slip saves twice.
    )


def _moderated(
    facts: Facts, topic: Topic, by: str, action: int, **new: Any
) -> tuple[Expected, ...]:
    """Expect a moderator's action, and the comment that tells it."""
    return (
        changed(_TOPIC, {"id": topic["id"]}, reindex_at=anything, **new),
        added(_COMMENT, topic_id=topic["id"], user_id=_id(facts, by), action=action),
    )


def expect_topic(facts: Facts, category: str, title: str, text: Any) -> tuple[Expected, ...]:
    """Expect a new topic of the user; its text may be a test."""
    user = _id(facts, facts["user"])
    return (
        added(
            _TOPIC,
            title=same_text(title),
            category_id=find(facts["categories"], title=category)["id"],
            user_id=user,
        ),
        added(
            _COMMENT,
            comment=same_text(text) if isinstance(text, str) else text,
            user_id=user,
            topic_id=in_new(_TOPIC),
        ),
        _follows(facts, facts["user"], in_new(_TOPIC)),
    )


# Steps.


def find_topic(title: str) -> tuple[Step, ...]:
    """Search a topic by its title, and open it."""
    return (
        click("a.header__tabs__item[href='/search/']"),
        fill(".js-search-content input[name=q]", title),
        click(".js-search-content input[type=submit]"),
        click("a.topic__link", title),
    )


def _browse(facts: Facts, topic: Topic) -> tuple[Step, ...]:
    """Open a topic by way of its category."""
    return (*_category_page(facts, topic["category"]), _page_to(topic["title"]))


def _category_page(facts: Facts, title: str) -> tuple[Step, ...]:
    parent = find(facts["categories"], title=title)["parent"]
    chosen = [click("a.header__logo")]
    for one in (parent, title) if parent else (title,):
        chosen += [click(".layout__menu .dropdown_button"), click(".menu_list__link", one)]
    return tuple(chosen)


def _page_to(title: str, selector: str = "a.topic__link") -> Step:
    """Turn the pages of a list until a link appears, by default a topic's, and follow it."""

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
    return (
        click("a.header__tabs__item[href='/user/menu/']"),
        click(".js-user-content .menu_list__link", entry),
    )


def _admin(entry: str) -> tuple[Step, ...]:
    """Choose an entry of the administrators' menu."""
    return (
        *_menu("Admin"),
        click(".layout__admin .dropdown_button"),
        click(".js-nav-content .menu_list__link", entry),
    )


def _moderate(entry: str) -> tuple[Step, ...]:
    """Choose an entry of the moderators' menu of the topic that is open."""
    return (
        click(".layout__menu .dropdown_button"),
        click(".js-mod-content .menu_list__link", entry),
    )


def write_reply(text: str) -> tuple[Step, ...]:
    """Reply in the topic that is open."""
    return (
        fill("#reply textarea", text),
        click("#reply .comment__reply__actions__publish"),
    )


_SAVE = click("[class^=layout__a] form > input[type=submit]")
_PUBLISH = click(".comment__reply__actions__publish")


def _at(comment: Comment, link: str) -> Step:
    """Click a link of a comment."""
    return click(f"[data-pk='{comment['id']}'] a[href*='{link}']")


def start_topic(
    facts: Facts, category: str, title: str, text: str, *before: Step
) -> tuple[Step, ...]:
    """Start a topic; `before` comes between its title and its text."""
    return (
        *_category_page(facts, category),
        click(".menu__new_topic a"),
        fill("#id_title", title),
        *before,
        fill("#id_comment", text),
        _PUBLISH,
    )


def _rewrite(comment: Comment, text: str) -> tuple[Step, ...]:
    """Give a comment of the page another text."""
    return _at(comment, "/update/"), fill("#id_comment", text), _PUBLISH


def _results(poll: dict[str, Any]) -> Step:
    """Show the results of a poll, or its choices again."""
    return click(f"#p{poll['id']} a[href*='show_poll']")


def _like(comment: Comment, *, undo: bool = False) -> tuple[Step, Step]:
    """Like a comment, or no longer, and wait until the page shows it."""
    done = "/create/" if undo else "/delete/"
    return (
        _at(comment, "/like/"),
        wait_until(f"[data-pk='{comment['id']}'] a[href*='/like/'][href$='{done}']"),
    )


def _pages(topic: Topic) -> list[int]:
    return list(range(2, (len(topic["comments"]) - 1) // _PAGE + 2))


def _turn(number: int) -> Step:
    return click(f".paginator__button a[href^='?page={number}']:has(.fa-chevron-right)")


def _read_all(topic: Topic) -> tuple[Step, ...]:
    """Turn all pages of the topic that is open."""
    return tuple(_turn(number) for number in _pages(topic))


def _page_of(topic: Topic, comment: Comment) -> int:
    return int(topic["comments"].index(comment)) // _PAGE + 1


def _to_comment(topic: Topic, comment: Comment) -> tuple[Step, ...]:
    """Page through the open topic to a comment."""
    return tuple(_turn(number) for number in range(2, _page_of(topic, comment) + 1))


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


def _words(rng: random.Random, text: str) -> str:
    return text.format(day=rng.choice(_DAYS), hour=rng.choice(_HOURS))


def _answer_text(rng: random.Random) -> str:
    return _words(rng, rng.choice(_ANSWERS))


def _new_topic(rng: random.Random) -> tuple[str, str, str]:
    """Return a category, a title and a text."""
    category, title, text = rng.choice(_NEW_TOPICS)
    words = {
        "thing": rng.choice(_THINGS),
        "room": rng.choice(ROOMS),
        "day": rng.choice(_DAYS),
    }
    title = title.format(**words)
    return category, title[0].upper() + title[1:], text.format(**words)


# Members write.


@task("forum/reply", level=1, split="train")
def _reply(facts: Facts, rng: random.Random) -> Assignment:
    topic, text = rng.choice(find_unclosed_topics(facts["topics"])), _answer_text(rng)
    return assign(
        f'Reply in the topic "{topic["title"]}" with this text: "{text}"',
        (find_topic(topic["title"]), write_reply(text)),
        expect_reply(facts, topic, facts["user"], text),
    )


@task("forum/create-topic", level=1, split="train")
def _create_topic(facts: Facts, rng: random.Random) -> Assignment:
    category, title, text = _new_topic(rng)
    return assign(
        f'Create a topic with the title "{title}" in the category "{category}". '
        f'Its text is: "{text}"',
        start_topic(facts, category, title, text),
        expect_topic(facts, category, title, text),
    )


@task("forum/edit-own-comment", level=1, split="train")
def _edit_own_comment(facts: Facts, rng: random.Random) -> Assignment:
    user = facts["user"]
    fit = [
        t for t in plain_topics(facts["topics"]) if t["author"] != user and len(_by(t, user)) == 1
    ]
    topic, text = rng.choice(fit), _answer_text(rng)
    comment = _by(topic, user)[0]
    return assign(
        f'Replace the text of your comment in the topic "{topic["title"]}" by this text: "{text}"',
        (find_topic(topic["title"]), _rewrite(comment, text)),
        _edited(comment, text),
    )


@task("forum/append-to-own-comment", level=2, split="test")
def _append_to_own_comment(facts: Facts, rng: random.Random) -> Assignment:
    user = facts["user"]
    fit = [
        topic
        for topic in find_unclosed_topics(facts["topics"])
        if topic["author"] == user and topic["category"] in ("For Sale", "Commuting", "Hardware")
    ]
    topic = rng.choice(fit)
    comment = topic["comments"][0]
    addition = f"Update: please write to me by {rng.choice(_DAYS)} at {rng.choice(_HOURS)}."
    text = f"{comment['text']}\n\n{addition}"
    return assign(
        f"Add this sentence at the end of the opening comment of your topic "
        f'"{topic["title"]}", and leave the rest of it as it is: "{addition}"',
        (_menu("Profile"), click(".nav__tabs__link", "Topics")),
        (click("a.topic__link", topic["title"]), _rewrite(comment, text)),
        _edited(comment, text),
    )


@task("forum/rename-own-topic", level=1, split="train")
def _rename_own_topic(facts: Facts, rng: random.Random) -> Assignment:
    user = facts["user"]
    topic = rng.choice([t for t in find_unclosed_topics(facts["topics"]) if t["author"] == user])
    title = f"{topic['title']} ({rng.choice(('solved', 'update', 'still open', 'reserved'))})"
    return assign(
        f'Change the title of your topic "{topic["title"]}" to "{title}".',
        (find_topic(topic["title"]), click("a.topic_edit_link"), fill("#id_title", title), _SAVE),
        changed(
            _TOPIC,
            {"id": topic["id"]},
            title=same_text(title),
            slug=anything,
            reindex_at=anything,
        ),
    )


@task("forum/quote", level=2, split="train")
def _quote(facts: Facts, rng: random.Random) -> Assignment:
    topic, comment = rng.choice(_single(facts, plain_topics(facts["topics"])))
    text = _answer_text(rng)
    quoted = f"> @{comment['by']} said:\n> {comment['text']}"
    return assign(
        f'In the topic "{topic["title"]}", quote the comment of '
        f"{name_of(facts, comment['by'])} with the forum's quote function, and write below "
        f'the quotation: "{text}"',
        (find_topic(topic["title"]), _at(comment, "/quote/")),
        (fill("#id_comment", f"{quoted}\n\n{text}"), _PUBLISH),
        added(
            _COMMENT,
            topic_id=topic["id"],
            user_id=_id(facts, facts["user"]),
            comment=same_text(f"{quoted}\n\n{text}"),
        ),
        [_follows(facts, one, topic["id"]) for one in (facts["user"], comment["by"])],
        _grows(topic),
    )


@task("forum/create-poll", level=2, split="test")
def _create_poll(facts: Facts, rng: random.Random) -> Assignment:
    thing, room = rng.choice(_THINGS), rng.choice(ROOMS)
    title = f"Vote: {thing} for the {room} room"
    question = f"When shall we buy the {thing}?"
    options = rng.sample(_DAYS, rng.randint(2, 4))
    choices = "".join(f"{number}. {text}\n" for number, text in enumerate(options, 1))
    return assign(
        f'Create a topic with the title "{title}" in the category "Ideas". It contains nothing '
        f'but a poll with the title "{question}" and these choices, in this order: '
        f"{', '.join(options)}.",
        start_topic(
            facts,
            "Ideas",
            title,
            f"[poll name=1]\n# {question}\n{choices}[/poll]",
            click(".js-box-poll"),
        ),
        expect_topic(facts, "Ideas", title, _is_poll),
        added(_POLL, title=same_text(question), is_removed=0),
        [
            added(
                _CHOICE,
                poll_id=in_new(_POLL),
                number=number,
                description=same_text(text),
                is_removed=0,
            )
            for number, text in enumerate(options, 1)
        ],
    )


def _is_poll(comment: str) -> bool:
    """Return whether a comment is nothing but one poll."""
    return bool(re.fullmatch(r"\s*\[poll[^]]*\][^[]*\[/poll\]\s*", comment))


@task("forum/answer-own-question", level=3, split="train")
def _answer_own_question(facts: Facts, rng: random.Random) -> Assignment:
    first = rng.choice([t for t in visible_topics(facts["topics"]) if t["category"] == "Book Club"])
    second = rng.choice(
        [t for t in find_unclosed_topics(facts["topics"]) if t["category"] == "Board Games"]
    )
    text = f"The book has {first['details']['pages']} pages."
    return assign(
        f'How many pages does the book of the topic "{first["title"]}" have? Write it as a '
        f'reply in the topic "{second["title"]}", in these words, with the number in place of '
        f'N: "The book has N pages."',
        (_browse(facts, first), _browse(facts, second), write_reply(text)),
        expect_reply(facts, second, facts["user"], text),
    )


@task("forum/offer-less", level=3, split="test")
def _offer_less(facts: Facts, rng: random.Random) -> Assignment:
    adverts = [t for t in find_unclosed_topics(facts["topics"]) if t["category"] == "For Sale"]
    pair, cheap = _draw_cheapest([t for t in adverts if t["author"] != facts["user"]], 2, rng)
    less = rng.randint(2, 9)
    offer = int(cheap["details"]["price"]) - less
    text = f"I would pay £{offer}."
    items = " or the ".join(topic["details"]["item"] for topic in pair)
    return assign(
        f"You would buy the {items}, whichever is cheaper in the category For Sale. Reply in "
        f"the topic of the cheaper one with an offer that is £{less} below its price, in "
        f'these words, with the amount in place of N: "I would pay £N."',
        [_browse(facts, topic) for topic in pair],
        *(() if cheap is pair[1] else find_topic(cheap["title"])),
        write_reply(text),
        expect_reply(facts, cheap, facts["user"], text),
    )


def _draw_cheapest(
    adverts: Sequence[Topic], count: int, rng: random.Random
) -> tuple[list[Topic], Topic]:
    """Draw things for sale of which one is the cheapest, and return them and that one."""
    while True:
        drawn = rng.sample(adverts, count)
        if best := find_best(drawn, lambda topic: int(topic["details"]["price"]), min):
            return drawn, best


@task("forum/reply-twice", level=2, split="train")
def _reply_twice(facts: Facts, rng: random.Random) -> Assignment:
    fit = [
        t
        for t in find_unclosed_topics(facts["topics"])
        if t["category"] in ("Wanted", "Running", "Cooking")
    ]
    topics, text = rng.sample(fit, 2), _answer_text(rng)
    titles = " and ".join(f'"{topic["title"]}"' for topic in topics)
    return assign(
        f'Reply in both of the topics {titles} with the same text: "{text}"',
        [(find_topic(topic["title"]), write_reply(text)) for topic in topics],
        [expect_reply(facts, topic, facts["user"], text) for topic in topics],
    )


# Members like, subscribe, vote and report.


@task("forum/like", level=1, split="train")
def _like_one_comment(facts: Facts, rng: random.Random) -> Assignment:
    fit = [one for one in _single(facts, plain_topics(facts["topics"])) if not one[1]["liked"]]
    topic, comment = rng.choice(fit)
    return assign(
        f'Like the comment of {name_of(facts, comment["by"])} in the topic "{topic["title"]}".',
        (find_topic(topic["title"]), _like(comment)),
        _liked(facts, comment),
    )


def _liked(facts: Facts, comment: Comment) -> tuple[Expected, ...]:
    return (
        added(_LIKE, user_id=_id(facts, facts["user"]), comment_id=comment["id"]),
        changed(_COMMENT, {"id": comment["id"]}, likes_count=comment["likes"] + 1),
    )


@task("forum/like-all-of-one", level=3, split="train")
def _like_all_of_one(facts: Facts, rng: random.Random) -> Assignment:
    fit = [
        (topic, writer, comments)
        for topic in visible_topics(facts["topics"])
        if len(topic["comments"]) > _PAGE
        for writer in sorted({one["by"] for one in topic["comments"]})
        if writer not in (facts["user"], facts["spammer"])
        and len(comments := _by(topic, writer)) in (3, 4, 5)
        and not any(one["removed"] or one["liked"] for one in comments)
    ]
    topic, writer, comments = rng.choice(fit)
    return assign(
        f'Like every comment of {name_of(facts, writer)} in the topic "{topic["title"]}".',
        find_topic(topic["title"]),
        [
            (
                () if page == 1 else _turn(page),
                [_like(one) for one in comments if _page_of(topic, one) == page],
            )
            for page in (1, *_pages(topic))
        ],
        [_liked(facts, comment) for comment in comments],
    )


@task("forum/unlike", level=2, split="test")
def _unlike(facts: Facts, rng: random.Random) -> Assignment:
    topic, comment = rng.choice(
        [(t, c) for t in visible_topics(facts["topics"]) for c in t["comments"] if c["liked"]]
    )
    return assign(
        f'You like a comment in the topic "{topic["title"]}". Take your like back.',
        (find_topic(topic["title"]), _to_comment(topic, comment), _like(comment, undo=True)),
        removed(_LIKE, user_id=_id(facts, facts["user"]), comment_id=comment["id"]),
        changed(_COMMENT, {"id": comment["id"]}, likes_count=comment["likes"] - 1),
    )


_NOTIFY = click(".comments__footer_menu__notify input[type=submit]")


def _subscribed(facts: Facts, topic: Topic) -> Expected:
    return added(
        _NOTIFICATION, topic_id=topic["id"], user_id=_id(facts, facts["user"]), is_active=1
    )


@task("forum/subscribe", level=1, split="train")
def _subscribe(facts: Facts, rng: random.Random) -> Assignment:
    topic = rng.choice([t for t in visible_topics(facts["topics"]) if not t["subscribed"]])
    return assign(
        f'Let the forum notify you of new comments in the topic "{topic["title"]}".',
        (_browse(facts, topic), _NOTIFY),
        _subscribed(facts, topic),
    )


@task("forum/subscribe-to-several", level=2, split="train")
def _subscribe_to_several(facts: Facts, rng: random.Random) -> Assignment:
    fit = [
        topic
        for topic in visible_topics(facts["topics"])
        if topic["category"] == "Announcements" and topic["details"] and not topic["subscribed"]
    ]
    topics = rng.sample(fit, 3)
    systems = ", ".join(topic["details"]["system"] for topic in topics)
    return assign(
        "Let the forum notify you of new comments in the maintenance announcements of these "
        f"systems: {systems}.",
        [(find_topic(topic["title"]), _NOTIFY) for topic in topics],
        [_subscribed(facts, topic) for topic in topics],
    )


@task("forum/unsubscribe", level=1, split="test")
def _unsubscribe(facts: Facts, rng: random.Random) -> Assignment:
    topic = rng.choice([t for t in visible_topics(facts["topics"]) if t["subscribed"]])
    return assign(
        f'Stop the notifications of new comments in the topic "{topic["title"]}".',
        (find_topic(topic["title"]), _NOTIFY),
        changed(
            _NOTIFICATION,
            {"topic_id": topic["id"], "user_id": _id(facts, facts["user"])},
            is_active=0,
        ),
    )


def _polls(facts: Facts, *, closed: bool, voted: bool) -> list[Topic]:
    return [
        topic
        for topic in visible_topics(facts["topics"])
        if (poll := topic["poll"])
        and poll["closed"] == closed
        and (poll["voted"] is not None) == voted
    ]


def _draw_decided_poll(facts: Facts, rng: random.Random) -> tuple[Topic, dict[str, Any]]:
    """Return the topic of an open poll in which one choice leads, and this choice."""
    return rng.choice(
        [
            (topic, leader)
            for topic in _polls(facts, closed=False, voted=False)
            if (leader := find_best(topic["poll"]["options"], lambda one: one["votes"]))
        ]
    )


def _vote(poll: dict[str, Any], option: dict[str, Any]) -> tuple[Step, ...]:
    return (
        check(f"#p{poll['id']} input[type=radio][value='{option['id']}']"),
        click(f"#p{poll['id']} input[type=submit]"),
    )


def _voted(facts: Facts, option: dict[str, Any]) -> tuple[Expected, ...]:
    return (
        added(
            "spirit_comment_poll_commentpollvote",
            voter_id=_id(facts, facts["user"]),
            choice_id=option["id"],
            is_removed=0,
        ),
        changed(
            _CHOICE,
            {"id": option["id"]},
            vote_count=option["votes"] + 1,
        ),
    )


@task("forum/vote", level=1, split="train")
def _vote_in_poll(facts: Facts, rng: random.Random) -> Assignment:
    topic = rng.choice(_polls(facts, closed=False, voted=False))
    option = rng.choice(topic["poll"]["options"])
    return assign(
        f'Vote for "{option["text"]}" in the poll of the topic "{topic["title"]}".',
        (_browse(facts, topic), _vote(topic["poll"], option)),
        _voted(facts, option),
    )


_NEW_VOTE = """
    INSERT INTO spirit_comment_poll_commentpollvote (voter_id, choice_id, is_removed, created_at)
    VALUES (?, ?, 0, ?)
"""


@task("forum/change-vote", level=2, split="test")
def _change_vote(facts: Facts, rng: random.Random) -> Assignment:
    topic, user = rng.choice(_polls(facts, closed=False, voted=False)), _id(facts, facts["user"])
    poll = topic["poll"]
    old, option = rng.sample(poll["options"], 2)
    return assign(
        f'You voted in the poll of the topic "{topic["title"]}". '
        f'Change your vote to "{option["text"]}".',
        (find_topic(topic["title"]), _results(poll), _vote(poll, option)),
        _voted(facts, option),
        changed(
            "spirit_comment_poll_commentpollvote",
            {"voter_id": user, "choice_id": old["id"]},
            is_removed=1,
        ),
        changed(_CHOICE, {"id": old["id"]}, vote_count=old["votes"]),
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
        (find_topic(topic["title"]), _results(topic["poll"]), _results(topic["poll"])),
        _vote(topic["poll"], option),
        _voted(facts, option),
    )


@task("forum/close-own-poll", level=1, split="train")
def _close_own_poll(facts: Facts, rng: random.Random) -> Assignment:
    fit = [t for t in _polls(facts, closed=False, voted=False) if t["author"] == facts["user"]]
    topic = rng.choice(fit)
    return assign(
        f'Close the poll in your topic "{topic["title"]}", so that nobody can vote any more.',
        (find_topic(topic["title"]), click(f"#p{topic['poll']['id']} a[href*='/poll/close/']")),
        changed(
            _POLL,
            {"id": topic["poll"]["id"]},
            close_at=on_day("2026-03-02"),
        ),
    )


@task("forum/report-comment", level=2, split="train")
def _report_bad_comment(facts: Facts, rng: random.Random) -> Assignment:
    flagged = {flag["comment"] for flag in facts["flags"]}
    fit = [
        one for one in _single(facts, plain_topics(facts["topics"])) if one[1]["id"] not in flagged
    ]
    topic, comment = rng.choice(fit)
    reason = rng.choice(("Spam", "Other"))
    text = rng.choice(("Please have a look.", "This is off topic.", "I do not like the tone."))
    return assign(
        f"Report the comment of {name_of(facts, comment['by'])} in the topic "
        f'"{topic["title"]}". The reason is "{reason}", and the text is: "{text}"',
        (find_topic(topic["title"]), _at(comment, "/flag/"), select("#id_reason", reason)),
        (fill("#id_body", text), _SAVE),
        added(
            "spirit_comment_flag_flag",
            user_id=_id(facts, facts["user"]),
            comment_id=comment["id"],
            reason=int(reason == "Other"),
            body=same_text(text),
        ),
        added(_FLAG, comment_id=comment["id"], is_closed=0),
    )


# Private topics.


@task("forum/private-message", level=2, split="train")
def _private_message(facts: Facts, rng: random.Random) -> Assignment:
    other = rng.choice([one for one in facts["users"] if one["role"] == "member"][1:])
    title = f"{rng.choice(('Lunch', 'A question', 'Meeting', 'Handover'))} on {rng.choice(_DAYS)}"
    text = _answer_text(rng)
    return assign(
        f"Start a private topic with {other['name']} (user name {other['username']}). "
        f'Title: "{title}". Text: "{text}"',
        (_menu("Private topics"), click(".menu__new_topic a")),
        _write_private(title, text, [other["username"]]),
        _private_topic(facts, title, text, [other["username"]]),
    )


def _private_topic(
    facts: Facts, title: str, text: str, invited: Sequence[str]
) -> tuple[Expected, ...]:
    """Expect a new private topic of the user."""
    user = _id(facts, facts["user"])
    return (
        added(_TOPIC, title=same_text(title), category_id=1, user_id=user),
        added(_COMMENT, comment=same_text(text), user_id=user, topic_id=in_new(_TOPIC)),
        *(
            added(_ACCESS, user_id=_id(facts, one), topic_id=in_new(_TOPIC))
            for one in (facts["user"], *invited)
        ),
        *(_follows(facts, one, in_new(_TOPIC)) for one in (facts["user"], *invited)),
    )


def _write_private(title: str, text: str, invited: Sequence[str]) -> tuple[Step, ...]:
    return (
        fill("#id_title", title),
        fill("#id_users", ", ".join(invited)),
        fill("#id_comment", text),
        _PUBLISH,
    )


@task("forum/write-to-author", level=3, split="test")
def _write_to_author(facts: Facts, rng: random.Random) -> Assignment:
    fit = [t for t in visible_topics(facts["topics"]) if t["category"] in ("Commuting", "For Sale")]
    fit = [topic for topic in fit if topic["author"] != facts["user"]]
    first = rng.choice(fit)
    second = rng.choice([topic for topic in fit if topic["author"] != first["author"]])
    title, text = f"Coffee on {rng.choice(_DAYS)}", f"Do you have time at {rng.choice(_HOURS)}?"
    writers = [first["author"], second["author"]]
    return assign(
        f'Start one private topic with the authors of the topics "{first["title"]}" and '
        f'"{second["title"]}", both together. Title: "{title}". Text: "{text}"',
        (_browse(facts, first), _browse(facts, second), _menu("Private topics")),
        (click(".menu__new_topic a"), _write_private(title, text, writers)),
        _private_topic(facts, title, text, writers),
    )


def _private(facts: Facts, *, own: bool) -> list[Topic]:
    return [t for t in facts["private"] if (t["author"] == facts["user"]) == own]


def _open_private(topic: Topic) -> tuple[Step, ...]:
    return (*_menu("Private topics"), click("a.topic__link", topic["title"]))


@task("forum/private-reply", level=1, split="train")
def _private_reply(facts: Facts, rng: random.Random) -> Assignment:
    topic, text = rng.choice(facts["private"]), _answer_text(rng)
    return assign(
        f'Reply in the private topic "{topic["title"]}" with this text: "{text}"',
        (_open_private(topic), write_reply(text)),
        expect_reply(facts, topic, facts["user"], text),
    )


@task("forum/invite", level=2, split="test")
def _invite(facts: Facts, rng: random.Random) -> Assignment:
    topic = rng.choice(_private(facts, own=True))
    fit = [u for u in facts["users"][3:] if u["username"] not in topic["members"]]
    other = rng.choice(fit)
    return assign(
        f'Invite {other["name"]} to your private topic "{topic["title"]}".',
        (_open_private(topic), fill(".invite_user input[name=user]", other["username"])),
        click(".invite_user input[type=submit]"),
        added(_ACCESS, topic_id=topic["id"], user_id=other["id"]),
        _follows(facts, other["username"], topic["id"]),
    )


@task("forum/remove-from-private", level=2, split="train")
def _remove_from_private(facts: Facts, rng: random.Random) -> Assignment:
    topic = rng.choice(_private(facts, own=True))
    other = rng.choice([one for one in topic["members"] if one != facts["user"]])
    return assign(
        f"Remove {name_of(facts, other)} from the participants of your private topic "
        f'"{topic["title"]}".',
        (_open_private(topic), click(".layout__menu .dropdown_button")),
        click(f".menu_list__participant:has(a[href$='/{other}/']) .menu_list__participant__remove"),
        click(".layout__article form input[type=submit]"),
        _left(facts, topic, other),
    )


def _left(facts: Facts, topic: Topic, username: str) -> Expected:
    return removed(_ACCESS, topic_id=topic["id"], user_id=_id(facts, username))


@task("forum/leave-private", level=1, split="train")
def _leave_private(facts: Facts, rng: random.Random) -> Assignment:
    topic = rng.choice(_private(facts, own=False))
    return assign(
        f'Leave the private topic "{topic["title"]}".',
        (_open_private(topic), click(".menu__new_topic a", "Leave topic")),
        _left(facts, topic, facts["user"]),
    )


# Preferences.

_ZONES = ("Europe/Berlin", "Europe/Madrid", "Asia/Tokyo", "America/Toronto", "Africa/Accra")
_HOMES = (
    "Seaford",
    "Highbridge",
    "Stonewell",
    "Marlow Bay",
    "Old Quay",
    "Westhaven",
    "Larkfield",
    "Elmstead",
    "Ravensby",
    "Coldwater",
)


def _prefer(*fields: Step) -> tuple[Step, ...]:
    """Change one's preferences."""
    return (*_menu("Profile"), click(".profile__profile_preferences a"), *fields, _SAVE)


@task("forum/preferences", level=2, split="train")
def _preferences(facts: Facts, rng: random.Random) -> Assignment:
    town = rng.choice(_HOMES)
    zone = rng.choice(_ZONES)
    return assign(
        f"In your preferences, set your location to {town} and your time zone to {zone}.",
        _prefer(fill("#id_location", town), _choose("#id_timezone", zone)),
        changed(_PROFILE, {"user_id": _id(facts, facts["user"])}, location=town, timezone=zone),
    )


def _choose(field: str, value: Any) -> Step:
    """Choose an option by its value; the list shows zones with their offset, for instance."""

    async def step(page: OracleView) -> AsyncIterator[a.Action]:
        label = await page.evaluate(
            "([field, value]) => document.querySelector(`${field} option[value='${value}']`).label",
            [field, value],
        )
        ref = await page.find((field,))
        assert ref is not None
        yield a.SelectOption(ref, (label,))

    return step


@task("forum/email-preferences", level=2, split="test")
def _email_preferences(facts: Facts, rng: random.Random) -> Assignment:
    town = rng.choice(_HOMES)
    when, bit = rng.choice((("Immediately", 2), ("Weekly", 4)))
    label, field, left = rng.choice(
        (("mentions", "#id_notify_mentions", 16), ("replies", "#id_notify_replies", 8))
    )
    return assign(
        f'In your preferences, set the email notifications to "{when}", and switch the emails '
        f"about {label} off. Leave the other emails as they are. Also set your location "
        f"to {town}.",
        _prefer(select("#id_notify_when", when), uncheck(field), fill("#id_location", town)),
        changed(_PROFILE, {"user_id": _id(facts, facts["user"])}, notify=bit | left, location=town),
    )


# Questions.


@task("forum/who-started", level=1, split="train")
def _who_started(facts: Facts, rng: random.Random) -> Assignment:
    topic = rng.choice(visible_topics(facts["topics"]))
    return assign(
        f'Who started the topic "{topic["title"]}"? Answer with first and last name.',
        _browse(facts, topic),
        answer=name_of(facts, topic["author"]),
    )


@task("forum/last-reply", level=2, split="train")
def _last_reply(facts: Facts, rng: random.Random) -> Assignment:
    fit = [
        topic
        for topic in visible_topics(facts["topics"])
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
    topic = rng.choice([t for t in visible_topics(facts["topics"]) if t["category"] == "For Sale"])
    return assign(
        f"How much does the {topic['details']['item']} in the category For Sale cost? "
        "Answer with the number of pounds.",
        _browse(facts, topic),
        answer=f"{topic['details']['price']} pounds",
    )


@task("forum/maintenance", level=1, split="test")
def _maintenance(facts: Facts, rng: random.Random) -> Assignment:
    fit = [t for t in visible_topics(facts["topics"]) if t["title"].startswith("Maintenance")]
    topic = rng.choice(fit)
    details = topic["details"]
    whom = f"Who is the contact for the maintenance of the {details['system']}?"
    long = f"How many hours does the announced maintenance of the {details['system']} take?"
    question, right = rng.choice(
        (
            (f"{whom} Answer with first and last name.", details["contact"]),
            (f"{long} Answer with the number.", f"{details['hours']} hours"),
        )
    )
    return assign(question, _browse(facts, topic), answer=right)


@task("forum/lost-and-found", level=1, split="train")
def _lost_and_found(facts: Facts, rng: random.Random) -> Assignment:
    topic = rng.choice(
        [t for t in visible_topics(facts["topics"]) if t["category"] == "Lost and Found"]
    )
    details = topic["details"]
    question = (
        f"Somebody found a {details['thing']}. In which room can you fetch it?"
        if topic["title"].startswith("Found")
        else f"Somebody lost a {details['thing']}. To which room are you asked to bring it?"
    )
    return assign(
        f"{question} Answer with the name of the room, one word.",
        find_topic(topic["title"]),
        answer=details["room"],
    )


@task("forum/cheapest", level=3, split="test")
def _cheapest(facts: Facts, rng: random.Random) -> Assignment:
    fit = [t for t in visible_topics(facts["topics"]) if t["category"] == "For Sale"]
    topics, best = _draw_cheapest(fit, 4, rng)
    items = ", ".join(topic["details"]["item"] for topic in topics)
    return assign(
        f"Which of these is the cheapest in the category For Sale: {items}? "
        "Answer with its name as given here.",
        [find_topic(topic["title"]) for topic in topics],
        answer=best["details"]["item"],
    )


@task("forum/total-budget", level=3, split="train")
def _total_budget(facts: Facts, rng: random.Random) -> Assignment:
    fit = [t for t in visible_topics(facts["topics"]) if t["category"] == "Projects"]
    topics = rng.sample(fit, 3)
    titles = ", ".join(f'"{topic["title"]}"' for topic in topics)
    return assign(
        "What is the sum of the budgets in the opening comments of these topics? "
        f"{titles}. Answer with the number of pounds.",
        [_browse(facts, topic) for topic in topics],
        answer=f"{sum(int(topic['details']['budget']) for topic in topics)} pounds",
    )


@task("forum/most-liked", level=2, split="train")
def _most_liked(facts: Facts, rng: random.Random) -> Assignment:
    fit = [
        (topic, best)
        for topic in visible_topics(facts["topics"])
        if len(topic["comments"]) > 8
        and (best := find_best(topic["comments"], lambda one: one["likes"]))
    ]
    topic, best = rng.choice(fit)
    return assign(
        f'Who wrote the comment with the most likes in the topic "{topic["title"]}"? '
        "Answer with first and last name.",
        (find_topic(topic["title"]), _read_all(topic)),
        answer=name_of(facts, best["by"]),
    )


@task("forum/count-comments", level=3, split="test")
def _count_comments(facts: Facts, rng: random.Random) -> Assignment:
    fit = [
        (topic, writer)
        for topic in visible_topics(facts["topics"])
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
    topics = visible_topics(facts["topics"])
    topic = rng.choice([t for t in topics if t["category"] in ("Running", "Cooking", "Software")])
    writer = topic["author"]
    count = sum(one["author"] == writer for one in topics)
    return assign(
        f'How many topics did the author of the topic "{topic["title"]}" start in the whole '
        "forum, this one included? Answer with the number.",
        find_topic(topic["title"]),
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
        (find_topic(topic["title"]), _results(topic["poll"])),
        answer=best["text"],
    )


@task("forum/poll-voters", level=2, split="test")
def _poll_voters(facts: Facts, rng: random.Random) -> Assignment:
    topic = rng.choice([t for t in visible_topics(facts["topics"]) if t["poll"]])
    poll = topic["poll"]
    option = rng.choice([one for one in poll["options"] if one["votes"]])
    shown = poll["closed"] or poll["voted"] is not None
    return assign(
        f'How many members voted for "{option["text"]}" in the poll of the topic '
        f'"{topic["title"]}"? Do not vote yourself. Answer with the number.',
        find_topic(topic["title"]),
        *(() if shown else (_results(poll),)),
        click(f"#p{poll['id']} a[href='/comment/poll/voters/{option['id']}/']"),
        answer=str(option["votes"]),
    )


@task("forum/early-car-pool", level=3, split="train")
def _early_car_pool(facts: Facts, rng: random.Random) -> Assignment:
    fit = [t for t in visible_topics(facts["topics"]) if t["category"] == "Commuting"]
    while True:
        topics = rng.sample(fit, 3)
        hours = sorted(topic["details"]["hour"] for topic in topics)
        if hours[0] != hours[1]:
            break
    towns = ", ".join(topic["details"]["town"] for topic in topics)
    first = min(topics, key=lambda topic: str(topic["details"]["hour"]))
    return assign(
        f"There are car pools from {towns} in the category Commuting. Whose leaves first in "
        "the morning? Answer with the driver's first and last name.",
        [find_topic(topic["title"]) for topic in topics],
        answer=name_of(facts, first["author"]),
    )


# Moderators.


@task("forum/close-topic", level=1, split="train", user="moderator")
def _close_topic(facts: Facts, rng: random.Random) -> Assignment:
    topic = rng.choice(find_unclosed_topics(facts["topics"]))
    return assign(
        f'As a moderator, close the topic "{topic["title"]}".',
        (find_topic(topic["title"]), _moderate("Close topic")),
        _moderated(facts, topic, facts["moderator"], _CLOSED, is_closed=1),
    )


@task("forum/reopen-topic", level=1, split="test", user="moderator")
def _reopen_topic(facts: Facts, rng: random.Random) -> Assignment:
    topic = rng.choice(visible_topics(facts["topics"]))
    return assign(
        f'As a moderator, open the closed topic "{topic["title"]}" again.',
        (find_topic(topic["title"]), _moderate("Open topic")),
        _moderated(facts, topic, facts["moderator"], _UNCLOSED, is_closed=0),
        prepare=(_set_topic(topic, "is_closed", 1),),
    )


@task("forum/pin-topic", level=1, split="train", user="moderator")
def _pin_topic(facts: Facts, rng: random.Random) -> Assignment:
    fit = [t for t in visible_topics(facts["topics"]) if not (t["pinned"] or t["globally_pinned"])]
    topic, everywhere = rng.choice(fit), rng.random() < 0.5
    new = {"is_globally_pinned": 1} if everywhere else {"is_pinned": 1}
    return assign(
        f'As a moderator, pin the topic "{topic["title"]}" globally, not only in its category.'
        if everywhere
        else f'As a moderator, pin the topic "{topic["title"]}" in its category, not globally.',
        find_topic(topic["title"]),
        _moderate("Pin topic globally" if everywhere else "Pin topic"),
        _moderated(facts, topic, facts["moderator"], _PINNED, **new),
    )


@task("forum/unpin-topic", level=1, split="test", user="moderator")
def _unpin_topic(facts: Facts, rng: random.Random) -> Assignment:
    topic = rng.choice([t for t in visible_topics(facts["topics"]) if not t["globally_pinned"]])
    return assign(
        f'As a moderator, unpin the pinned topic "{topic["title"]}".',
        (find_topic(topic["title"]), _moderate("Unpin topic")),
        _moderated(facts, topic, facts["moderator"], _UNPINNED, is_pinned=0),
        prepare=(_set_topic(topic, "is_pinned", 1),),
    )


@task("forum/delete-topic", level=1, split="train", user="moderator")
def _delete_topic(facts: Facts, rng: random.Random) -> Assignment:
    topic = rng.choice(visible_topics(facts["topics"]))
    return assign(
        f'As a moderator, delete the topic "{topic["title"]}".',
        (find_topic(topic["title"]), _moderate("Delete topic")),
        changed(_TOPIC, {"id": topic["id"]}, is_removed=1, reindex_at=anything),
    )


@task("forum/move-topic", level=2, split="train", user="moderator")
def _move_topic(facts: Facts, rng: random.Random) -> Assignment:
    topic = rng.choice(find_unclosed_topics(facts["topics"]))
    fit = [c for c in facts["categories"] if c["title"] != topic["category"] and c["parent"]]
    category = rng.choice(fit)
    return assign(
        f'As a moderator, move the topic "{topic["title"]}" to the category '
        f'"{category["title"]}", which is part of "{category["parent"]}".',
        (find_topic(topic["title"]), _move_to(category)),
        _moderated(facts, topic, facts["moderator"], _MOVED, category_id=category["id"]),
    )


def _move_to(category: dict[str, Any]) -> tuple[Step, ...]:
    """Move the topic that is open."""
    return click("a.topic_edit_link"), _choose("#id_category", category["id"]), _SAVE


@task("forum/move-and-close", level=3, split="test", user="moderator")
def _move_and_close(facts: Facts, rng: random.Random) -> Assignment:
    fit = [
        t
        for t in find_unclosed_topics(facts["topics"])
        if t["category"] in ("Hardware", "Software")
    ]
    topic = rng.choice(fit)
    target = find(
        facts["categories"], title="Software" if topic["category"] == "Hardware" else "Hardware"
    )
    text = f"I moved this to {target['title']}."
    moderator = facts["moderator"]
    return assign(
        f'The topic "{topic["title"]}" is in the wrong category. As a moderator, move it to '
        f'"{target["title"]}", reply in it with the text "{text}", and then close it.',
        (_browse(facts, topic), _move_to(target), write_reply(text), _moderate("Close topic")),
        changed(
            _TOPIC,
            {"id": topic["id"]},
            category_id=target["id"],
            is_closed=1,
            reindex_at=anything,
            comment_count=len(topic["comments"]) + 1,
            last_active=anything,
        ),
        *expect_reply(facts, topic, moderator, text)[:2],
        [
            added(_COMMENT, topic_id=topic["id"], user_id=_id(facts, moderator), action=action)
            for action in (_MOVED, _CLOSED)
        ],
    )


@task("forum/delete-comment", level=2, split="train", user="moderator")
def _delete_comment(facts: Facts, rng: random.Random) -> Assignment:
    topic, comment = rng.choice(_single(facts, plain_topics(facts["topics"])))
    return assign(
        f"As a moderator, delete the comment of {name_of(facts, comment['by'])} in the topic "
        f'"{topic["title"]}".',
        (_browse(facts, topic), _at(comment, "/delete/")),
        changed(_COMMENT, {"id": comment["id"]}, is_removed=1),
    )


@task("forum/undelete-comment", level=1, split="test", user="moderator")
def _undelete_comment(facts: Facts, rng: random.Random) -> Assignment:
    topic, comment = rng.choice(_single(facts, plain_topics(facts["topics"])))
    return assign(
        f'As a moderator, undelete the deleted comment in the topic "{topic["title"]}".',
        (find_topic(topic["title"]), _at(comment, "/undelete/")),
        changed(_COMMENT, {"id": comment["id"]}, is_removed=0),
        prepare=(_set_removed(comment),),
    )


@task("forum/censor-comment", level=2, split="train", user="moderator")
def _censor_comment(facts: Facts, rng: random.Random) -> Assignment:
    topic, comment = rng.choice(_single(facts, plain_topics(facts["topics"])))
    text = rng.choice(
        ("Removed by a moderator.", "Please stay friendly.", "Moved to the intranet.")
    )
    return assign(
        f"As a moderator, replace the text of {name_of(facts, comment['by'])}'s comment in the "
        f'topic "{topic["title"]}" by: "{text}"',
        (find_topic(topic["title"]), _rewrite(comment, text)),
        _edited(comment, text),
    )


@task("forum/clean-up-spam", level=3, split="train", user="moderator")
def _clean_up_spam(facts: Facts, rng: random.Random) -> Assignment:
    spammer = facts["spammer"]
    topic = rng.choice(
        [t for t in find_unclosed_topics(facts["topics"]) if len(_by(t, spammer)) > 1]
    )
    return assign(
        f"The account of {name_of(facts, spammer)} was abused for advertising. As a moderator, "
        f'delete all comments of this account in the topic "{topic["title"]}".',
        [
            # A deletion leads to the page of the comment; each one is looked for from the start.
            (find_topic(topic["title"]), _to_comment(topic, comment), _at(comment, "/delete/"))
            for comment in _by(topic, spammer)
        ],
        [changed(_COMMENT, {"id": comment["id"]}, is_removed=1) for comment in _by(topic, spammer)],
    )


@task("forum/move-comment", level=3, split="test", user="moderator")
def _move_comment(facts: Facts, rng: random.Random) -> Assignment:
    topics = plain_topics(facts["topics"])
    topic, comment = rng.choice(_single(facts, topics))
    target = rng.choice([t for t in topics if t["id"] != topic["id"]])
    return assign(
        f"As a moderator, move the comment of {name_of(facts, comment['by'])} in the topic "
        f'"{topic["title"]}" to the topic "{target["title"]}".',
        (
            find_topic(target["title"]),  # Its number is in the address.
            find_topic(topic["title"]),
            _moderate("Select comments to move"),
            check(f".js-move-comment-checkbox[value='{comment['id']}']"),
            fill("#id_move_comments_topic", str(target["id"])),
            click(".js-move-comments-button"),
        ),
        changed(_COMMENT, {"id": comment["id"]}, topic_id=target["id"]),
        changed(_TOPIC, {"id": topic["id"]}, comment_count=len(topic["comments"]) - 1),
        (_follows(facts, comment["by"], target["id"]), _grows(target)),
    )


@task("forum/close-duplicate", level=2, split="train", user="moderator")
def _close_duplicate(facts: Facts, rng: random.Random) -> Assignment:
    fit = [
        t
        for t in find_unclosed_topics(facts["topics"])
        if t["category"] in ("Network", "Wanted", "Gardening")
    ]
    topic, other = rng.sample(fit, 2)
    text, moderator = f"See also: {other['title']}", facts["moderator"]
    return assign(
        f'As a moderator, reply in the topic "{topic["title"]}" with the text "{text}", and '
        "then close this topic.",
        (find_topic(topic["title"]), write_reply(text), _moderate("Close topic")),
        *expect_reply(facts, topic, moderator, text)[:2],
        changed(
            _TOPIC,
            {"id": topic["id"]},
            is_closed=1,
            reindex_at=anything,
            comment_count=len(topic["comments"]) + 1,
            last_active=anything,
        ),
        added(_COMMENT, topic_id=topic["id"], user_id=_id(facts, moderator), action=_CLOSED),
    )


# Administrators.


@task("forum/undelete-topic", level=2, split="test", user="admin")
def _undelete_topic(facts: Facts, rng: random.Random) -> Assignment:
    topic = rng.choice(facts["topics"])
    return assign(
        f'As an administrator, undelete the deleted topic "{topic["title"]}".',
        (_admin("Topics"), click(".layout__admin a", topic["title"]), _moderate("Undelete topic")),
        changed(_TOPIC, {"id": topic["id"]}, is_removed=0, reindex_at=anything),
        prepare=(_set_topic(topic, "is_removed", 1),),
    )


@task("forum/create-category", level=2, split="train", user="admin")
def _create_category(facts: Facts, rng: random.Random) -> Assignment:
    title = rng.choice(("Chess", "Photography", "Safety", "Trainees", "Pets", "Parents", "Sailing"))
    parent = rng.choice([c for c in facts["categories"] if not c["parent"]])
    description = f"Everything about {title.lower()} at Northfield"
    color = f"#{rng.randrange(0x1000000):06x}"
    return assign(
        f'As an administrator, create the category "{title}" inside "{parent["title"]}". '
        f'Description: "{description}". Colour: {color}.',
        (_admin("Categories"), click(".admin__category_menu__new_category a")),
        (select("#id_parent", parent["title"]), fill("#id_title", title)),
        (fill("#id_description", description), fill("#id_color", color), _SAVE),
        added(
            _CATEGORY,
            title=title,
            parent_id=parent["id"],
            description=same_text(description),
            color=same_text(color),
            is_closed=0,
            is_removed=0,
            is_global=1,
        ),
    )


def _edit_category(category: dict[str, Any]) -> tuple[Step, ...]:
    return (
        *_admin("Categories"),
        click(f"a[href='/st/admin/category/update/{category['id']}/']"),
    )


@task("forum/describe-category", level=2, split="train", user="admin")
def _describe_category(facts: Facts, rng: random.Random) -> Assignment:
    category = rng.choice(facts["categories"])
    text = f"{category['title']}: ask here, best before {rng.choice(_DAYS)}"
    return assign(
        f'As an administrator, change the description of the category "{category["title"]}" '
        f'to "{text}".',
        (_edit_category(category), fill("#id_description", text), _SAVE),
        changed(
            _CATEGORY,
            {"id": category["id"]},
            description=same_text(text),
            reindex_at=anything,
        ),
    )


@task("forum/close-category", level=2, split="test", user="admin")
def _close_category(facts: Facts, rng: random.Random) -> Assignment:
    category = rng.choice([c for c in facts["categories"] if c["parent"]])
    return assign(
        f'As an administrator, close the category "{category["title"]}", so that nobody can '
        "create topics in it. Do not remove it.",
        (_edit_category(category), check("#id_is_closed"), _SAVE),
        changed(_CATEGORY, {"id": category["id"]}, is_closed=1, reindex_at=anything),
    )


def _edit_user(user: dict[str, Any]) -> tuple[Step, ...]:
    """Open the settings of a member, who may be on any page of the list."""
    return (*_admin("Users"), _page_to("", f"a[href='/st/admin/user/edit/{user['id']}/']"))


@task("forum/make-moderator", level=2, split="train", user="admin")
def _make_moderator(facts: Facts, rng: random.Random) -> Assignment:
    user = rng.choice([one for one in facts["users"] if one["role"] == "member"])
    return assign(
        f"As an administrator, give {user['name']} (user name {user['username']}) the "
        "moderator status.",
        (_edit_user(user), check("#id_is_moderator"), _SAVE),
        changed(_PROFILE, {"user_id": user["id"]}, is_moderator=1),
    )


@task("forum/deactivate-member", level=2, split="test", user="admin")
def _deactivate_member(facts: Facts, rng: random.Random) -> Assignment:
    user = rng.choice([one for one in facts["users"] if one["role"] == "member"])
    return assign(
        f"{user['name']} has left the company. As an administrator, deactivate the account.",
        (_edit_user(user), uncheck("#id_is_active"), _SAVE),
        changed("auth_user", {"id": user["id"]}, is_active=0),
    )


@task("forum/settings", level=2, split="train", user="admin")
def _settings(facts: Facts, rng: random.Random) -> Assignment:
    count = rng.choice((10, 15, 25, 30, 40, 50))
    what = rng.choice(("comments", "topics"))
    text = f"Northfield talks, {rng.choice(_DAYS)}s and always"
    return assign(
        f"As an administrator, change the forum's basic settings: {count} {what} per page, "
        f'and the site description "{text}".',
        (_admin("Basic settings"), fill("#id_site_description", text)),
        (fill(f"#id_{what}_per_page", str(count)), _SAVE),
        changed("djconfig_config", {"key": f"{what}_per_page"}, value=str(count)),
        changed("djconfig_config", {"key": "site_description"}, value=same_text(text)),
        changed("djconfig_config", {"key": "_updated_at"}, value=anything),
    )


@task("forum/settle-flag", level=3, split="train", user="admin")
def _settle_flag(facts: Facts, rng: random.Random) -> Assignment:
    (topic, comment), admin = _draw_unreported(facts, rng), facts["admin"]
    return assign(
        f'A comment in the topic "{topic["title"]}" was reported. As an administrator, delete '
        "this comment, and close its flag.",
        (_open_flag(_new_flag(comment)), _DELETE_AND_CLOSE),
        changed(_COMMENT, {"id": comment["id"]}, is_removed=1),
        changed(_FLAG, {"id": _new_flag(comment)}, is_closed=1, moderator_id=_id(facts, admin)),
        prepare=_report_comment(facts, comment, rng),
    )


_DELETE_AND_CLOSE = (click(".comment__actions a", "delete"), check("#id_is_closed"), _SAVE)
"""Delete the comment of the flag that is open, and close the flag."""


def _open_flag(flag: int) -> tuple[Step, ...]:
    return (*_admin("Flags"), click(f"a[href='/st/admin/comment/flag/{flag}/']"))


@task("forum/dismiss-flag", level=2, split="test", user="admin")
def _dismiss_flag(facts: Facts, rng: random.Random) -> Assignment:
    (topic, comment), admin = _draw_unreported(facts, rng), facts["admin"]
    return assign(
        f'A comment in the topic "{topic["title"]}" was reported, but it is harmless. As an '
        "administrator, close its flag and keep the comment.",
        (_open_flag(_new_flag(comment)), check("#id_is_closed"), _SAVE),
        changed(_FLAG, {"id": _new_flag(comment)}, is_closed=1, moderator_id=_id(facts, admin)),
        prepare=_report_comment(facts, comment, rng),
    )


@task("forum/clean-up-flags", level=3, split="test", user="admin")
def _clean_up_flags(facts: Facts, rng: random.Random) -> Assignment:
    spam = [one for one in facts["flags"] if one["spam"] and not one["closed"]]
    topics = {topic["id"]: topic for topic in facts["topics"]}
    flags, admin = rng.sample(spam, 2), facts["admin"]
    titles = " and ".join(f'"{topics[flag["topic"]]["title"]}"' for flag in flags)
    return assign(
        f"Advertising was reported in the topics {titles}. As an administrator, delete the two "
        "reported comments, and close their flags.",
        [
            (
                _open_flag(flag["id"]),
                _DELETE_AND_CLOSE,
            )
            for flag in flags
        ],
        [
            (
                changed(_COMMENT, {"id": flag["comment"]}, is_removed=1),
                changed(_FLAG, {"id": flag["id"]}, is_closed=1, moderator_id=_id(facts, admin)),
            )
            for flag in flags
        ],
    )


@task("forum/count-reporters", level=1, split="train", user="admin")
def _count_reporters(facts: Facts, rng: random.Random) -> Assignment:
    topic, comment = _draw_unreported(facts, rng)
    prepare = _report_comment(facts, comment, rng)
    return assign(
        f'A comment in the topic "{topic["title"]}" was reported. How many members reported '
        "it? You are an administrator. Answer with the number.",
        _open_flag(_new_flag(comment)),
        prepare=prepare,
        answer=str(len(prepare) - 1),
    )


# What cannot be done.


@task("forum/delete-own-topic", level=1, split="train", infeasible=True)
def _delete_own_topic(facts: Facts, rng: random.Random) -> Assignment:
    topic = rng.choice(
        [t for t in find_unclosed_topics(facts["topics"]) if t["author"] == facts["user"]]
    )
    return assign(
        f'Delete your topic "{topic["title"]}", without asking anybody else.',
        (find_topic(topic["title"]), click("a.topic_edit_link")),
    )


@task("forum/reply-in-closed-topic", level=1, split="train", infeasible=True)
def _reply_in_closed_topic(facts: Facts, rng: random.Random) -> Assignment:
    topic = rng.choice(visible_topics(facts["topics"]))
    return assign(
        f'Reply in the topic "{topic["title"]}" with this text: "{_answer_text(rng)}"',
        find_topic(topic["title"]),
        prepare=(_set_topic(topic, "is_closed", 1),),
    )


@task("forum/vote-in-closed-poll", level=1, split="train", infeasible=True)
def _vote_in_closed_poll(facts: Facts, rng: random.Random) -> Assignment:
    topic = rng.choice(_polls(facts, closed=False, voted=False))
    option = rng.choice(topic["poll"]["options"])
    close = "UPDATE spirit_comment_poll_commentpoll SET close_at = ? WHERE id = ?"
    return assign(
        f'Vote for "{option["text"]}" in the poll of the topic "{topic["title"]}".',
        _browse(facts, topic),
        prepare=((close, ("2026-02-20 12:00:00", topic["poll"]["id"])),),
    )


@task("forum/price-of-nothing", level=1, split="train", infeasible=True)
def _price_of_nothing(facts: Facts, rng: random.Random) -> Assignment:
    item = rng.choice(
        ("motorboat", "wedding dress", "trampoline", "chandelier", "drum kit", "pool table")
    )
    kind = rng.choice(("red", "blue", "white", "second-hand", "large", "small", "antique"))
    return assign(
        f"How much does the {kind} {item} in the category For Sale cost? "
        "Answer with the number of pounds.",
        click("a.header__tabs__item[href='/search/']"),
        fill(".js-search-content input[name=q]", item),
        click(".js-search-content input[type=submit]"),
    )
