"""Metrics of rollouts: of a dataset, of one of its runs, of results, and of a running rollout.

* `facts`: what metrics need to know about one episode. `crashes`: whether an episode counts for the
  policy, by our rule or WebGym's.
* `tally`: the metrics, each with its counts and definition, counted episode by episode.
* `measuring`: from episodes to a report. `report`: the report, and the content of `metrics.json`.
* `live`: an observer that counts while a rollout runs, and writes to TensorBoard and W&B.
* `presenting`: metrics as text, for tables.
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
