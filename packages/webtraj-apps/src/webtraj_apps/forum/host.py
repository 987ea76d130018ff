# mypy: ignore-errors
"""The forum: Spirit on Django, in worlds of one SQLite file each.

Runs in the application's own virtual environment, without webtraj. See `serve.py` for the contract.
"""

import random
from collections.abc import Iterator
from datetime import UTC, datetime, time, timedelta
from pathlib import Path
from typing import Any

import content
import django_worlds
from company import positions
from people import people

django_worlds.configure(
    AUTHENTICATION_BACKENDS=["spirit.user.auth.backends.UsernameAuthBackend"],
    CACHES={
        name: {"BACKEND": "django.core.cache.backends.dummy.DummyCache"}
        for name in ("default", "st_rate_limit")
    },
    HAYSTACK_CONNECTIONS={"default": {"ENGINE": "haystack.backends.simple_backend.SimpleEngine"}},
    INSTALLED_APPS=[
        "django.contrib.auth",
        "django.contrib.contenttypes",
        "django.contrib.sessions",
        "django.contrib.messages",
        "django.contrib.staticfiles",
        "django.contrib.humanize",
        "spirit.core",
        "spirit.admin",
        "spirit.search",
        "spirit.user",
        "spirit.user.admin",
        "spirit.user.auth",
        "spirit.category",
        "spirit.category.admin",
        "spirit.topic",
        "spirit.topic.admin",
        "spirit.topic.favorite",
        "spirit.topic.moderate",
        "spirit.topic.notification",
        "spirit.topic.private",
        "spirit.topic.unread",
        "spirit.comment",
        "spirit.comment.bookmark",
        "spirit.comment.flag",
        "spirit.comment.flag.admin",
        "spirit.comment.history",
        "spirit.comment.like",
        "spirit.comment.poll",
        "djconfig",
        "haystack",
    ],
    LOGIN_REDIRECT_URL="spirit:user:update",
    LOGIN_URL="spirit:user:auth:login",
    LOGOUT_REDIRECT_URL="spirit:index",
    MESSAGE_STORAGE="django.contrib.messages.storage.session.SessionStorage",
    MIDDLEWARE=[
        *django_worlds.MIDDLEWARE,
        "spirit.user.middleware.TimezoneMiddleware",
        "spirit.user.middleware.LastIPMiddleware",
        "spirit.user.middleware.LastSeenMiddleware",
        "spirit.user.middleware.ActiveUserMiddleware",
        "djconfig.middleware.DjConfigMiddleware",
    ],
    ROOT_URLCONF=__name__,
    ST_ORDERED_CATEGORIES=True,
    ST_RATELIMIT_ENABLE=False,
    ST_RATELIMIT_SKIP_TIMEOUT_CHECK=True,
    ST_SITE_URL="http://forum.test/",
    ST_UPLOAD_IMAGE_ENABLED=False,
    TEMPLATES=django_worlds.templates(
        "django.template.context_processors.static", "djconfig.context_processors.config"
    ),
)

from django.contrib.auth import get_user_model  # noqa: E402
from django.db.models import Q  # noqa: E402
from django.urls import include, path  # noqa: E402
from djconfig.conf import config  # noqa: E402
from djconfig.models import Config  # noqa: E402
from spirit.category.models import Category  # noqa: E402
from spirit.comment.flag.models import CommentFlag, Flag  # noqa: E402
from spirit.comment.like.models import CommentLike  # noqa: E402
from spirit.comment.models import Comment  # noqa: E402
from spirit.comment.poll.models import CommentPoll, CommentPollChoice, CommentPollVote  # noqa: E402
from spirit.core.conf import settings  # noqa: E402
from spirit.core.utils.markdown import Markdown  # noqa: E402
from spirit.search.views import SearchView  # noqa: E402
from spirit.topic.models import Topic  # noqa: E402
from spirit.topic.notification.models import TopicNotification  # noqa: E402
from spirit.topic.private.models import TopicPrivate  # noqa: E402

User = get_user_model()
_NEVER_CHANGED = "2026-01-01 08:00:00+00:00"
_OPENED = datetime(2024, 3, 4, 8, tzinfo=UTC)
"""When the forum began."""


