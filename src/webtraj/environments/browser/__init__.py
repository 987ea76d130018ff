"""Environments in a real browser.

* `environment`: `BrowserEnvironment`, dm_env's contract for tasks in a browser; the preset `web`.
* `tasks`: what a task is; `WebTask`, one for any site.
* `sessions`, `session`: the session for an episode, a new one or the last; its tabs.
* `acting`: how each verb is done. `observation`, `screenshot`, `captions`: what is shown.
* `page_script` and `page/`: what runs in every page. `frames`: frames of another origin.
* `settling`: when a page counts as settled.
* `access`, `network`: what agents and pages may reach. `secrecy`: what is not recorded.
* `pool`, `driver`, `processes`, `guard`, `executable`, `operations`: browsers, from start to end.

Importing any of these loads no browser library; Playwright is loaded when a pool first starts.
"""
