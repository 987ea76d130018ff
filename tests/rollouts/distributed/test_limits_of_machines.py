"""What holds for all machines together: their parts of limits, their browsers, their formats."""

import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from webtraj import open_dataset
from webtraj.environments.browser.lease import OperationLimits
from webtraj.rollouts import RunSpec
from webtraj.rollouts.distributed.driver import Member, share_of
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
    members, telling = {}, {}

    def tell(key):
        member = members[key]
        telling[key] = share_of(member, members.values()), member.share
        member.share = max(telling[key])

    def told(key):
        members[key].share, _ = telling.pop(key)

    for kind, key, *size in events:
        if kind == "join" and key not in members:
            members[key] = Member(Place(key, key, size[0]), None, None)
        elif kind == "leave":
            members.pop(key, None)
            telling.pop(key, None)
        elif kind == "tell" and key in members and key not in telling:
            tell(key)
        elif kind == "told" and key in telling:
            told(key)
        # A node may go by what it is being told already, or by what it was told before.
        used = [max([member.share, *telling.get(key, ())]) for key, member in members.items()]
        assert sum(used) <= 1 + 1e-6
    for key in list(telling):
        told(key)
    for key in [*members, *members]:  # After two beats of each, all have what is due to them.
        tell(key)
        told(key)
    for member in members.values():
        size = sum(one.place.episodes for one in members.values())
        assert member.share == pytest.approx(member.place.episodes / size)


def test_one_that_joins_waits_for_its_whole_part():
    members = [Member(Place(key, key, 4), None, None, share=1 / 6) for key in "abcdef"]
    members.append(Member(Place("g", "g", 4), None, None))
    # Their shares add up to a little less than 1, of which a request would wait for years.
    assert share_of(members[-1], members) == 0.0
    for member in members:
        member.share = share_of(member, members)
    assert [member.share for member in members] == [1 / 7] * 7


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

    def make(spec, agent=climber, *, episodes=8):
        placed = spec.model_copy(update={"out": str(tmp_path / "out")})
        return NodeRunner(Work(run_id="one", spec=placed, agent=agent), episodes)

    return make


async def test_a_nodes_browsers_are_as_configured_and_limited_to_its_part(node):
    limits = {"navigate": 8, "allocate": 1, "requests_per_minute": 60}
    spec = RunSpec(
        contexts_per_browser=2, browser_endpoint="ws://there", wait_timeout=7.0,
        operation_timeout=3.0, operation_limits=limits,
    )  # fmt: skip
    made = node(spec)
    assert (await made.open()).failure is None
    await made.beat(0.25, False)
    pool = made._pool
    assert (pool.limits.lease, pool.limits.call) == (7, 3)
    assert pool.operations.limits == OperationLimits(navigate=2, allocate=1, requests_per_minute=15)
    await made.beat(0.5, False)
    assert pool.operations.limits == OperationLimits(navigate=4, allocate=1, requests_per_minute=30)
    await made.close()


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
