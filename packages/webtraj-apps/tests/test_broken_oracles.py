"""The oracle with a named fault fails, where the fault does harm: the world's state decides."""

import collections

import pytest

import webtraj
from webtraj import Outcome
from webtraj.agents.broken import FAULTS
from webtraj.rollouts import RunSpec, collect


@pytest.mark.browser
async def test_an_oracle_with_a_fault_fails_where_the_fault_does_harm(errands, tmp_path):
    tasks = ["apps/errands/add", "apps/errands/finish-all-of-a-kind"]
    played = {"preset": tasks, "episodes": 2, "parallel": 2}
    await collect(RunSpec(**played, agent="oracle", out=tmp_path / "oracle"))
    found = collections.defaultdict(set)
    for fault in FAULTS:
        options = {"dataset": str(tmp_path / "oracle"), "fault": fault}
        out = tmp_path / fault
        await collect(RunSpec(**played, agent="broken", agent_options=options, out=out))
        for one in webtraj.open_dataset(out).summaries:
            assert one.policy == f"broken/{fault}"
            found[one.outcome].add((fault, one.task.rpartition("/")[2]))
    add, finish = "add", "finish-all-of-a-kind"
    assert found[Outcome.FAILURE] >= {
        *(("wrong-value", add), ("wrong-value", finish), ("stops-early", add)),
        *(("stops-early", finish), ("answer-only", add), ("answer-only", finish)),
        ("side-effect", finish),
    }
