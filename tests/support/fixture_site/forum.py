"""Accounts and their files, the forum, and the help pages."""

from __future__ import annotations

from fixture_site import layout
from fixture_site.layout import Visit, element, routes
from fixture_site.world import BOARDS, Post, Thread
from webtraj.environments.local_server import Response, see_other


@routes("GET", "/login")
def login(visit: Visit) -> Response:
    return _login_form(visit)


def _login_form(visit: Visit, error: str = "") -> Response:
    return visit.show(
        "Log in",
        layout.form(
            "/login",
            layout.field("Username", "username", autocomplete="off"),
            layout.field("Password", "password", type="password", error=error),
            layout.button("Log in"),
        ),
        status=403 if error else 200,
    )


@routes("POST", "/login")
def log_in(visit: Visit) -> Response:
    form = visit.request.form
    account = visit.world.accounts.get(form.get("username", ""))
    if account is None or account.password != form.get("password"):
        return _login_form(visit, "Username or password is wrong.")
    visit.world.user = account.username
    return see_other("/account")


@routes("POST", "/logout")
def log_out(visit: Visit) -> Response:
    visit.world.user = ""
    return see_other("/")


@routes("GET", "/account")
def account(visit: Visit) -> Response:
    account = visit.world.account
    if account is None:
        return see_other("/login")
    return visit.show(
        "Your account",
        layout.table(("Name", "E-mail"), [(account.full_name, account.email)]),
        layout.link("Documents", "/account/documents"),
    )


@routes("GET", "/account/documents")
def documents(visit: Visit) -> Response:
    if visit.world.account is None:
        return see_other("/login")
    return visit.show(
        "Documents",
        layout.listing([name for name, _ in visit.world.uploads]),
        layout.form(
            "/account/documents",
            element("label", "Document", for_="document"),
            element("input", type="file", id="document", name="document"),
            layout.button("Upload"),
            enctype="multipart/form-data",
        ),
    )


@routes("POST", "/account/documents")
def upload(visit: Visit) -> Response:
    visit.world.uploads += [(file.name, file.content) for file in visit.request.files]
    return see_other("/account/documents")


@routes("GET", "/forum")
def forum(visit: Visit) -> Response:
    boards = []
    for board in BOARDS:
        threads = [thread for thread in visit.world.threads if thread.board == board]
        links = [layout.link(thread.title, f"/forum/{thread.id}") for thread in threads]
        boards += [element("h2", board), layout.listing(links)]
    return visit.show("Forum", boards)


@routes("GET", "/forum/*")
def thread(visit: Visit) -> Response:
    thread = visit.world.thread(int(visit.arguments[0]))
    return visit.show(
        thread.title,
        [_post(visit, thread, post) for post in thread.posts],
        None if visit.world.account else layout.link("Log in to vote", "/login"),
    )


def _post(visit: Visit, thread: Thread, post: Post) -> str:
    voted = visit.world.user in post.votes
    vote = layout.form(
        f"/forum/{thread.id}/posts/{post.id}/vote",
        layout.button("Take vote back" if voted else "Vote up"),
    )
    return element(
        "article",
        element("h2", post.author),
        element("p", post.text),
        element("p", f"{len(post.votes)} votes"),
        vote if visit.world.account else None,
        id=f"post-{post.id}",
    )


@routes("POST", "/forum/*/posts/*/vote")
def vote(visit: Visit) -> Response:
    """Vote up a post, or undo the vote."""
    thread = visit.world.thread(int(visit.arguments[0]))
    posts = {post.id: post for post in thread.posts}
    posts[int(visit.arguments[1])].votes ^= {visit.world.user}
    return see_other(f"/forum/{thread.id}")


@routes("GET", "/help")
def help_index(visit: Visit) -> Response:
    topics = [("Returns", "returns"), ("Shipping", "shipping"), ("Contact", "contact")]
    return visit.show(
        "Help", layout.listing([layout.link(name, f"/help/{path}") for name, path in topics])
    )


@routes("GET", "/help/*")
def help_page(visit: Visit) -> Response:
    texts = {
        "returns": f"You can send goods back within {visit.world.return_days} days.",
        "shipping": "Standard: 3 days. Express: 1 day.",
        "contact": f"Call us: {visit.world.support_phone}.",
    }
    (topic,) = visit.arguments
    return visit.show(topic.capitalize(), element("p", texts[topic]))
