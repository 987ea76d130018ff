"""Rollouts from configurations: YAML and `key=value`, checked, and made into a run.

* `loading`: files and overrides, merged into one configuration.
* `rollout`, `crawl`: the keys there are, with their types and ranges; `refusals`: those of other
  systems that are not taken, with the reason.
* `checking`: what is wrong with a configuration, in words.
* `building`: a configuration made into a `ConfiguredRollout`; `selection`, `players` and `ranks`
  are parts of that.
* `running`: playing one, and going on with it.

The files that ship with webtraj are in `files/`.
"""

from webtraj.rollouts.configuration.building import build_rollout
from webtraj.rollouts.configuration.loading import Configuration, load_configuration
from webtraj.rollouts.configuration.running import ConfiguredRollout

__all__ = ["Configuration", "ConfiguredRollout", "build_rollout", "load_configuration"]
