"""The files of a run beside its episodes, which say what is planned, done and left.

* `plan`: the episodes of a rollout, with their seeds.
* `run`: a run's plan and settings, the tries at its rows, and its progress.
* `iterations`: consecutive runs, each with a dataset of its own.
"""
