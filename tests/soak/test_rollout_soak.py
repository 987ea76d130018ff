"""Episodes under fire (`make test-rollouts`), and an audit that sees all that may go wrong."""

import copy
import os
import shutil
import sys

import pytest
import rollout_audit
from click_policy import FailingPolicy, decide
from rollout_soak import KILLS, RolloutSoak, show

from removing import remove
from webtraj import EndReason, open_dataset
from webtraj.testing.model_server import ModelRequest

EPISODES = int(os.environ.get("WEBTRAJ_ROLLOUTS", "0"))
SEED = int(os.environ.get("WEBTRAJ_SEED", "0"))


@pytest.mark.browser
@pytest.mark.timeout(7200)
@pytest.mark.skipif(not EPISODES, reason="make test-rollouts says how many: WEBTRAJ_ROLLOUTS")
@pytest.mark.skipif(sys.platform != "linux", reason="needs Linux's parent-death signal")
async def test_every_row_ends_as_when_nothing_fails(tmp_path):
    # In the middle, twice, and once while it resumes: of each kind one, at least.
    soak = RolloutSoak(tmp_path, EPISODES, SEED, kills=KILLS if EPISODES >= 500 else 3)
    try:
        await soak.run()
    finally:
        show(soak)
    assert list(rollout_audit.audit(soak)) == []
    the_audit_sees_what_is_wrong(soak)


def the_audit_sees_what_is_wrong(soak):
    calm = {row["row"]: row for row in soak.plays["calm"].rows}
    for name, (change, complaint) in CHANGES.items():
        play = copy.deepcopy(soak.plays["killed"])
        change(play)
        problems = list(rollout_audit._rows(play, calm, soak.episodes))
        assert any(complaint in problem for problem in problems), name
    for name, (change, complaint) in DAMAGES.items():
        play = copy.deepcopy(soak.plays["killed"])
        play.folder = soak.folder / "damaged"
        shutil.copytree(soak.plays["killed"].folder, play.folder)
        change(play)
        problems = list(rollout_audit._record(play, soak.episodes))
        assert any(complaint in problem for problem in problems), (name, problems)
        shutil.rmtree(play.folder)


def errored(play):
    return next(told for told in play.told.values() if told["end"] == "ERRORED")


CHANGES = {
    "a row is lost": (lambda play: play.rows.pop(), "rows were planned"),
    "a row is there twice": (lambda play: play.rows.append(play.rows[0]), "rows were planned"),
    "an infrastructure failure is a failure": (
        lambda play: errored(play).update(outcome="FAILURE"),
        "do not go together",
    ),
    "an infrastructure failure has a reward": (
        lambda play: errored(play).update(reward=0.0),
        "a reward for what has no verdict",
    ),
    "an outcome differs": (
        lambda play: play.rows[0].update(reward=-7.0),
        "would have ended as",
    ),
    "a row is given up": (lambda play: play.rows[0].update(reward=None), "given up in the end"),
    "an episode ends twice": (lambda play: play.told_twice.append("it"), "told more than once"),
}
"""What may be wrong with what was told, and what the audit says to it."""


def drop(which):
    def change(play):
        summaries = open_dataset(play.folder).summaries
        remove(play.folder, next(s.episode_id for s in summaries if which(play, s)))

    return change


DAMAGES = {
    "the only try is gone": (
        drop(lambda play, s: s.end_reason is EndReason.TERMINATED and s.episode_id[-3:] == "-00"),
        f"the dataset has {EPISODES - 1} of {EPISODES} rows",
    ),
    "the last try is gone": (
        drop(lambda play, s: s.end_reason is EndReason.TERMINATED and s.episode_id[-3:] != "-00"),
        "was not finished once",
    ),
    "a partial try is gone": (
        drop(lambda play, s: s.episode_id in play.cut),
        "was begun, and is lost",
    ),
    "a failed try is gone": (
        drop(lambda play, s: s.end_reason is EndReason.ERRORED and s.episode_id in play.told),
        "was told of, and is lost",
    ),
}
"""What may be wrong with what was recorded, and what the audit says to it."""


@pytest.mark.parametrize(
    ("page", "action"),
    [
        ('Task: Click button TWO.\n\n[1] button "ONE"\n[2] button "TWO"', "click('2')"),
        ('Task: Click on Tab #2.\n\n[1] tablist\n  [4] tab "Tab #2" expanded=false', "click('4')"),
        (
            'Task: Select b and click Submit.\n\n[1] radio "a"\n[2] radio "b"\n[4] button "Go"',
            "click('2')",
        ),
        (
            'Task: Select b and click Submit.\n\n[2] checkbox "b" checked\n[4] button "Go"',
            "click('4')",
        ),
        ("Task: Click the button.\n\nnothing", "noop()"),
    ],
    ids=["a button", "a tab", "a checkbox", "all is ticked", "nothing to click"],
)
def test_the_policy_reads_pages(page, action):
    assert decide(page) == action


def test_the_policy_fails_as_it_says():
    body = b'{"messages": [{"role": "user", "content": "Task: Click.\\n[1] button \\"a\\""}]}'
    request = ModelRequest("POST", "/v1/chat/completions", {}, body)
    policy = FailingPolicy(0, failing=True)
    replies = [policy(request) for _ in range(2000)]
    assert policy.done["outage"] == 2000 // FailingPolicy.OUTAGES
    refused = [reply.status == 503 for reply in replies]
    assert sum(refused) == policy.done["outage"] * FailingPolicy.OUTAGE
    assert {name for name, _ in FailingPolicy.FAULTS} <= set(policy.done)
    calm = FailingPolicy(0, failing=False)
    assert {calm(request).text for _ in range(1000)} == {"click('1')"}
