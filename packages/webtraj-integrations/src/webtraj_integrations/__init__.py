"""webtraj in other projects' tools: one small module each, imported only by its users.

* `sessions`: episodes that another program drives, all in one pool of browsers.
* `mcp`: an MCP server of such sessions; `mcp_tools`: the table of its tools.
* `openenv`: an OpenEnv server of such sessions; `manifest`: its declaration of rewards.
* `trl`, `verl`, `skyrl`: tasks for trainers, in their own process; `trainers`: what these share.
* `opentelemetry`: a collector that sends each episode as a trace while it runs.
"""
