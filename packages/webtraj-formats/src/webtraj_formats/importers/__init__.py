"""Readers of episodes: one module per system, with `recognises` and `read`.

* `agentlab`: experiment folders of BrowserGym and AgentLab.
* `atif`: the Agent Trajectory Interchange Format.
* `miniwob_demos`: demonstrations of MiniWoB++.
* `webgym`: trajectory files of WebGym.

`pickles` and `torch_files` read untrusted files as plain data.
"""
