"""webtraj: the trajectory layer for web agents.

The public API on one screen. Importing this module does no I/O and loads nothing heavy: each name
below is imported from its module when it is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from webtraj import _homes

__version__ = "0.2.0"

if TYPE_CHECKING:
    from webtraj import agents as agents
    from webtraj import collectors as collectors
    from webtraj import datasets as datasets
    from webtraj import environments as environments
    from webtraj import errors as errors
    from webtraj import exploring as exploring
    from webtraj import judging as judging
    from webtraj import loop as loop
    from webtraj import metrics as metrics
    from webtraj import processing as processing
    from webtraj import rollouts as rollouts
    from webtraj import serving as serving
    from webtraj import testing as testing
    from webtraj import training as training
    from webtraj import view as view
    from webtraj.collectors.base import NullTrajectoryCollector as NullTrajectoryCollector
    from webtraj.collectors.base import TrajectoryCollector as TrajectoryCollector
    from webtraj.collectors.bucket import BucketTrajectoryCollector as BucketTrajectoryCollector
    from webtraj.collectors.bucket import S3TrajectoryCollector as S3TrajectoryCollector
    from webtraj.collectors.local import JsonTrajectoryCollector as JsonTrajectoryCollector
    from webtraj.collectors.local import ProtobufTrajectoryCollector as ProtobufTrajectoryCollector
    from webtraj.collectors.memory import MemoryTrajectoryCollector as MemoryTrajectoryCollector
    from webtraj.collectors.tee import TeeTrajectoryCollector as TeeTrajectoryCollector
    from webtraj.datasets.dataset import open_dataset as open_dataset
    from webtraj.environments.base import Environment as Environment
    from webtraj.environments.bridges import as_async as as_async
    from webtraj.environments.bridges import as_sync as as_sync
    from webtraj.environments.browser.environment import BrowserEnvironment as BrowserEnvironment
    from webtraj.environments.browser.tasks import Verdict as Verdict
    from webtraj.environments.browser.tasks import WebTask as WebTask
    from webtraj.environments.collecting_environment import (
        TrajectoryCollectingEnvironment as TrajectoryCollectingEnvironment,
    )
    from webtraj.environments.gymnasium import from_gymnasium as from_gymnasium
    from webtraj.environments.gymnasium import to_gymnasium as to_gymnasium
    from webtraj.errors import WebtrajError as WebtrajError
    from webtraj.registry import info as info
    from webtraj.registry import make as make
    from webtraj.registry import register as register
    from webtraj.registry import unregister as unregister
    from webtraj.store.foreign import ReprOnly as ReprOnly
    from webtraj.trajectory import Decision as Decision
    from webtraj.trajectory import EndReason as EndReason
    from webtraj.trajectory import EpisodeEnd as EpisodeEnd
    from webtraj.trajectory import EpisodeInfo as EpisodeInfo
    from webtraj.trajectory import EpisodeTrajectory as EpisodeTrajectory
    from webtraj.trajectory import Judgement as Judgement
    from webtraj.trajectory import ModelCall as ModelCall
    from webtraj.trajectory import Outcome as Outcome
    from webtraj.trajectory import StepRecord as StepRecord

_HOMES = {
    "BrowserEnvironment": "environments.browser.environment",
    "BucketTrajectoryCollector": "collectors.bucket",
    "Decision": "trajectory",
    "EndReason": "trajectory",
    "Environment": "environments.base",
    "EpisodeEnd": "trajectory",
    "EpisodeInfo": "trajectory",
    "EpisodeTrajectory": "trajectory",
    "JsonTrajectoryCollector": "collectors.local",
    "Judgement": "trajectory",
    "MemoryTrajectoryCollector": "collectors.memory",
    "ModelCall": "trajectory",
    "NullTrajectoryCollector": "collectors.base",
    "Outcome": "trajectory",
    "ProtobufTrajectoryCollector": "collectors.local",
    "ReprOnly": "store.foreign",
    "S3TrajectoryCollector": "collectors.bucket",
    "StepRecord": "trajectory",
    "TeeTrajectoryCollector": "collectors.tee",
    "TrajectoryCollectingEnvironment": "environments.collecting_environment",
    "TrajectoryCollector": "collectors.base",
    "Verdict": "environments.browser.tasks",
    "WebTask": "environments.browser.tasks",
    "WebtrajError": "errors",
    "as_async": "environments.bridges",
    "as_sync": "environments.bridges",
    "from_gymnasium": "environments.gymnasium",
    "info": "registry",
    "make": "registry",
    "open_dataset": "datasets.dataset",
    "register": "registry",
    "to_gymnasium": "environments.gymnasium",
    "unregister": "registry",
}

_PACKAGES = (
    "agents", "collectors", "datasets", "environments", "errors", "exploring",
    "judging", "loop", "metrics", "processing", "rollouts", "serving", "testing", "training",
    "view",
)  # fmt: skip
"""Modules that load on first use: `import webtraj` is enough for `webtraj.rollouts.collect`."""

__all__ = [*sorted(_HOMES), "__version__"]
__getattr__, __dir__ = _homes.face(__name__, _HOMES, _PACKAGES)
