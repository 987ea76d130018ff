"""The files of a run beside its episodes: what was planned, what was played, what is left.

* `plan`: the episodes of a rollout, with their seeds.
* `run`: a run's plan and settings, the tries at its rows, and from these its progress.
* `iterations`: consecutive runs, each with a dataset of its own.
"""
