"""Rollouts on several machines, with one scheduler for all.

* `collection`: such a rollout in one call.
* `driver`: hands out turns, collects results, and looks up what a lost node has stored.
* `node`: runs on each machine: a `Runner` that plays the driver's turns.
* `cluster`: the machines of a Ray cluster. Only `cluster` and `job` import Ray.
* `job`: such a rollout as a Ray job.

What happens on failure:

1. A node fails or is cut off. Driver and node give each other up. The driver plays the node's rows
   elsewhere, as next tries, unless their records have reached the store. The node, if it is alive,
   ends its open episodes as CANCELLED and keeps them in its spool. What it had recorded goes to the
   store when the next rollout starts there, or by `webtraj push`. It never counts twice
   (`webtraj.store.tries`).
2. The driver fails. Nodes hear nothing more and end in the same way. A rollout that resumes the run
   waits for their ends, and plays the remaining rows.
3. The store fails. Nodes continue and keep everything in their spools; the rollout reports it at
   the end.
"""

from webtraj.rollouts.distributed.collection import collect_on_ray
from webtraj.rollouts.distributed.node import Cluster
from webtraj.rollouts.node_size import NodeSizing

__all__ = ["Cluster", "NodeSizing", "collect_on_ray"]
