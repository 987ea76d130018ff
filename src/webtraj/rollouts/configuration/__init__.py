"""Configurations of rollouts: YAML and `key=value`, validated and built into a run.

* `loading`: a file and the files that it builds on, read with `webtraj.settings.configuration`.
* `rollout`: WebGym's and Orby's keys, and rejected keys of other systems with the reasons. Our own
  keys, which are also the flags, are the fields of `webtraj.runs.spec.RunSpec`.
* `webgym`: what WebGym's keys mean, as a `RunSpec`; Orby's are its fields by other names.
* `building`: picks the tasks (`selection`) and builds a `Rollout`.

The files that ship with webtraj are in `files/`.
"""

from webtraj.rollouts.configuration.building import build_rollout
from webtraj.rollouts.configuration.loading import Configuration, load_configuration

__all__ = ["Configuration", "build_rollout", "load_configuration"]
