"""The fixture site: a shop and a forum on this machine, and seeded tasks judged by its state.

It has what small pages of a test's own lack: several pages, a session, a server that knows what was
done, frames of other origins. Every package of tests, benchmarks and scripts may use it.

* `register_presets`: the presets `fixture/TASK`;
* `fixture_site.environment`: `FixtureEnvironment`, which plays the tasks;
* `fixture_site.site`: `FixtureSite`, the site alone;
* `fixture_site.tasks`: the tasks, and how to write one.
"""

import webtraj

TASKS = (
    "add-to-cart", "answer-return-days", "cancel-item", "choose-currency", "drag-card", "log-in",
    "pay-by-card", "rate-shop", "set-quantity", "subscribe-in-frame", "upload-document", "vote-up",
    "write-note",
)  # fmt: skip
PRESETS = tuple(f"fixture/{task}" for task in TASKS)


def register_presets():
    """Register `fixture/TASK` for each task. Imports neither the site nor a browser."""
    for task, preset in zip(TASKS, PRESETS, strict=True):
        webtraj.register(
            preset,
            "fixture_site.environment:FixtureEnvironment",
            description=f"The task {task} of the fixture site.",
            tasks=(task,),
            uses_browser=True,
        )
