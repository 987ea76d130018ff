"""Collectors, which store the episodes of environments. The protocol is in `base`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from webtraj import _homes

if TYPE_CHECKING:
    from webtraj.collectors.base import EpisodeRecorder as EpisodeRecorder
    from webtraj.collectors.base import NullTrajectoryCollector as NullTrajectoryCollector
    from webtraj.collectors.base import TrajectoryCollector as TrajectoryCollector
    from webtraj.collectors.bucket import BucketTrajectoryCollector as BucketTrajectoryCollector
    from webtraj.collectors.bucket import S3TrajectoryCollector as S3TrajectoryCollector
    from webtraj.collectors.local import JsonTrajectoryCollector as JsonTrajectoryCollector
    from webtraj.collectors.local import ProtobufTrajectoryCollector as ProtobufTrajectoryCollector
    from webtraj.collectors.memory import MemoryTrajectoryCollector as MemoryTrajectoryCollector
    from webtraj.collectors.tee import TeeTrajectoryCollector as TeeTrajectoryCollector
    from webtraj.collectors.uploader import Pauses as Pauses
    from webtraj.collectors.uploader import UploadStatus as UploadStatus

_HOMES = {
    "BucketTrajectoryCollector": "bucket",
    "EpisodeRecorder": "base",
    "JsonTrajectoryCollector": "local",
    "MemoryTrajectoryCollector": "memory",
    "NullTrajectoryCollector": "base",
    "Pauses": "uploader",
    "ProtobufTrajectoryCollector": "local",
    "S3TrajectoryCollector": "bucket",
    "TeeTrajectoryCollector": "tee",
    "TrajectoryCollector": "base",
    "UploadStatus": "uploader",
}

__all__ = [*sorted(_HOMES)]
__getattr__, __dir__ = _homes.face(__name__, _HOMES)
