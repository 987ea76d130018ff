"""Metrics of rollouts: of a dataset, of one of its runs, of results, and while a rollout runs.

* `facts`: what is asked of one episode; `crashes`: whether it tells of the policy, by our rule or
  by WebGym's.
* `tally`: the numbers, each with its counts and its definition, counted one by one; `values`: what
  they are made of.
* `measuring`: from episodes to a report; `report`: the report, and what `metrics.json` holds.
* `live`: an observer that counts while a rollout runs, and where that goes: TensorBoard and W&B.
* `presenting`: numbers as a person reads them, side by side.
"""

from webtraj.rates import PassAtK, Rate, Ratio, Spread, pass_at_k, wilson_interval
from webtraj.rollouts.metrics.crashes import CrashRule, EpisodeClass
from webtraj.rollouts.metrics.facts import PhaseTimes
from webtraj.rollouts.metrics.live import (
    MetricsObserver,
    MetricsSink,
    MetricsTargets,
    TensorBoardSink,
    WandbSink,
    WandbTarget,
)
from webtraj.rollouts.metrics.measuring import (
    measure,
    measure_results,
    measure_summaries,
    measure_trajectories,
)
from webtraj.rollouts.metrics.report import Measuring, MetricsReport, read_metrics, write_metrics
from webtraj.rollouts.metrics.tally import RolloutMetrics

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
