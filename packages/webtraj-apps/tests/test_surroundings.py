"""Applications in other surroundings: what their pages offer is there, in another order.

Applications that are not installed are skipped: `make test-apps` installs them.
"""

import pytest

from webtraj_apps import AppEnvironment, names
from webtraj_apps import app as app_lib
from webtraj_apps.tasks import find_templates

OURS = [name for name, one in names.find_installed().items() if one.is_ours and one.app is not None]
CONTROLS = """() => [...document.querySelectorAll("a[href], button, input[type=submit]")]
  .map(one => [one.textContent.trim() || one.value || one.getAttribute("href") || one.className,
               ...["x", "y"].map(axis => Math.round(one.getBoundingClientRect()[axis]))])"""


async def controls(task, perturbation):
    """Return the texts and places of links and buttons on a task's first page, hidden or not."""
    async with AppEnvironment(task, perturbation=perturbation, observe=("axtree",)) as environment:
        await environment.reset()
        return await environment.session.page.evaluate(CONTROLS)


@pytest.mark.browser
@pytest.mark.parametrize("name", OURS)
async def test_the_controls_of_every_application_move(name):
    if not app_lib.find_app(name).installed:
        pytest.skip("the application is not installed")
    task = find_templates([name])[0]
    usual, shuffled = [await controls(task, one) for one in (None, "shuffled")]
    texts = [{text for text, _, _ in one} for one in (usual, shuffled)]
    # The webmail's toolbar puts what it has no room for into a menu, with other texts.
    assert len(texts[0] ^ texts[1]) <= 2
    moved = [one for one in shuffled if one not in usual]
    assert len(moved) >= 2, usual
