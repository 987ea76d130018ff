"""The site without a browser: visits are apart, forms are checked, troubles are real."""

import asyncio
import contextlib
import re
import ssl

import httpx
import pytest

from webtraj import errors
from webtraj.testing.site import FixtureSite
from webtraj.testing.site.pages.shop import MAX_QUANTITY, PAGE_SIZE, SHIPPING
from webtraj.testing.site.world import Upload

ORDER = {
    "name": "Ada",
    "email": "ada@mail.example",
    "country": "Norland",
    "shipping": "express",
    "payment": "invoice",
    "terms": "yes",
}


# Loading the certificates of the world takes longer than a test, and there is no TLS here.
NO_TLS = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


def new_client(**options):
    return httpx.AsyncClient(verify=NO_TLS, **options)


@contextlib.asynccontextmanager
async def client_of(site, visit):
    async with new_client(base_url=site.origin, follow_redirects=True) as client:
        answer = await client.get(visit.url)
        assert answer.status_code == 200
        yield client


@pytest.fixture
async def site():
    async with FixtureSite() as site:
        yield site


@pytest.fixture
def visit(site):
    return site.visit(seed=5, prepare=lambda world: setattr(world, "user", world.customer))


@pytest.fixture
async def client(site, visit):
    async with client_of(site, visit) as client:
        yield client


PAGES = [
    "/",
    "/products",
    "/products/1",
    "/products?q=a&category=Garden&max_price=90&sort=price&page=2",
    "/wish-list",
    "/cart",
    "/login",
    "/account",
    "/account/documents",
    "/forum",
    "/forum/1",
    "/forum/new",
    "/help",
    "/help/returns",
    "/help/shipping",
    "/help/contact",
    "/extras",
    "/extras/dialogs",
    "/extras/popups",
    "/extras/partner",
    "/extras/size-chart",
    "/extras/frames",
    "/extras/frames/nested",
    "/extras/frames/newsletter",
    "/extras/shadow",
    "/extras/editor",
    "/extras/board",
    "/extras/feed",
    "/extras/feed/from/50",
    "/trouble",
    "/large",
    "/static/site.css",
    "/static/site.js",
]


@pytest.mark.parametrize("path", PAGES)
async def test_page_is_there(client, path):
    answer = await client.get(path)
    assert answer.status_code == 200
    assert answer.text


async def test_every_link_leads_to_a_page(client):
    seen, coming = set(), {"/"}
    while coming:
        path = coming.pop()
        seen.add(path)
        if path.startswith(
            ("/run/", "/never", "/cut", "/loop", "/away", "/slow", "/status", "/large")
        ):
            continue
        answer = await client.get(path)
        assert answer.status_code == 200, path
        links = re.findall(r'<a href="(/[^"]*)"', answer.text)
        coming |= {link.replace("&amp;", "&") for link in links} - seen
    assert len(seen) > 60


async def test_nothing_is_fetched_from_outside(client):
    for path in PAGES:
        text = (await client.get(path)).text
        assert "http://127.0.0.1" in text or "http" not in text, path


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/nothing", 404),
        ("/products/999", 404),
        ("/products/x", 400),
        ("/products?sort=size", 400),
        ("/forum/99", 404),
        ("/help/nothing", 404),
        ("/account/orders/1", 404),
        ("/static/../world.py", 404),
        ("/slow?ms=999999", 400),
        ("/status/404", 404),
        ("/status/500", 500),
        ("/status/503", 503),
        ("/status/204", 204),
        ("/status/100", 400),
        ("/status/999", 400),
        ("/run/nothing", 404),
    ],
)
async def test_status_of_what_is_not_a_page(client, path, status):
    assert (await client.get(path)).status_code == status


@pytest.mark.browser
async def test_visits_see_their_own_world_only(site):
    visits = [site.visit(seed=seed) for seed in range(40)]

    async def shop(visit):
        async with client_of(site, visit) as client:
            for _ in range(visit.world.seed % MAX_QUANTITY + 1):
                await client.post("/cart/add", data={"product": "1"})

    await asyncio.gather(*map(shop, visits))
    assert [visit.world.cart for visit in visits] == [
        {1: visit.world.seed % MAX_QUANTITY + 1} for visit in visits
    ]


