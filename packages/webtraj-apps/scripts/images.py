"""Take the pictures of the applications for the documentation.

Run: python packages/webtraj-apps/scripts/images.py
"""

import asyncio
import io
from pathlib import Path

from PIL import Image

from webtraj_apps import AppEnvironment
from webtraj_apps.app import find_app
from webtraj_apps.names import sources

OUT = Path(__file__).parents[3] / "docs/images/apps"
PAGES = {
    "budget": "/",
    "cms": "/admin/",
    "forum": "/",
    "helpdesk": "/dashboard/",
    "mail": "/",
    "shop": "/catalogue/",
    "tracker": "/report/1",
    "wiki": "/",
}
"""The page to show of each application."""
WIDTH = 800


async def main() -> None:
    """Take them."""
    OUT.mkdir(exist_ok=True)
    for name in PAGES:
        if not find_app(name).installed:
            continue
        task = next(iter(sources()[name].templates()))
        async with AppEnvironment(task, seed=1, observe=("screenshot",)) as environment:
            await environment.reset()
            await environment.session.open(f"http://{name}.test{PAGES[name]}")
            await environment.session.look()
            picture = Image.open(io.BytesIO(await environment.session.screenshot()))
        height = round(picture.height * WIDTH / picture.width)
        small = picture.convert("RGB").resize((WIDTH, height), Image.Resampling.LANCZOS)
        small.save(OUT / f"{name}.webp", quality=80)


if __name__ == "__main__":
    asyncio.run(main())
