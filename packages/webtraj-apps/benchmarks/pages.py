"""Real applications: the processor time of a server for each kind of page.

    python packages/webtraj-apps/benchmarks/pages.py [--apps shop ...] [--times 20]

The applications must be installed (`webtraj apps install --all`). A logged-in user opens each
page without a browser: once to warm up, then `--times` times. The figure is the median of the
milliseconds of CPU that the server and its children take, which other load changes little.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import time

import httpx
import psutil
from rich.console import Console
from rich.table import Table

from webtraj_apps.app import App, find_app, find_apps
from webtraj_apps.local_worlds import open_app

PAGES = {
    "budget": {
        "aisha": (
            "/{projects[0][id]}/",
            "/{projects[0][id]}/add",
            "/{projects[0][id]}/edit",
            "/{projects[0][id]}/edit/{projects[0][bills][0][id]}",
            "/{projects[0][id]}/history",
            "/{projects[0][id]}/settle_bills",
            "/{projects[0][id]}/statistics",
        ),
    },
    "cms": {
        "aisha": (
            "/",
            "{pages[1][url]}",
            "{pages[9][url]}",
            "/glossary/",
            "/admin/",
            "/admin/pages/{pages[0][id]}/",
            "/admin/pages/{pages[1][id]}/",
            "/admin/pages/{pages[9][id]}/edit/",
            "/admin/pages/{pages[9][id]}/history/",
            "/admin/pages/search/?q=warehouse",
            "/admin/pages/add/northfield/articlepage/{pages[1][id]}/",
            "/admin/redirects/",
            "/admin/reports/site-history/",
            "/admin/snippets/",
            "/admin/snippets/northfield/notice/",
            "/admin/snippets/northfield/notice/edit/1/",
            "/admin/users/",
        ),
    },
    "forum": {
        "aisha": (
            "/",
            "/category/4/",
            "/topic/{topics[0][id]}/{topics[0][slug]}/",
            "/topic/{topics[9][id]}/{topics[9][slug]}/",
            "/topic/notification/",
            "/topic/private/",
            "/topic/publish/",
            "/topic/unread/",
            "/search/?q=printer",
            "/user/",
            "/user/{users[1][id]}/{users[1][username]}/",
        ),
        "nadia": ("/st/admin/", "/st/admin/user/", "/st/admin/comment/flag/"),
    },
    "helpdesk": {
        "aisha": (
            "/dashboard/",
            "/tickets/",
            "/datatables_ticket_list/e30=?length=25&start=0&draw=1",
            "/tickets/{tickets[9][id]}/",
            "/tickets/{tickets[90][id]}/",
            "/tickets/{tickets[9][id]}/edit/",
            "/tickets/submit/",
            "/kb/",
            "/kb/{answers[0][slug]}/",
            "/reports/",
            "/checklist-templates/",
            "/ignore/",
            "/settings/",
        ),
    },
    "mail": {
        "aisha": (
            "/?_task=mail",
            "/?_task=mail&_action=list&_mbox=INBOX&_remote=1",
            "/?_task=mail&_action=show&_mbox={mails[90][folder]}&_uid={mails[90][id]}",
            "/?_task=mail&_action=compose",
            "/?_task=addressbook",
            "/?_task=settings&_action=identities",
        ),
    },
    "shop": {
        "aisha": (
            "/catalogue/",
            "{categories[0][url]}",
            "/search/?q=lamp",
            "/catalogue/x_{products[58][id]}/",
            "/basket/",
            "/checkout/shipping-address/",
            "/accounts/orders/",
            "/accounts/wishlists/",
            "/offers/",
        ),
        "zara": (
            "/dashboard/",
            "/dashboard/catalogue/",
            "/dashboard/catalogue/products/{products[58][id]}/",
            "/dashboard/orders/",
            "/dashboard/orders/{orders[0][number]}/",
            "/dashboard/reviews/",
            "/dashboard/users/",
            "/dashboard/vouchers/",
        ),
    },
    "tracker": {
        "aisha": (
            "/report",
            "/report/1",
            "/query?status=new&order=priority",
            "/ticket/1",
            "/newticket",
            "/roadmap",
            "/timeline",
            "/search?q=label",
            "/admin/ticket/components",
        ),
    },
    "wiki": {
        "aisha": (
            "/Home",
            "/Servers/anvil",
            "/Servers/anvil/edit",
            "/Servers/anvil/history",
            "/-/changelog",
            "/-/index",
            "/-/search?query=label",
        ),
    },
}
"""Addresses of pages, by application and user. Names in braces stand for facts of the world."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    installed = [app.name for app in find_apps() if app.installed and app.name in PAGES]
    parser.add_argument("--apps", nargs="*", default=installed, choices=PAGES)
    parser.add_argument("--times", type=int, default=20)
    args = parser.parse_args()
    console = Console(width=120)
    for app in map(find_app, args.apps):
        table = Table(app.title, "KB", "CPU, ms")
        rows = asyncio.run(measure_pages(app, args.times))
        for path, size, spent in rows:
            table.add_row(path, f"{size / 1e3:.0f}", f"{spent:.1f}")
        table.add_row("median", "", f"{statistics.median(row[2] for row in rows):.1f}")
        console.print(table)


async def measure_pages(app: App, times: int) -> list[tuple[str, int, float]]:
    """Return the address, the bytes and the milliseconds of CPU of each page of an application."""
    facts = app.facts(0)
    rows = []
    async with open_app(app) as origin:
        server = next(one for one in psutil.Process().children() if app.name in one.cmdline()[-2])
        for user, paths in PAGES[app.name].items():
            async with httpx.AsyncClient(
                base_url=f"http://127.0.0.1:{origin.rpartition(':')[2]}",
                cookies=facts["cookies"][user],
                follow_redirects=True,
                headers={"Accept": "text/html", "Host": app.host},
                timeout=60.0,
                trust_env=False,
            ) as client:
                for path in paths:
                    opened = await client.get(path.format_map(facts))
                    opened.raise_for_status()
                    spent = []
                    for _ in range(times):
                        begun = read_cpu_seconds(server)
                        await client.get(opened.url)
                        spent.append(read_cpu_seconds(server) - begun)
                    size = len(opened.content)
                    rows.append(
                        (opened.url.raw_path.decode(), size, 1e3 * statistics.median(spent))
                    )
    return rows


def read_cpu_seconds(server: psutil.Process) -> float:
    """Return the seconds of CPU that a server and its children have taken."""
    every = (server, *server.children(recursive=True))
    # Linux's clock of the processor time of any process counts nanoseconds, `/proc` hundredths.
    return sum(time.clock_gettime((~one.pid << 3) | 2) for one in every)


if __name__ == "__main__":
    main()