async def test_a_visit_that_is_over_is_gone(site, visit):
    async with client_of(site, visit) as client:
        site.end_visit(visit)
        assert (await client.get("/products")).status_code == 410


async def test_who_comes_without_a_visit_gets_one(site):
    async with new_client(base_url=site.origin, follow_redirects=True) as client:
        assert (await client.get("/products")).status_code == 200
        await client.post("/cart/add", data={"product": "2"})
        assert "Cart (1)" in (await client.get("/")).text


@pytest.mark.parametrize("to", ["//evil.example", "https://evil.example/", "x"])
async def test_a_visit_begins_on_the_site_only(client, visit, to):
    answer = await client.get(f"/enter/{visit.token}", params={"to": to})
    assert answer.status_code == 400


async def test_both_origins_serve_one_world(site, visit, client):
    await client.post(f"{site.other_origin}/cart/add?visit={visit.token}", data={"product": "3"})
    assert visit.world.cart == {3: 1}


def test_a_site_that_does_not_run_has_no_visits():
    with pytest.raises(errors.EnvironmentMisuseError, match="async with FixtureSite"):
        FixtureSite().visit()


async def test_after_its_end_nothing_listens_and_no_task_is_left():
    before = asyncio.all_tasks()
    async with FixtureSite() as site:
        origin = site.origin
        client = new_client()
        hanging = asyncio.ensure_future(
            client.get(site.visit(start="/never").url, follow_redirects=True)
        )
        await client.get(site.visit().url)
    with pytest.raises(httpx.HTTPError):
        await hanging
    with pytest.raises(httpx.ConnectError):
        await client.get(origin)
    await client.aclose()
    assert asyncio.all_tasks() == before
    await site.close()


async def test_search_filters_sort_and_pages_agree_with_the_world(client, visit):
    category = "Office"
    wanted = sorted(
        (p for p in visit.world.products if p.category == category), key=lambda p: p.cents
    )
    found = []
    for page in (1, 2):
        answer = await client.get(
            "/products", params={"category": category, "sort": "price", "page": page}
        )
        found += re.findall(r'<a href="/products/(\d+)">', answer.text)
        assert f"Page {page} of 2" in answer.text
    assert [int(key) for key in found] == [product.id for product in wanted]
    assert len(wanted) > PAGE_SIZE


@pytest.mark.parametrize("quantity", ["0", "-1", "10", "x"])
async def test_the_cart_takes_sensible_quantities(client, visit, quantity):
    answer = await client.post("/cart/add", data={"product": "1", "quantity": quantity})
    assert answer.status_code == 400
    assert visit.world.cart == {}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"name": " "}, "tell us your name"),
        ({"email": "ada"}, "give an e-mail"),
        ({"country": "Atlantis"}, "choose a country"),
        ({"shipping": ""}, "kind of shipping"),
        ({"payment": "shells"}, "kind of payment"),
        ({"delivery_date": "2029-12-31"}, "choose a date"),
        ({"delivery_date": "tomorrow"}, "choose a date"),
        ({"coupon": "FREE"}, "do not know this coupon"),
        ({"terms": ""}, "agree to the terms"),
    ],
)
async def test_the_till_says_what_is_wrong_and_keeps_the_rest(client, visit, change, message):
    await client.post("/cart/add", data={"product": "1"})
    before = len(visit.world.orders)
    answer = await client.post("/checkout", data={**ORDER, **change})
    assert answer.status_code == 422
    assert message in answer.text
    if "name" not in change:
        assert 'value="Ada"' in answer.text
    assert len(visit.world.orders) == before
    assert visit.world.cart


