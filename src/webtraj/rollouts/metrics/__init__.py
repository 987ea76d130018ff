"""Metrics of rollouts: of a dataset, of one of its runs, of results, and while a rollout runs.

* `measuring`: from episodes to a report; `report`: the report, and what `metrics.json` holds.
* `metrics`: the numbers, each with its counts and its definition; `values`, `estimators`: what they
  are made of.
* `crashes`: which episodes tell of the policy, by our rule or by WebGym's.
* `facts`, `steps`, `phases`, `verbs`, `clock`: what is asked of one episode; `tally`: counting.
* `live`: an observer that counts while a rollout runs; `sinks`: TensorBoard and W&B; `targets`:
  which of them a configuration asks for.
* `presenting`: numbers as a person reads them, side by side.
"""

from webtraj.rollouts.metrics.crashes import CrashRule, EpisodeClass
from webtraj.rollouts.metrics.estimators import pass_at_k, wilson_interval
from webtraj.rollouts.metrics.files import read_metrics, write_metrics
from webtraj.rollouts.metrics.live import MetricsObserver
from webtraj.rollouts.metrics.measuring import (
    measure,
    measure_results,
    measure_summaries,
    measure_trajectories,
)
from webtraj.rollouts.metrics.metrics import RolloutMetrics
from webtraj.rollouts.metrics.phases import PhaseTimes
from webtraj.rollouts.metrics.report import Measuring, MetricsReport
from webtraj.rollouts.metrics.sinks import MetricsSink, TensorBoardSink, WandbSink
from webtraj.rollouts.metrics.targets import MetricsTargets, WandbTarget
from webtraj.rollouts.metrics.values import PassAtK, Rate, Ratio, Spread

__all__ = [
    "CrashRule",
    "EpisodeClass",
    "Measuring",
    "MetricsObserver",
    "MetricsReport",
    "MetricsSink",
    "MetricsTargets",
    "PassAtK",
    "PhaseTimes",
    "Rate",
    "Ratio",
    "RolloutMetrics",
    "Spread",
    "TensorBoardSink",
    "WandbSink",
    "WandbTarget",
    "measure",
    "measure_results",
    "measure_summaries",
    "measure_trajectories",
    "pass_at_k",
    "read_metrics",
    "wilson_interval",
    "write_metrics",
]
