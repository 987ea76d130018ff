"""The results of episodes: success rates with intervals, and all other metrics.

* `facts`: what metrics need to know about one episode, including the error that ended it, and
  whether it counts for the policy by our rule or WebGym's.
* `rates`: rates, ratios and spreads with their counts, and intervals.
* `tally`: the metrics, counted episode by episode.
* `metrics_report`: makes a report of a dataset, a run or results, and `metrics.json`.
* `success`: success by task and iteration, for loops, the viewer and reports.
* `failures`: why episodes failed, with the steps that show it.
* `forks`: the values of an episode's steps, from its forks.
* `comparison`: datasets and iterations beside each other. `report`: the content of a report.
* `live`: an observer that counts while a rollout runs, and writes to TensorBoard and W&B.
* `sentences`: metrics as text, for tables.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from webtraj import _homes

if TYPE_CHECKING:
    from webtraj.metrics.facts import CrashRule as CrashRule
    from webtraj.metrics.facts import EpisodeClass as EpisodeClass
    from webtraj.metrics.facts import EpisodeFacts as EpisodeFacts
    from webtraj.metrics.facts import PhaseTimes as PhaseTimes
    from webtraj.metrics.failures import Failure as Failure
    from webtraj.metrics.failures import find_failures as find_failures
    from webtraj.metrics.live import MetricsObserver as MetricsObserver
    from webtraj.metrics.live import MetricsSink as MetricsSink
    from webtraj.metrics.live import TensorBoardSink as TensorBoardSink
    from webtraj.metrics.live import WandbSink as WandbSink
    from webtraj.metrics.live import open_metrics as open_metrics
    from webtraj.metrics.metrics_report import Measuring as Measuring
    from webtraj.metrics.metrics_report import MetricsReport as MetricsReport
    from webtraj.metrics.metrics_report import measure as measure
    from webtraj.metrics.metrics_report import measure_results as measure_results
    from webtraj.metrics.metrics_report import measure_trajectories as measure_trajectories
    from webtraj.metrics.metrics_report import read_metrics as read_metrics
    from webtraj.metrics.metrics_report import write_metrics as write_metrics
    from webtraj.metrics.rates import PassRate as PassRate
    from webtraj.metrics.rates import Rate as Rate
    from webtraj.metrics.rates import Ratio as Ratio
    from webtraj.metrics.rates import Spread as Spread
    from webtraj.metrics.rates import pass_at_k as pass_at_k
    from webtraj.metrics.rates import pass_hat_k as pass_hat_k
    from webtraj.metrics.rates import wilson_interval as wilson_interval
    from webtraj.metrics.tally import RolloutMetrics as RolloutMetrics

_HOMES = {
    "CrashRule": "facts",
    "EpisodeClass": "facts",
    "EpisodeFacts": "facts",
    "Failure": "failures",
    "Measuring": "metrics_report",
    "MetricsObserver": "live",
    "MetricsReport": "metrics_report",
    "MetricsSink": "live",
    "PassRate": "rates",
    "PhaseTimes": "facts",
    "Rate": "rates",
    "Ratio": "rates",
    "RolloutMetrics": "tally",
    "Spread": "rates",
    "TensorBoardSink": "live",
    "WandbSink": "live",
    "find_failures": "failures",
    "measure": "metrics_report",
    "measure_results": "metrics_report",
    "measure_trajectories": "metrics_report",
    "open_metrics": "live",
    "pass_at_k": "rates",
    "pass_hat_k": "rates",
    "read_metrics": "metrics_report",
    "wilson_interval": "rates",
    "write_metrics": "metrics_report",
}

__all__ = [*sorted(_HOMES)]
__getattr__, __dir__ = _homes.face(__name__, _HOMES)