async def test_an_order_is_what_the_form_said(client, visit):
    (coupon, percent), *_ = visit.world.coupons.items()
    await client.post("/cart/add", data={"product": "1", "quantity": "2"})
    answer = await client.post("/checkout", data={**ORDER, "coupon": coupon, "gift_wrap": "yes"})
    order = visit.world.orders[-1]
    assert f"Order {order.number} is placed" in answer.text
    goods = 2 * visit.world.product(1).cents
    assert order.cents == goods - goods * percent // 100 + SHIPPING["express"]
    assert (order.lines, order.gift_wrap, order.coupon) == ({1: 2}, True, coupon)
    assert visit.world.cart == {}


async def test_a_till_that_is_out_of_order_places_nothing(client, visit):
    visit.world.failures_left = 1
    await client.post("/cart/add", data={"product": "1"})
    before = len(visit.world.orders)
    assert (await client.post("/checkout", data=ORDER)).status_code == 503
    assert len(visit.world.orders) == before
    assert (await client.post("/checkout", data=ORDER)).status_code == 200
    assert len(visit.world.orders) == before + 1


@pytest.mark.parametrize(
    ("old", "new", "again", "message"),
    [
        ("wrong", "long enough", "long enough", "old password is wrong"),
        (None, "short", "short", "at least 8"),
        (None, "long enough", "other", "passwords differ"),
    ],
)
async def test_a_password_is_changed_with_care(client, visit, old, new, again, message):
    account = visit.world.account
    before = account.password
    form = {"old": old or before, "new": new, "again": again}
    answer = await client.post("/account/password", data=form)
    assert answer.status_code == 422
    assert message in answer.text
    assert account.password == before


async def test_a_wrong_password_lets_nobody_in(client, visit):
    await client.post("/logout")
    answer = await client.post("/login", data={"username": visit.world.customer, "password": "x"})
    assert answer.status_code == 403
    assert visit.world.user == ""


async def test_text_is_shown_as_text(client, visit):
    text = '<script>alert(1)</script> & "more"'
    answer = await client.post("/forum/1/reply", data={"text": text})
    assert "<script>alert" not in answer.text
    assert "&lt;script&gt;alert(1)" in answer.text
    assert visit.world.thread(1).posts[-1].text == text


async def test_others_posts_can_be_voted_up_and_not_changed(client, visit):
    thread = visit.world.threads[0]
    post = next(post for post in thread.posts if post.author != visit.world.customer)
    base = f"/forum/{thread.id}/posts/{post.id}"
    await client.post(f"{base}/vote")
    assert visit.world.customer in post.votes
    await client.post(f"{base}/vote")
    assert visit.world.customer not in post.votes
    for path in (f"{base}/edit", f"{base}/delete"):
        assert (await client.post(path, data={"text": "mine"})).status_code == 404
    assert post in thread.posts


async def test_files_go_both_ways(client, visit):
    order = visit.world.orders[0]
    answer = await client.get(f"/account/orders/{order.number}/invoice.csv")
    assert answer.headers["content-disposition"].startswith("attachment")
    assert len(answer.text.splitlines()) == 1 + len(order.lines)
    content = bytes(range(256))
    await client.post("/account/documents", files={"document": ("all bytes.bin", content)})
    assert visit.world.uploads == [Upload("all bytes.bin", content)]


async def test_a_connection_that_is_cut_is_cut(client):
    with pytest.raises(httpx.RemoteProtocolError):
        await client.get("/cut")
    assert (await client.get("/")).status_code == 200


async def test_redirects_lead_where_they_say(site, client):
    answer = await client.get("/redirects/3")
    assert [r.status_code for r in answer.history] == [302, 302, 302]
    assert str((await client.get("/away")).url).startswith(site.other_origin)
    with pytest.raises(httpx.TooManyRedirects):
        await client.get("/loop")


async def test_slow_answers_hold_nobody_else_up(client):
    slow = asyncio.ensure_future(client.get("/slow?ms=60000"))
    assert (await client.get("/slow?ms=0")).status_code == 200
    assert not slow.done()
    slow.cancel()


async def test_what_is_no_http_ends_its_own_connection_only(site, client):
    host, port = site.origin.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(b"\x16\x03\x01 this is TLS\r\n\r\n")
    assert await reader.read() == b""
    writer.close()
    assert (await client.get("/")).status_code == 200
