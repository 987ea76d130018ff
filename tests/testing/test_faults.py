"""The injected faults do happen, where they should and nowhere else."""

import errno
import inspect
import os
import typing

import pytest

from rows import each
from webtraj import EndReason, EpisodeEnd, EpisodeInfo, StepRecord, errors
from webtraj.collectors.memory import MemoryTrajectoryCollector
from webtraj.testing import faults
from webtraj.trajectory import StepType

_END = EpisodeEnd(reason=EndReason.TERMINATED)
_METHODS = typing.get_args(faults.Method)


async def _use(collector):
    """Makes every call there is, and a second step; returns the names of those that failed."""
    failed = []

    async def attempt(name, function, *args):
        try:
            result = function(*args)
            return await result if inspect.isawaitable(result) else result
        except errors.CollectorError:
            failed.append(name)

    recorder = await attempt("begin_episode", collector.begin_episode, EpisodeInfo())
    if recorder is not None:
        await attempt("record_info", recorder.record_info, EpisodeInfo())
        await attempt("record_intent", recorder.record_intent, "go")
        await attempt("record_step", recorder.record_step, StepRecord(0, StepType.FIRST, 0))
        await attempt("record_step", recorder.record_step, StepRecord(1, StepType.MID, 1))
        await attempt("end_episode", recorder.end_episode, _END)
    await attempt("drain", collector.drain)
    await attempt("flush", collector.flush)
    await attempt("seal", collector.seal)
    await attempt("aclose", collector.aclose)
    return failed


@each("method", _METHODS)
async def test_the_chosen_method_fails_and_no_other(method):
    assert await _use(faults.FailingCollector(MemoryTrajectoryCollector(), method)) == [method]


async def test_the_chosen_call_fails_and_no_other():
    inner = MemoryTrajectoryCollector()
    collector = faults.FailingCollector(inner, "record_step", on_call=2)
    assert await _use(collector) == ["record_step"]
    assert [len(trajectory.steps) for trajectory in inner.trajectories] == [1]
    assert collector.calls == 2


def test_a_file_size_limit_cuts_a_write_short_and_fails_the_next(tmp_path):
    path = tmp_path / "file"
    descriptor = os.open(path, os.O_CREAT | os.O_WRONLY)
    with faults.file_size_limit(10):
        assert os.write(descriptor, b"123456") == 6
        assert os.write(descriptor, b"123456") == 4
        with pytest.raises(OSError, match=os.strerror(errno.EFBIG)) as caught:
            os.write(descriptor, b"56")
        assert caught.value.errno == errno.EFBIG
        os.ftruncate(descriptor, 6)
    os.lseek(descriptor, 0, os.SEEK_END)
    assert os.write(descriptor, b"123456") == 6
    os.close(descriptor)
    assert path.read_bytes() == b"123456123456"


def test_a_full_disk_cuts_a_write_short_and_fails_the_next(tmp_path):
    descriptor = os.open(tmp_path / "file", os.O_CREAT | os.O_WRONLY)
    with faults.disk_full(after_bytes=10):
        assert os.write(descriptor, b"123456") == 6
        assert os.write(descriptor, memoryview(b"123456")) == 4
        with pytest.raises(OSError, match=os.strerror(errno.ENOSPC)) as caught:
            os.write(descriptor, b"56")
        assert caught.value.errno == errno.ENOSPC
        assert os.write(descriptor, b"") == 0
    assert os.write(descriptor, b"56") == 2
    os.close(descriptor)
