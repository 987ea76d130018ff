"""webtraj in other projects' tools: one small module each, imported only by its users.

* `sessions`: episodes that another program drives, all in one pool of browsers.
* `openenv`: an OpenEnv server of such sessions; `manifest`: its declaration of rewards.
"""
