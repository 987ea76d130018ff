"""The version of the weights that acted is in the index, whoever writes that; old ones lack it."""

import msgspec

import webtraj
from rows import each
from webtraj import EndReason, EpisodeEnd, EpisodeInfo, EpisodeTrajectory, StepRecord, open_dataset
from webtraj.datasets.dataset import parse_condition
from webtraj.datasets.recovery import recover
from webtraj.datasets.verification import verify
from webtraj.datasets.writer import DatasetWriter
from webtraj.processing.steps.filters import Filter
from webtraj.store.index import EpisodeSummary
from webtraj.trajectory import Decision, ErrorInfo, ModelCall, StepType

LONG = "w" * 9000  # Long enough to be a blob.


def episode(*calls, in_flight=None, episode_id="e1"):
    """An episode with a step for each tuple of versions, or of pairs of a version and an error."""

    def decision(versions):
        made = [(v, "") if isinstance(v, str) else v for v in versions]
        return Decision(
            action="noop()",
            model_calls=tuple(ModelCall(policy_version=v, error=error) for v, error in made),
        )

    steps = [StepRecord(0, StepType.FIRST, "page")]
    for number, versions in enumerate(calls, start=1):
        kind = StepType.LAST if number == len(calls) and in_flight is None else StepType.MID
        steps.append(
            StepRecord(number, kind, "page", "noop()", 0.0, 0.0, decision=decision(versions))
        )
    end = EpisodeEnd(reason=EndReason.TERMINATED)
    if in_flight is not None:
        end = EpisodeEnd(
            reason=EndReason.ERRORED,
            error=ErrorInfo(type="E", message="m", traceback=""),
            action_in_flight=True,
            in_flight_action="noop()",
            in_flight_decision=decision(in_flight),
        )
    return EpisodeTrajectory(EpisodeInfo(episode_id=episode_id), tuple(steps), end)


CASES = {
    "no calls": (episode((), ()), ""),
    "one": (episode(("3",), ("3", "3")), "3"),
    "changed": (episode(("3",), ("4",), ("5",)), "3..5"),
    "changed in a call": (episode(("3",), ("3..4",), ("4",)), "3..4"),
    "untold": (episode(("",), ("3",), ("",)), "3"),
    "failed calls answered nothing": (episode((("2", "refused"), "3"), (("4", "cut"),)), "3"),
    "in flight": (episode(("3",), in_flight=("4",)), "3..4"),
    "a path": (episode(("../out/model",)), "../out/model"),
    "long": (episode((LONG,)), LONG),
    "no Unicode": (episode(("\ud800",)), "\ud800"),
}


@each("name", CASES)
@each("format", ["json", "pb.zst"])
def test_the_index_has_it_and_so_has_what_is_found_by_its_file(name, format, tmp_path):  # noqa: A002
    trajectory, version = CASES[name]
    with DatasetWriter(tmp_path / "d", format=format) as writer:
        writer.add(trajectory)
    (summary,) = open_dataset(tmp_path / "d").summaries
    assert summary.policy_version == version
    assert verify(tmp_path / "d").clean
    for path in (tmp_path / "d" / "index").iterdir():
        path.unlink()
    assert open_dataset(tmp_path / "d").summaries == (summary,)
    kept = Filter(where=f"policy_version == {version!r}") if len(version) < 2000 else None
    assert kept is None or isinstance(kept(trajectory), EpisodeTrajectory)


async def test_collectors_write_it_and_recovery_does(tmp_path):
    trajectory, version = CASES["changed"]
    collector = webtraj.JsonTrajectoryCollector(tmp_path / "d")
    ended = collector.begin_episode(EpisodeInfo(episode_id="ended"))
    open_ = collector.begin_episode(EpisodeInfo(episode_id="open"))
    for step in trajectory.steps:
        ended.record_step(step)
    for step in trajectory.steps[:3]:
        open_.record_step(step)
    ended.end_episode(trajectory.end)
    await collector.aclose()
    recover(tmp_path / "d")
    found = {s.episode_id: s.policy_version for s in open_dataset(tmp_path / "d").summaries}
    assert found == {"ended": version, "open": "3..4"}


def test_a_false_one_does_not_agree_with_its_file(tmp_path):
    with DatasetWriter(tmp_path / "d") as writer:
        writer.add(episode(("7",)))
    (path,) = (tmp_path / "d" / "index").iterdir()
    summary = EpisodeSummary.from_line(path.read_bytes().rstrip())
    path.write_bytes(msgspec.structs.replace(summary, policy_version="8").to_line())
    assert not verify(tmp_path / "d").clean


def test_episodes_are_chosen_by_it():
    met = parse_condition("policy_version in ('7', '8')")
    assert met(EpisodeSummary(episode_id="e", policy_version="8"))
    assert not met(EpisodeSummary(episode_id="e"))
