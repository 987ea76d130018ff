"""Rollouts on many machines: the same plan and the same runner, handed out in small leases.

* `collecting`: such a rollout in one call.
* `driver`: hands out leases, takes results, and notes for those who watch what is under way where;
  `ledger`: which rows are open, who has them, and what the store says of a lost node's episodes.
* `node`: what runs on each machine: one browser pool, one collector, a runner for each lease.
* `messages`: what driver and nodes say to each other.
* `cluster`: machines, as Ray has them. Ray is imported there, and nowhere else but in `job`.
* `job`: such a rollout as a job of Ray's.

Who dies, and what becomes of it:

1. A node, or the way to it. Its lease on its rows runs out, on both sides: the driver plays them
   elsewhere, as next tries, unless their records have come to the store; the node ends what it has
   open as CANCELLED and keeps it in its spool, if it lives. What it had recorded goes to the store
   when a rollout there begins again, or by `webtraj push`. It never counts twice (`runs.counting`).
2. The driver. Nodes hear nothing any more, and end in the same way. A rollout that resumes the run
   tells those that have not yet, and plays the rest.
3. The store. Nodes go on and keep all in their spools; the rollout says so in the end.
"""

from webtraj.rollouts.distributed.cluster import NodeSizing
from webtraj.rollouts.distributed.collecting import collect_on_ray

__all__ = ["NodeSizing", "collect_on_ray"]
