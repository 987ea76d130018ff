"""Changes that resemble the expected ones earn no reward.

Some need installed applications: `make test-apps` runs them.
"""

import dataclasses

import pytest

from webtraj_apps import app as app_lib
from webtraj_apps import tasks, tricks

SEED = 1


@pytest.fixture
def judge(request):
    """Return a function that judges a task after statements have changed its world."""

    async def judged(name, deed):
        template = tasks.find_template(name)
        if not all(app_lib.find_app(app).installed for app in template.apps):
            pytest.skip("the application is not installed")
        task = tasks.AppTask(template)
        request.addfinalizer(task.discard)
        await task.begin(SEED)
        (world,) = task.worlds.values()
        world.execute(deed(world.facts, task.assignment))
        return await task.wrong_state()

    return judged


def settled(facts, assignment, *, swapped):
    """Yield the settlements of a plan; swapped, each goes to the receiver of the next one."""
    bills = [dict(one.where) for one in assignment.expect if not one.optional]
    receivers = [bill["owers"] for bill in bills]
    if swapped:
        receivers = receivers[1:] + receivers[:1]
    ids = {
        (project["id"], one["name"]): one["id"]
        for project in facts["projects"]
        for one in project["members"]
    }
    of = {number: project for (project, _), number in ids.items()}
    amounts = {
        (item["payer"], item["receiver"]): item["amount"]
        for project in facts["projects"]
        if project["id"] == of[bills[0]["payer_id"]]
        for item in project["settlements"]
    }
    names = {number: name for (_, name), number in ids.items()}
    for number, (bill, receiver) in enumerate(zip(bills, receivers, strict=True), 9000):
        payer = bill["payer_id"]
        yield (
            (
                "INSERT INTO bill (id, payer_id, amount, date, what, bill_type)"
                " VALUES (?, ?, ?, '2026-03-02', 'Settlement', 'REIMBURSEMENT')"
            ),
            (number, payer, amounts[names[payer], bill["owers"]]),
        )
        yield (
            "INSERT INTO billowers (bill_id, person_id) VALUES (?, ?)",
            (number, ids[of[payer], receiver]),
        )


async def test_a_settlement_with_another_receiver_does_not_count(judge):
    assert not await judge("budget/settle-all", lambda *it: settled(*it, swapped=False))
    assert await judge("budget/settle-all", lambda *it: settled(*it, swapped=True))


async def test_an_unsubscription_is_seen_where_replies_may_subscribe(judge):
    def unsubscribed(facts, assignment):
        user = next(one["id"] for one in facts["users"] if one["username"] == facts["user"])
        yield (
            (
                "UPDATE spirit_topic_notification_topicnotification SET is_active = 0"
                " WHERE id IN (SELECT id FROM spirit_topic_notification_topicnotification"
                " WHERE user_id = ? AND is_active = 1 LIMIT 1)"
            ),
            (user,),
        )

    assert "unexpected: changed spirit_topic_notification" in await judge(
        "forum/reply", unsubscribed
    )


@pytest.fixture
def solve(errands):
    """Return a function that solves a task of the errands by hand, as its oracle would."""

    def solved(name, **weaker):
        template = tasks.find_template(f"errands/{name}")
        assignment = template.begin(SEED)
        before = {"errands": errands.read(errands.contents / str(SEED))}
        rows = dict(before["errands"]["errand"])
        for one in assignment.expect:  # Each names its row.
            if one.kind == "added":
                rows[99,] = {"id": 99, **one.where}
            else:
                rows[one.where["id"],] = {**rows[one.where["id"],], **one.new}
        after = {"errands": {"errand": rows}}
        return tricks.Solved(template, dataclasses.replace(assignment, **weaker), before, after)

    return solved


def holes(solved):
    return {trick for trick, attempt in tricks.attempts(solved) if not solved.wrong(attempt)}


@pytest.mark.parametrize("name", ["add", "finish-all-of-a-kind", "remind"])
def test_no_trick_earns_a_reward(solve, name):
    solved = solve(name)
    assert not solved.assignment.wrong_changes(solved.apps, solved.before, solved.after)
    tried = {trick for trick, _ in tricks.attempts(solved)}
    assert tried >= {"answer-only", "side-effect"}
    assert not holes(solved)


def test_the_right_deed_in_an_empty_world_is_no_trick(errands):
    template = tasks.find_template("errands/add")
    assignment = template.begin(SEED)
    (wanted,) = assignment.expect
    before = {"errands": {"errand": {}}}
    after = {"errands": {"errand": {(1,): {"id": 1, **wanted.where}}}}
    assert not holes(tricks.Solved(template, assignment, before, after))


@pytest.mark.parametrize(
    ("name", "weaker", "found"),
    [
        ("add", {"expect": tasks.added("errand", text=lambda text: True)}, "other-value"),
        ("add", {"expect": tasks.added("errand", text=lambda text: "t" in text)}, "everything"),
        ("add", {"allow": tasks.added("errand")}, "side-effect"),
        ("add", {"allow": tasks.removed("errand")}, "side-effect"),
        (
            "finish-all-of-a-kind",
            {"expect": [tasks.changed("errand", {}, done=1)] * 3},
            "neighbour",
        ),
    ],
)
def test_tricks_find_the_holes_of_a_judge(solve, name, weaker, found):
    assert found in holes(solve(name, **weaker))
