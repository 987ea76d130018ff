"""Accounts, their orders and files, and the forum."""

from __future__ import annotations

import csv
import io

from webtraj.environments.local_server import Response, see_other
from webtraj.testing.site.pages import layout
from webtraj.testing.site.pages.layout import Markup, Visit, element, routes
from webtraj.testing.site.world import BOARDS, Account, Post, Thread, Upload, money

__all__ = []

# Accounts: logging in and out, the customer's data, orders, invoices and documents.

_MIN_PASSWORD = 8


@routes("GET", "/login")
def login(visit: Visit) -> Response:
    """Show the login form."""
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
    """Log a customer in."""
    form = visit.request.form
    account = visit.world.accounts.get(form.get("username", ""))
    if account is None or account.password != form.get("password"):
        return _login_form(visit, "Username or password is wrong.")
    visit.world.user = account.username
    return see_other("/account")


@routes("POST", "/logout")
def log_out(visit: Visit) -> Response:
    """Log the customer out."""
    visit.world.user = ""
    return see_other("/")


@routes("GET", "/account")
def account(visit: Visit) -> Response:
    """Show the customer's data and orders."""
    account = visit.world.account
    return see_other("/login") if account is None else _account_page(visit, account)


def _account_page(visit: Visit, account: Account, error: str = "") -> Response:
    return visit.show(
        "Your account",
        element("h2", "Address"),
        layout.form(
            "/account/address",
            layout.field("Full name", "full_name", account.full_name),
            layout.field("Street", "street", account.street),
            layout.field("City", "city", account.city),
            element(
                "label",
                element(
                    "input",
                    type="checkbox",
                    name="newsletter",
                    value="yes",
                    checked=account.newsletter,
                ),
                "Send me the newsletter",
            ),
            layout.button("Save address"),
        ),
        element("h2", "Password"),
        layout.form(
            "/account/password",
            layout.field("Old password", "old", type="password"),
            layout.field("New password", "new", type="password"),
            layout.field("New password again", "again", type="password", error=error),
            layout.button("Change password"),
        ),
        element("h2", "Orders"),
        _orders(visit, account),
        layout.link("Documents", "/account/documents"),
        status=422 if error else 200,
    )


def _orders(visit: Visit, account: Account) -> Markup:
    rows = [
        (
            order.number,
            money(order.cents),
            layout.link("Invoice", f"/account/orders/{order.number}"),
        )
        for order in visit.world.orders
        if order.username == account.username
    ]
    return layout.table(("Order", "Total", ""), rows)


@routes("POST", "/account/address")
def save_address(visit: Visit) -> Response:
    """Save the address."""
    account, form = _account(visit), visit.request.form
    account.full_name = form["full_name"]
    account.street = form["street"]
    account.city = form["city"]
    account.newsletter = form.get("newsletter") == "yes"
    return see_other("/account")


@routes("POST", "/account/password")
def change_password(visit: Visit) -> Response:
    """Change the password, if the old one is right and the new one is given twice."""
    account, form = _account(visit), visit.request.form
    if form.get("old") != account.password:
        return _account_page(visit, account, "The old password is wrong.")
    if len(form.get("new", "")) < _MIN_PASSWORD:
        return _account_page(visit, account, f"A password has at least {_MIN_PASSWORD} letters.")
    if form["new"] != form.get("again"):
        return _account_page(visit, account, "The two new passwords differ.")
    account.password = form["new"]
    return see_other("/account")


@routes("GET", "/account/orders/*")
def order(visit: Visit) -> Response:
    """Show an order."""
    order = visit.world.order(visit.arguments[0])
    rows = [
        (visit.world.product(key).name, str(count), money(visit.world.product(key).cents))
        for key, count in order.lines.items()
    ]
    return visit.show(
        f"Order {order.number}",
        layout.table(("Product", "Quantity", "Price"), rows),
        element("p", f"Total with shipping: {money(order.cents)}"),
        layout.link(
            "Download the invoice",
            f"/account/orders/{order.number}/invoice.csv",
            download=f"invoice-{order.number}.csv",
        ),
    )


@routes("GET", "/account/orders/*/invoice.csv")
def invoice(visit: Visit) -> Response:
    """Give an invoice as a file."""
    order = visit.world.order(visit.arguments[0])
    sheet = io.StringIO()
    writer = csv.writer(sheet)
    writer.writerow(("article", "product", "quantity", "cents"))
    for key, count in order.lines.items():
        product = visit.world.product(key)
        writer.writerow((product.code, product.name, count, product.cents))
    visit.world.downloads.append(visit.request.path)
    return Response(
        body=sheet.getvalue().encode(),
        content_type="text/csv; charset=utf-8",
        headers=(("content-disposition", f'attachment; filename="invoice-{order.number}.csv"'),),
    )


@routes("GET", "/account/documents")
def documents(visit: Visit) -> Response:
    """Show the files that the customer sent."""
    if visit.world.account is None:
        return see_other("/login")
    return visit.show(
        "Documents",
        layout.listing([upload.name for upload in visit.world.uploads], class_="documents"),
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
    """Take a file."""
    _account(visit)
    for file in visit.request.files:
        visit.world.uploads.append(Upload(file.name, file.content))
    return see_other("/account/documents")


def _account(visit: Visit) -> Account:
    if visit.world.account is None:
        raise LookupError("Nobody is logged in.")
    return visit.world.account


# The forum and the help pages.


@routes("GET", "/forum")
def forum(visit: Visit) -> Response:
    """Show the boards and their threads."""
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
    """Show the form for a thread."""
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
    """Start a thread."""
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
    """Show a thread."""
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
    """Add a post to a thread."""
    thread = visit.world.thread(int(visit.arguments[0]))
    if visit.world.account is None:
        return see_other("/login")
    text = visit.request.form.get("text", "").strip()
    if text:
        thread.posts.append(Post(_next_post_id(visit), visit.world.user, text, set()))
    return see_other(f"/forum/{thread.id}")


@routes("POST", "/forum/*/posts/*/vote")
def vote(visit: Visit) -> Response:
    """Vote up somebody else's post, or undo the vote."""
    thread, post = _thread_and_post(visit)
    if visit.world.account is None or post.author == visit.world.user:
        raise LookupError("Only others' posts can be voted up, by those who are logged in.")
    post.votes ^= {visit.world.user}
    return see_other(f"/forum/{thread.id}")


@routes("GET", "/forum/*/posts/*/edit")
def edit(visit: Visit) -> Response:
    """Show the form for a change to one's own post."""
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
    """Change one's own post."""
    thread, post = _own_post(visit)
    post.text = visit.request.form["text"].strip()
    return see_other(f"/forum/{thread.id}")


@routes("POST", "/forum/*/posts/*/delete")
def delete(visit: Visit) -> Response:
    """Delete one's own post."""
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
    """List the help pages."""
    topics = [("Returns", "returns"), ("Shipping", "shipping"), ("Contact", "contact")]
    return visit.show(
        "Help", layout.listing([layout.link(name, f"/help/{path}") for name, path in topics])
    )


@routes("GET", "/help/*")
def help_page(visit: Visit) -> Response:
    """Show a help page."""
    world = visit.world
    texts = {
        "returns": f"You can send goods back within {world.return_days} days.",
        "shipping": f"Orders from {money(world.free_shipping_cents)} are shipped free.",
        "contact": f"Call us: {world.support_phone}.",
    }
    (topic,) = visit.arguments
    return visit.show(topic.capitalize(), element("p", texts[topic]))
