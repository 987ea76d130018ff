"""The site without a browser: visits are apart, forms are checked, troubles are real."""

import asyncio
import contextlib
import re
import ssl

import httpx
import pytest

from webtraj.testing.site import FixtureSite
from webtraj.testing.site.pages.shop import MAX_QUANTITY

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


async def test_text_is_shown_as_text(client, visit):
    text = '<script>alert(1)</script> & "more"'
    answer = await client.post("/forum/1/reply", data={"text": text})
    assert "<script>alert" not in answer.text
    assert "&lt;script&gt;alert(1)" in answer.text
    assert visit.world.thread(1).posts[-1].text == text