class _Found:
    """A topic among the results of a search, as Haystack returns it."""

    def __init__(self, topic: Topic) -> None:
        self.pk = topic.pk
        self._fields = {
            "title": topic.title,
            "slug": topic.slug,
            "comment_count": topic.comment_count,
            "last_active": topic.last_active,
            "main_category_name": topic.main_category.title,
        }

    def get_stored_fields(self) -> dict[str, Any]:
        return self._fields


class _Search(SearchView):
    """Spirit's search in the database itself: there is no index that could lag behind.

    Every word must occur in the title or in a comment; matches of the title come first.
    """

    def get_results(self) -> list[_Found]:
        if not self.form.is_valid():
            return []
        words = self.query.split()
        found = Topic.objects.visible().select_related("category__parent")
        if chosen := self.form.cleaned_data["category"]:
            found = found.filter(Q(category__in=chosen) | Q(category__parent__in=chosen))
        for word in words:
            by_text = Comment.objects.filter(comment__icontains=word, is_removed=False, action=0)
            found = found.filter(
                Q(title__icontains=word) | Q(pk__in=by_text.order_by().values("topic_id"))
            )
        topics = list(found.order_by("-last_active", "-pk"))
        topics.sort(key=lambda topic: not all(w.lower() in topic.title.lower() for w in words))
        return [_Found(topic) for topic in topics]


urlpatterns = [path("search/", _Search()), path("", include("spirit.urls"))]


def enter(state: Path) -> None:
    """Answer the following request in this world."""
    django_worlds.enter(state)
    # The settings page's values are kept for the world of the last request; load them again.
    config._cache = {}


def open_application(root: Path) -> Any:
    """Return the WSGI application."""
    return django_worlds.application()


def build(state: Path, seed: int) -> dict[str, Any]:
    """Write the forum of a seed, and return what tasks may mention."""
    enter(state)
    django_worlds.create(state)
    return _Builder(seed).build(state)


