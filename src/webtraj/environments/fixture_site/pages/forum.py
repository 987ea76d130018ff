"""The forum and the help pages."""

from __future__ import annotations

from webtraj.environments.fixture_site.html import Markup, element
from webtraj.environments.fixture_site.messages import Response, see_other
from webtraj.environments.fixture_site.pages import layout
from webtraj.environments.fixture_site.routing import Visit, routes
from webtraj.environments.fixture_site.seeding import BOARDS
from webtraj.environments.fixture_site.world import Post, Thread, money

__all__: list[str] = []


@routes("GET", "/forum")
def forum(visit: Visit) -> Response:
    """Shows the boards and their threads."""
    boards = [
        [
            element("h2", board),
            layout.listing(
                [
                    layout.link(thread.title, f"/forum/{thread.id}")
                    for thread in visit.world.threads
                    if thread.board == board
                ]
            ),
        ]
        for board in BOARDS
    ]
    return visit.show("Forum", boards, layout.link("Start a thread", "/forum/new"))


@routes("GET", "/forum/new")
def new_thread(visit: Visit) -> Response:
    """Shows the form for a thread."""
    if visit.world.account is None:
        return see_other("/login")
    return visit.show(
        "Start a thread",
        layout.form(
            "/forum/new",
            element("label", "Board", for_="board"),
            element("select", [element("option", b) for b in BOARDS], id="board", name="board"),
            layout.field("Title", "title"),
            element("label", "Text", for_="text"),
            element("textarea", id="text", name="text", required=True),
            layout.button("Start the thread"),
        ),
    )


@routes("POST", "/forum/new")
def start_thread(visit: Visit) -> Response:
    """Starts a thread."""
    world, form = visit.world, visit.request.form
    if world.account is None:
        return see_other("/login")
    if form["board"] not in BOARDS:
        raise ValueError(f"The board is one of {', '.join(BOARDS)}.")
    number = max(thread.id for thread in world.threads) + 1
    opening = Post(_next_post_id(visit), world.user, form["text"], set())
    world.threads.append(Thread(number, form["board"], form["title"], [opening]))
    return see_other(f"/forum/{number}")


@routes("GET", "/forum/*")
def thread(visit: Visit) -> Response:
    """Shows a thread."""
    thread = visit.world.thread(int(visit.arguments[0]))
    reply = layout.form(
        f"/forum/{thread.id}/reply",
        element("label", "Your reply", for_="reply"),
        element("textarea", id="reply", name="text", required=True),
        layout.button("Reply"),
    )
    return visit.show(
        thread.title,
        [_post(visit, thread, post) for post in thread.posts],
        reply if visit.world.account else layout.link("Log in to reply", "/login"),
    )


def _post(visit: Visit, thread: Thread, post: Post) -> Markup:
    mine = post.author == visit.world.user
    base = f"/forum/{thread.id}/posts/{post.id}"
    voted = visit.world.user in post.votes
    return element(
        "article",
        element("h2", post.author),
        element("p", post.text),
        element("p", f"{len(post.votes)} votes"),
        layout.form(f"{base}/vote", layout.button("Take vote back" if voted else "Vote up"))
        if visit.world.account and not mine
        else None,
        [
            layout.link("Edit", f"{base}/edit"),
            layout.form(
                f"{base}/delete", layout.button("Delete"), data_confirm="Delete this post?"
            ),
        ]
        if mine
        else None,
        id=f"post-{post.id}",
    )


@routes("POST", "/forum/*/reply")
def reply(visit: Visit) -> Response:
    """Adds a post to a thread."""
    thread = visit.world.thread(int(visit.arguments[0]))
    if visit.world.account is None:
        return see_other("/login")
    text = visit.request.form.get("text", "").strip()
    if text:
        thread.posts.append(Post(_next_post_id(visit), visit.world.user, text, set()))
    return see_other(f"/forum/{thread.id}")


@routes("POST", "/forum/*/posts/*/vote")
def vote(visit: Visit) -> Response:
    """Votes a post of somebody else up, or takes the vote back."""
    thread, post = _thread_and_post(visit)
    if visit.world.account is None or post.author == visit.world.user:
        raise LookupError("Only others' posts can be voted up, by those who are logged in.")
    post.votes ^= {visit.world.user}
    return see_other(f"/forum/{thread.id}")


@routes("GET", "/forum/*/posts/*/edit")
def edit(visit: Visit) -> Response:
    """Shows the form for a change to one's own post."""
    thread, post = _own_post(visit)
    return visit.show(
        "Edit your post",
        layout.form(
            f"/forum/{thread.id}/posts/{post.id}/edit",
            element("label", "Text", for_="text"),
            element("textarea", post.text, id="text", name="text", required=True),
            layout.button("Save"),
        ),
    )


@routes("POST", "/forum/*/posts/*/edit")
def save_edit(visit: Visit) -> Response:
    """Changes one's own post."""
    thread, post = _own_post(visit)
    post.text = visit.request.form["text"].strip()
    return see_other(f"/forum/{thread.id}")


@routes("POST", "/forum/*/posts/*/delete")
def delete(visit: Visit) -> Response:
    """Deletes one's own post."""
    thread, post = _own_post(visit)
    thread.posts.remove(post)
    return see_other(f"/forum/{thread.id}")


def _thread_and_post(visit: Visit) -> tuple[Thread, Post]:
    thread = visit.world.thread(int(visit.arguments[0]))
    for post in thread.posts:
        if post.id == int(visit.arguments[1]):
            return thread, post
    raise LookupError(f"Thread {thread.id} has no post {visit.arguments[1]}.")


def _own_post(visit: Visit) -> tuple[Thread, Post]:
    thread, post = _thread_and_post(visit)
    if post.author != visit.world.user:
        raise LookupError("Only one's own posts can be changed.")
    return thread, post


def _next_post_id(visit: Visit) -> int:
    return max(post.id for thread in visit.world.threads for post in thread.posts) + 1


@routes("GET", "/help")
def help_index(visit: Visit) -> Response:
    """Lists the help pages."""
    topics = [("Returns", "returns"), ("Shipping", "shipping"), ("Contact", "contact")]
    return visit.show(
        "Help", layout.listing([layout.link(name, f"/help/{path}") for name, path in topics])
    )


@routes("GET", "/help/*")
def help_page(visit: Visit) -> Response:
    """Shows a help page."""
    world = visit.world
    texts = {
        "returns": f"You can send goods back within {world.return_days} days.",
        "shipping": f"Orders from {money(world.free_shipping_cents)} are shipped free.",
        "contact": f"Call us: {world.support_phone}.",
    }
    (topic,) = visit.arguments
    return visit.show(topic.capitalize(), element("p", texts[topic]))
