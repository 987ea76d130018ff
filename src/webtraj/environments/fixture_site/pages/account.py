"""Accounts: logging in and out, the customer's data, orders, invoices and documents."""

from __future__ import annotations

import csv
import io

from webtraj.environments.fixture_site.html import Markup, element
from webtraj.environments.fixture_site.messages import Response, see_other
from webtraj.environments.fixture_site.pages import layout
from webtraj.environments.fixture_site.routing import Visit, routes
from webtraj.environments.fixture_site.world import Account, Upload, money

__all__: list[str] = []

_MIN_PASSWORD = 8


@routes("GET", "/login")
def login(visit: Visit) -> Response:
    """Shows the login form."""
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
    """Logs a customer in."""
    form = visit.request.form
    account = visit.world.accounts.get(form.get("username", ""))
    if account is None or account.password != form.get("password"):
        return _login_form(visit, "Username or password is wrong.")
    visit.world.user = account.username
    return see_other("/account")


@routes("POST", "/logout")
def log_out(visit: Visit) -> Response:
    """Logs the customer out."""
    visit.world.user = ""
    return see_other("/")


@routes("GET", "/account")
def account(visit: Visit) -> Response:
    """Shows the customer's data and orders."""
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
    """Saves the address."""
    account, form = _account(visit), visit.request.form
    account.full_name = form["full_name"]
    account.street = form["street"]
    account.city = form["city"]
    account.newsletter = form.get("newsletter") == "yes"
    return see_other("/account")


@routes("POST", "/account/password")
def change_password(visit: Visit) -> Response:
    """Changes the password, if the old one is right and the new one is given twice."""
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
    """Shows an order."""
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
    """Gives an invoice as a file."""
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
    """Shows the files that the customer sent."""
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
    """Takes a file."""
    _account(visit)
    for file in visit.request.files:
        visit.world.uploads.append(Upload(file.name, file.content))
    return see_other("/account/documents")


def _account(visit: Visit) -> Account:
    if visit.world.account is None:
        raise LookupError("Nobody is logged in.")
    return visit.world.account
