"""Configurations of rollouts: YAML and `key=value`, validated and built into a run.

* `loading`: a file and the files that it builds on, read with `webtraj.configuration`.
* `rollout`: the keys, with types and ranges, and rejected keys of other systems with the reasons.
  `quick`: the keys of a command line without a file.
* `building`: builds a `ConfiguredRollout` from a configuration, using `selection`, `players` and
  `judges`.
* `running`: plays and resumes it.

The files that ship with webtraj are in `files/`.
"""

from webtraj.rollouts.configuration.building import build_rollout
from webtraj.rollouts.configuration.loading import Configuration, load_configuration
from webtraj.rollouts.configuration.running import ConfiguredRollout

__all__ = ["Configuration", "ConfiguredRollout", "build_rollout", "load_configuration"]
