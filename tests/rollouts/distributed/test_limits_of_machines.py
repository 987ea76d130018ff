"""What holds for all machines together: their parts of limits, their browsers, their formats."""

import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from webtraj import open_dataset
from webtraj.environments.browser.lease import OperationLimits
from webtraj.rollouts import RunSpec
from webtraj.rollouts.distributed.driver import Member, next_share
from webtraj.rollouts.distributed.node import NodeRunner, Place, Work
from webtraj.rollouts.results import NullRolloutObserver
from webtraj.store.places import open_storage

MACHINES = st.sampled_from("abcd")


@settings(deadline=None)
@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("join"), MACHINES, st.integers(1, 64)),
            st.tuples(st.just("leave"), MACHINES),
            st.tuples(st.just("tell"), MACHINES),
            st.tuples(st.just("told"), MACHINES),
        ),
        max_size=60,
    )
)
def test_parts_never_add_up_to_more_than_the_whole(events):
    members, telling = {}, []

    def tell():
        telling[:] = filter(None, [next_share(members.values())])

    def told():
        ((member, share),) = telling
        member.share = share
        telling.clear()

    for kind, key, *size in events:
        if kind == "join" and key not in members:
            members[key] = Member(Place(key, key, size[0]), None)
        elif kind == "leave":
            members.pop(key, None)
        elif kind == "tell" and not telling:
            tell()
        elif kind == "told" and telling:
            told()
        # A node may go by what it is being told already, or by what it was told before.
        used = {member: member.share for member in members.values()}
        for member, share in telling:
            if member in used:
                used[member] = max(member.share, share)
        assert sum(used.values()) <= 1 + 1e-6
    if telling:
        told()
    while tell() or telling:  # In the end each has what is due to it.
        told()
    for member in members.values():
        size = sum(one.place.episodes for one in members.values())
        assert member.share == pytest.approx(member.place.episodes / size)


async def last_parts_are(cluster, **parts):
    """Waits until the last that each of these machines was told is its part."""
    async with asyncio.timeout(60):
        while any(
            name not in cluster.lines or cluster.lines[name].shares[-1:] != [part]
            for name, part in parts.items()
        ):
            await asyncio.sleep(0.01)


async def test_every_machine_is_told_its_part_before_it_plays(machines):
    cluster = machines(one=3, two=1)
    rollout = asyncio.ensure_future(cluster.play(["ladder/climb", "ladder/hang"], episodes=8))
    await last_parts_are(cluster, one=0.75, two=0.25)
    rollout.cancel()
    with pytest.raises(asyncio.CancelledError):
        await rollout
    assert not any(line.got_turns_untold for line in cluster.lines.values())


async def test_a_part_goes_back_to_those_who_stay(machines):
    cluster = machines(one=1, two=1)
    rollout = asyncio.ensure_future(cluster.play(["ladder/climb", "ladder/hang"], episodes=8))
    await last_parts_are(cluster, one=0.5, two=0.5)
    cluster.cut("two")
    await last_parts_are(cluster, one=1.0)
    rollout.cancel()
    with pytest.raises(asyncio.CancelledError):
        await rollout
    await cluster.lines["two"].node.close()


@pytest.fixture
def node(climber, tmp_path):
    """Makes a node of this machine that was never opened."""

    def make(agent=climber, *, episodes=8, **work):
        return NodeRunner(
            Work(run_id="one", out=str(tmp_path / "out"), agent=agent, **work), episodes
        )

    return make


async def test_a_nodes_browsers_are_as_configured_and_limited_to_its_part(node):
    limits = {"navigate": 8, "allocate": 1, "requests_per_minute": 60}
    spec = RunSpec(
        contexts_per_browser=2, browser_endpoint="ws://there", wait_timeout=7.0,
        operation_timeout=3.0, operation_limits=limits,
    )  # fmt: skip
    made = node(spec=spec)
    assert (await made.open()).failure is None
    await made.limit(0.25)
    pool = made._pool
    assert (pool.limits.lease, pool.limits.call) == (7, 3)
    assert pool.operations.limits == OperationLimits(navigate=2, allocate=1, requests_per_minute=15)
    await made.limit(0.5)
    assert pool.operations.limits == OperationLimits(navigate=4, allocate=1, requests_per_minute=30)
    await made.close()


async def test_a_machine_with_less_room_plays_on_with_fewer(machines, ladder):
    cluster = machines(one=4, two=1)
    shrunk = asyncio.Event()

    class Looker:
        def rollout_planned(self, plan):
            pass

        def episode_ended(self, result):
            line = cluster.lines.get("one")
            if line is not None and len(line.accepted) > 4 and not shrunk.is_set():
                shrunk.set()
                line.node._runner._crew.resize(1)

    results, _ = await cluster.play("ladder/climb", episodes=200, observer=Looker())
    assert shrunk.is_set()
    assert sorted(result.row for result in results) == list(range(200))
    assert len(open_dataset(cluster.out)) == 200


async def test_a_node_keeps_nothing_of_episodes_that_failed(machines):
    cluster = machines(one=2)
    held = []

    class Looker(NullRolloutObserver):
        def episode_ended(self, result):
            held.append(cluster.lines["one"].node._runner.results)

    impatient = {"max_consecutive_errors": 100}
    await cluster.play("ladder/crash", episodes=20, settings=impatient, observer=Looker())
    assert [result.cause for result in held[-1]] == [None] * 20


@pytest.mark.parametrize("name", ["pb", "pb.zst"])
@pytest.mark.parametrize("place", ["folder", "bucket"])
async def test_nodes_write_the_format_of_the_dataset(machines, machines_of_bucket, name, place):
    if place == "folder":
        cluster = machines(one=2, two=2)
    else:
        url = f"memory://test-node-formats/{name}"
        cluster = machines_of_bucket(url, one=2, two=2)
    results, _ = await cluster.play("ladder/climb", episodes=20, format_name=name)
    assert len(results) == 20
    assert len(open_dataset(cluster.out)) == 20
    files = [entry.key for entry in open_storage(cluster.out).list("episodes/")]
    assert {file.partition(".")[2] for file in files} == {name}
