"""Environments in a real browser.

* `environment`: `BrowserEnvironment`, dm_env's contract over tasks in a browser.
* `tasks`: what a task is; `WebTask`, one for any site.
* `observation`, `observation_specs`, `observing`: what is shown, by channels.
* `camera`, `pictures`, `set_of_marks`: screenshots, and numbered boxes on them.
* `foreign_frames`, `frame_merging`: what is in frames of another origin; `downloads`: files.
* `acting`: how each verb is done; `policies`: what an agent may reach.
* `settling`, `traffic`: when a page counts as settled.
* `session`: the tabs of one lease; `page_script` and `page/`: what runs in every page.
* `sessions`: the session for an episode, a new one or the last.
* `pool`, `running`, `processes`, `guard`, `deadlines`, `executable`: browsers, from start to end.

Importing any of these loads no browser library; Playwright is loaded when a pool first starts.
"""
