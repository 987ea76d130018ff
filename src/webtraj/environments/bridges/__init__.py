"""Bridges between the asynchronous contract of webtraj and the synchronous one of dm_env.

`as_sync` gives any webtraj environment as a true `dm_env.Environment`; `as_async` gives any dm_env
environment as a webtraj one. A bridge keeps its environment on one thread: environments hold things
that belong to one event loop or one thread (a browser, a simulator), and never notice the bridge.
The thread is the bridge's own, but for browser environments behind `as_sync`: those share one, and
so share their browsers.
"""

from webtraj.environments.bridges.bridging import (
    AsyncEnvironment,
    SyncEnvironment,
    as_async,
    as_sync,
)

__all__ = ["AsyncEnvironment", "SyncEnvironment", "as_async", "as_sync"]
