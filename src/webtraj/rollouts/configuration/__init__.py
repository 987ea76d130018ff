"""Rollouts from configurations: YAML and `key=value`, checked, and made into a run.

* `loading`: a file and those that it builds on; `webtraj.configuration` does the rest.
* `rollout`: the keys there are, with their types and ranges, and those of other systems that are
  not taken, with the reason; `quick` has those of a command line without a file.
* `building`: a configuration made into a `ConfiguredRollout`; `selection`, `players` and `judges`
  are parts of that.
* `running`: playing one, and going on with it.

The files that ship with webtraj are in `files/`.
"""

from webtraj.rollouts.configuration.building import build_rollout
from webtraj.rollouts.configuration.loading import Configuration, load_configuration
from webtraj.rollouts.configuration.running import ConfiguredRollout

__all__ = ["Configuration", "ConfiguredRollout", "build_rollout", "load_configuration"]
