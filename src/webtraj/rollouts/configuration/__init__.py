"""Configurations of rollouts: YAML and `key=value`, validated and built into a run.

* `config_file`: a file and the files that it builds on, read with `webtraj.settings.configuration`.
* `dialects`: the names that WebGym and Orby have for the fields of `webtraj.runs.spec.RunSpec`,
  which are our own keys, and the flags.
* `builder`: picks the tasks (`selection`) and builds a `Rollout`.

The files that ship with webtraj are in `files/`.
"""

from webtraj.rollouts.configuration.builder import build_rollout
from webtraj.rollouts.configuration.config_file import Configuration, load_configuration

__all__ = ["Configuration", "build_rollout", "load_configuration"]
