'''Oracles: scripts that solve MiniWoB++ tasks, for labelled data and as regression tests.

An oracle is an asynchronous generator that gets a view of the page and yields the actions that
solve the episode, one at a time; each is performed before the generator continues. Its state
between actions is in local variables::

    @oracle("login-user")
    async def login_user(page: OracleView) -> Actions:
        """Fills in both fields and logs in."""
        user, password = find_quoted(page.goal)
        yield Fill((await page.one("#username")).ref, user)
        yield Fill((await page.one("#password")).ref, password)
        yield Click((await page.one("#subbtn")).ref)

Rules for oracles:

* It uses what an agent could see: the goal and the page. It does not read the answer from the
  page's variables, unless the task hides it visually (`page.evaluate` is for that, and for
  geometry).
* It yields actions by ref wherever an element has one, so that its data teach that. Points
  (`ClickAt`, `DragAt`) are for canvases, shapes and sliders.
* It parses its whole goal with `match_goal`: a goal of another form is an `OracleError`.
* It ends by returning. An unexpected page is an `OracleError`, raised by `page.one`.
* It solves 20 of 20 seeds, in at most 10 actions where the task can be done in 10.
'''

from webtraj.environments.miniwob.oracles import apps, forms, shapes, widgets
from webtraj.environments.miniwob.oracles.base import (
    Actions,
    Element,
    OracleError,
    OracleView,
    PageView,
    Solution,
    find_quoted,
    has_oracle,
    list_solved_tasks,
    match_goal,
    oracle,
    solve,
)

__all__ = [
    "Actions",
    "Element",
    "OracleError",
    "OracleView",
    "PageView",
    "Solution",
    "apps",
    "forms",
    "has_oracle",
    "match_goal",
    "oracle",
    "find_quoted",
    "shapes",
    "solve",
    "list_solved_tasks",
    "widgets",
]
