"""Environments in a real browser.

Authors of environments and tasks import from here:

* `BrowserEnvironment` plays tasks: your own `BrowserTask`, or the ready-made `WebTask`. A task gets
  the `BrowserSession` of its episode, judges with a `Verdict`, and may have a `ScriptedSolution`,
  made of steps from `oracles`.
* `LocalSites` are a task's own servers. Each is a function `Serve`; with `pipe_both` it can pass
  connections on to another server.
* `Perturbation` changes a task's surroundings.
* `WebAccess` and `OriginPolicy` say what pages may reach, `SettlePolicy` when a page has settled
  (`SERVED_PAGE` suits a server of your own), `Observe` what the agent sees; `refs_in` lists the
  elements in it.
* `BrowserPool` is the browsers that environments share.

The modules:

* `environment`: `BrowserEnvironment`, dm_env's contract for tasks in a browser; the preset `web`.
* `tasks`: what a task is; `WebTask`, one for any site. `oracles`: scripted solutions.
* `session`: the tabs of an episode. `executor`: how each verb is done there.
* `observation`: what is shown, and the page as text. `observer`: how it is taken, with pictures.
* `page_script` and `page/`: the script that runs in every page. `foreign_frames`: frames of another
  origin. `settle_policy` and `network_watch`: when a page counts as settled.
* `listener`: what somebody else does on a page; `watched`: episodes of it.
* `access`: what agents may reach. `network_policy`: what pages may reach.
  `network`: the proxy that enforces it.
* `secret_keeper`: what is not recorded. `traffic`: what is received: HTTP exchanges, files.
* `perturbations`: the same task in other surroundings.
* `pool`, `lease`, `processes`, `guard`: browsers, from start to end, and one page of them.

Importing any of these loads no browser library; Playwright is loaded when a pool first starts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from webtraj import _homes

if TYPE_CHECKING:
    from webtraj.environments.browser.access import WebAccess as WebAccess
    from webtraj.environments.browser.environment import BrowserEnvironment as BrowserEnvironment
    from webtraj.environments.browser.network import LocalSites as LocalSites
    from webtraj.environments.browser.network import Serve as Serve
    from webtraj.environments.browser.network import pipe_both as pipe_both
    from webtraj.environments.browser.network_policy import OriginPolicy as OriginPolicy
    from webtraj.environments.browser.observation import Observe as Observe
    from webtraj.environments.browser.observation import refs_in as refs_in
    from webtraj.environments.browser.perturbations import Perturbation as Perturbation
    from webtraj.environments.browser.pool import BrowserPool as BrowserPool
    from webtraj.environments.browser.session import BrowserSession as BrowserSession
    from webtraj.environments.browser.settle_policy import SERVED_PAGE as SERVED_PAGE
    from webtraj.environments.browser.settle_policy import SettlePolicy as SettlePolicy
    from webtraj.environments.browser.tasks import BrowserTask as BrowserTask
    from webtraj.environments.browser.tasks import ScriptedSolution as ScriptedSolution
    from webtraj.environments.browser.tasks import Verdict as Verdict
    from webtraj.environments.browser.tasks import WebTask as WebTask

_HOMES = {
    "BrowserEnvironment": "environment",
    "BrowserPool": "pool",
    "BrowserSession": "session",
    "BrowserTask": "tasks",
    "LocalSites": "network",
    "Observe": "observation",
    "OriginPolicy": "network_policy",
    "Perturbation": "perturbations",
    "SERVED_PAGE": "settle_policy",
    "ScriptedSolution": "tasks",
    "Serve": "network",
    "SettlePolicy": "settle_policy",
    "Verdict": "tasks",
    "WebAccess": "access",
    "WebTask": "tasks",
    "pipe_both": "network",
    "refs_in": "observation",
}

__all__ = [*sorted(_HOMES)]
__getattr__, __dir__ = _homes.face(__name__, _HOMES)
