"""Environments in a real browser.

* `environment`: `BrowserEnvironment`, dm_env's contract for tasks in a browser; the preset `web`.
* `tasks`: what a task is; `WebTask`, one for any site. `oracles`: scripted solutions.
* `session`: the tabs of an episode. `acting`: how each verb is done there.
* `observation`: what is shown, and the page as text. `observer`: how it is taken, with pictures.
* `page_script` and `page/`: what runs in every page, frames of another origin included; when a
  page counts as settled. `listening`: what somebody else does there.
* `access`: what agents may reach. `network`: what pages may reach, and the proxy that sees to it.
* `secrecy`: what is not recorded. `traffic`: what is received: HTTP exchanges, files.
* `pool`, `lease`, `processes`, `guard`: browsers, from start to end, and one page of them.

Importing any of these loads no browser library; Playwright is loaded when a pool first starts.
"""
