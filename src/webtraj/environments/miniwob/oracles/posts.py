"""Oracles of tasks with posts of a social network."""

from __future__ import annotations

from webtraj.environments.actions import Click, Hover
from webtraj.environments.miniwob.oracles.registry import Actions, oracle
from webtraj.environments.miniwob.oracles.steps import click, painted
from webtraj.environments.miniwob.oracles.view import Element, OracleError, OracleView, matched

_ICONS = {"Reply": ".reply", "Retweet": ".retweet", "Like": ".like", "Share": ".share"}


@oracle("social-media")
async def social_media(page: OracleView) -> Actions:
    """Clicks an icon of the user's post, or an item of the menu behind its last icon.

    An icon under the mouse changes its picture, and is no icon while that loads.
    """
    user, button = matched(r'For the user (@\w+), click on the "(.+)" button\.', page.goal)
    icon = (await _parts_of_posts(page, user, _ICONS.get(button, ".more")))[0]
    yield Hover(icon.ref)
    await painted(page)
    yield Click(icon.ref)
    if button in _ICONS:
        return
    for item in await page.all("#area .media ul li"):
        if item.visible and item.text in (button, f"{button} {user}"):
            yield Click(item.ref)
            return
    raise OracleError(f"The menu of {user}'s post has no {button!r}.")


@oracle("social-media-all", "social-media-some")
async def social_media_all(page: OracleView) -> Actions:
    """Clicks an icon of all the user's posts, or of as many as the goal says, and submits."""
    button, count, user = matched(
        r'Click the "(\w+)" button on (?:all|(\d+)) posts? by (@\w+) and then click Submit\.',
        page.goal,
    )
    icons = await _parts_of_posts(page, user, _ICONS[button])
    for icon in icons[: int(count) if count else None]:
        yield Click(icon.ref)
    yield await click(page, "#submitRow button")


async def _parts_of_posts(page: OracleView, user: str, selector: str) -> list[Element]:
    """Returns the part of that selector of every post by a user.

    Raises:
        OracleError: The user has no post.
    """
    users = await page.all("#area .media .username")
    parts = await page.all(f"#area .media {selector}")
    found = [part for name, part in zip(users, parts, strict=True) if name.text == user]
    if not found:
        names = sorted({name.text for name in users})
        raise OracleError(f"There is no post by {user}; there are posts by {', '.join(names)}.")
    return found