class _Builder:
    """Writes the forum of a seed."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(f"forum host {seed}")
        self.words = content.words(seed)
        self.people = people(seed)
        public, private = content.threads(seed, [person.name for person in self.people])
        self.public, self.private = public, private
        self.users: list[Any] = []
        self.categories: dict[str, Category] = {}

    def build(self, state: Path) -> dict[str, Any]:
        settings_of_forum = {
            "site_name": "Northfield Forum",
            "site_description": "Where Northfield talks",
            "template_footer": "",
            "comments_per_page": "20",
            "topics_per_page": "20",
            "_updated_at": _NEVER_CHANGED,
        }
        Config.objects.all().delete()
        Config.objects.bulk_create(Config(key=k, value=v) for k, v in settings_of_forum.items())
        config._reload()
        self.make_users()
        self.make_categories()
        topics = [self.make_topic(thread) for thread in self.public]
        private = [self.make_topic(thread) for thread in self.private]
        self.subscribe(topics, private)
        flags = self.make_flags(topics)
        facts = {
            "user": self.people[content.USER].username,
            "moderator": self.people[content.MODERATORS[0]].username,
            "admin": self.people[content.ADMIN].username,
            "spammer": self.people[content.SPAMMER].username,
            "users": [
                {
                    **django_worlds.facts_of(user),
                    "role": self.role(number),
                    "location": user.st.location,
                    "profile": user.st.pk,
                }
                for number, user in enumerate(self.users)
            ],
            "categories": [
                {
                    "id": one.pk,
                    "title": one.title,
                    "parent": one.parent.title if one.parent else "",
                    "description": one.description,
                }
                for one in self.categories.values()
                if not one.is_private
            ],
            "topics": topics,
            "private": private,
            "flags": flags,
            "cookies": django_worlds.cookies(
                User.objects.filter(pk__in=[self.users[i].pk for i in range(4)])
            ),
        }
        django_worlds.finish(state)
        return facts

    @staticmethod
    def role(number: int) -> str:
        if number == content.ADMIN:
            return "administrator"
        return "moderator" if number in content.MODERATORS else "member"

    def make_users(self) -> None:
        homes = content.homes(self.rng, self.public, self.words.homes)
        for number, (person, position) in enumerate(zip(self.people, positions(), strict=True)):
            joined = datetime.combine(position.joined, time(9, 10 + number), UTC)
            joined = max(joined, _OPENED + timedelta(days=number))
            user = User.objects.create(**django_worlds.account(person), date_joined=joined)
            user.st.is_verified = True
            user.st.is_moderator = number in content.MODERATORS
            user.st.is_administrator = number == content.ADMIN
            user.st.location = homes[number]
            user.st.last_ip = "127.0.0.1"
            user.st.save()
            self.users.append(user)

    def make_categories(self) -> None:
        Category.objects.exclude(pk=settings.ST_TOPIC_PRIVATE_CATEGORY_PK).delete()
        self.categories["Private"] = Category.objects.get()
        for sort, (title, parent, description, color) in enumerate(self.words.categories, 1):
            self.categories[title] = Category.objects.create(
                title=title,
                parent=self.categories[parent] if parent else None,
                description=description,
                color=color,
                sort=sort,
                reindex_at=datetime(2024, 3, 1, tzinfo=UTC),
            )

    def make_topic(self, thread: content.Thread) -> dict[str, Any]:
        """Write a thread and return its facts."""
        first = thread.comments[0]
        topic = Topic.objects.create(
            user=self.users[thread.author],
            category=self.categories[thread.category],
            title=thread.title,
            date=first.date,
            last_active=thread.comments[-1].date,
            reindex_at=first.date,
            is_pinned=thread.pinned,
            is_globally_pinned=thread.globally_pinned,
            is_closed=thread.closed,
            is_removed=thread.removed,
            comment_count=len(thread.comments),
            view_count=len(thread.comments) * 7 + self.rng.randint(3, 60),
        )
        written = [self.make_comment(topic, thread, one) for one in thread.comments]
        for one, comment in zip(thread.comments, written, strict=True):
            CommentLike.objects.bulk_create(
                CommentLike(
                    user=self.users[fan],
                    comment=comment,
                    date=one.date + timedelta(minutes=5 + number),
                )
                for number, fan in enumerate(one.likes)
            )
        TopicPrivate.objects.bulk_create(
            TopicPrivate(user=self.users[member], topic=topic, date=first.date)
            for member in thread.members
        )
        return {
            "id": topic.pk,
            "title": topic.title,
            "slug": topic.slug,
            "category": thread.category,
            "author": self.people[thread.author].username,
            "closed": thread.closed,
            "pinned": thread.pinned,
            "globally_pinned": thread.globally_pinned,
            "removed": thread.removed,
            "details": thread.details,
            "members": [self.people[one].username for one in thread.members],
            "poll": self.make_poll(thread, written[0]) if thread.poll else None,
            "comments": [
                {
                    "id": comment.pk,
                    "by": self.people[one.author].username,
                    "text": one.text,
                    "likes": len(one.likes),
                    "liked": content.USER in one.likes,
                    "removed": one.removed,
                    "spam": one.spam,
                }
                for one, comment in zip(thread.comments, written, strict=True)
            ],
        }

    def make_comment(self, topic: Topic, thread: content.Thread, one: content.Reply) -> Comment:
        if thread.poll and one is thread.comments[0]:
            options = "".join(f"{i}. {text}\n" for i, text in enumerate(thread.poll.options, 1))
            one.text += f"\n\n[poll name=vote]\n# {thread.poll.question}\n{options}[/poll]"
        return Comment.objects.create(
            user=self.users[one.author],
            topic=topic,
            comment=one.text,
            comment_html=Markdown().render(one.text),
            date=one.date,
            likes_count=len(one.likes),
            is_removed=one.removed,
            ip_address="127.0.0.1",
        )

    def make_poll(self, thread: content.Thread, comment: Comment) -> dict[str, Any]:
        asked = thread.poll
        assert asked is not None
        begun = thread.comments[0].date
        poll = CommentPoll.objects.create(
            comment=comment,
            name="vote",
            title=asked.question,
            close_at=thread.comments[-1].date + timedelta(minutes=30) if asked.closed else None,
            created_at=begun,
        )
        counts = [list(asked.votes.values()).count(i) for i in range(len(asked.options))]
        choices = [
            CommentPollChoice.objects.create(
                poll=poll, number=i + 1, description=text, vote_count=counts[i]
            )
            for i, text in enumerate(asked.options)
        ]
        CommentPollVote.objects.bulk_create(
            CommentPollVote(
                voter=self.users[voter],
                choice=choices[option],
                created_at=begun + timedelta(minutes=3 + 97 * number),
            )
            for number, (voter, option) in enumerate(asked.votes.items())
        )
        mine = asked.votes.get(content.USER)
        return {
            "id": poll.pk,
            "question": asked.question,
            "closed": asked.closed,
            "voted": None if mine is None else asked.options[mine],
            "options": [
                {"id": choice.pk, "text": choice.description, "votes": choice.vote_count}
                for choice in choices
            ],
        }

    def subscribe(self, topics: list[dict[str, Any]], private: list[dict[str, Any]]) -> None:
        """Subscribe everybody to what they wrote in, and the user to a few more."""
        made = list(self.subscriptions(topics, private))
        TopicNotification.objects.bulk_create(made)

    def subscriptions(
        self, topics: list[dict[str, Any]], private: list[dict[str, Any]]
    ) -> Iterator[TopicNotification]:
        user = self.people[content.USER].username
        by_name = {one.username: one for one in self.users}
        quiet = [
            t for t in topics if not t["removed"] and user not in {c["by"] for c in t["comments"]}
        ]
        followed = {topic["id"] for topic in self.rng.sample(quiet, 9)}
        for topic in (*topics, *private):
            writers = dict.fromkeys(comment["by"] for comment in topic["comments"])
            members = dict.fromkeys([*writers, *topic["members"]])
            if topic["id"] in followed:
                members[user] = None
            topic["subscribed"] = user in members
            last = topic["comments"][-1]
            date = Comment.objects.get(pk=last["id"]).date
            for name in members:
                own = last["by"] == name
                yield TopicNotification(
                    user=by_name[name],
                    topic_id=topic["id"],
                    comment_id=last["id"],
                    date=date,
                    action=TopicNotification.UNDEFINED if own else TopicNotification.COMMENT,
                    is_read=name != user or own or self.rng.random() < 0.8,
                    is_active=True,
                )

    def make_flags(self, topics: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Report most advertisements, and a few innocent comments."""
        places = [
            (t, c) for t in topics for c in t["comments"] if not (t["removed"] or c["removed"])
        ]
        spam = [(t, c) for t, c in places if c["spam"]]
        once = {t["id"]: (t, c) for t, c in spam}
        # One comment of a topic, so that the topic's title says which report is meant.
        innocent = [
            (t, self.rng.choice(t["comments"]))
            for t in topics
            if t["id"] not in once
            and self.people[content.USER].username != t["author"]
            and not (t["removed"] or any(c["removed"] for c in t["comments"]))
        ]
        reports = [(t, c, 0) for t, c in list(once.values())[:7]]
        reports += [(t, c, 1) for t, c in self.rng.sample(innocent, 4)]
        made = []
        reporters = self.users[3 : content.SPAMMER]
        begun = datetime(2026, 3, 1, 21, 40, tzinfo=UTC)
        for number, (topic, comment, reason) in enumerate(reports):
            date = begun + timedelta(minutes=7 * number)
            closed = number in (6, 10)
            flag = CommentFlag.objects.create(
                comment_id=comment["id"],
                date=date,
                is_closed=closed,
                moderator=self.users[content.ADMIN] if closed else None,
            )
            by = self.rng.sample(reporters, self.rng.randint(1, 4))
            bodies = self.words.spam_reports if reason == 0 else self.words.reports
            Flag.objects.bulk_create(
                Flag(user=one, comment_id=comment["id"], date=date, reason=reason, body=body)
                for one, body in zip(by, self.rng.sample(bodies, len(by)), strict=True)
            )
            made.append(
                {
                    "id": flag.pk,
                    "topic": topic["id"],
                    "comment": comment["id"],
                    "closed": closed,
                    "spam": reason == 0,
                    "reporters": [one.get_full_name() for one in by],
                }
            )
        return made
