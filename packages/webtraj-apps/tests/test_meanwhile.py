"""Other people change data while an agent acts: it is neither the agent's deed nor its fault.

Applications that are not installed are skipped: `make test-apps` installs them.
"""

import dataclasses
import random

import pytest

import webtraj
from webtraj import errors
from webtraj.environments import actions as a
from webtraj_apps import AppEnvironment, Fault, Meanwhile, names
from webtraj_apps import app as app_lib
from webtraj_apps.forms import find_form
from webtraj_apps.state import rebase
from webtraj_apps.tasks import Assignment, added, find_template, same_text

ALWAYS = Fault(others=1.0)


def by_others(errands, monkeypatch, do):
    """Let others do something in the list of errands."""
    changed = dataclasses.replace(errands, meanwhile=lambda *_: Meanwhile("something", do))
    monkeypatch.setattr(app_lib, "find_app", lambda name: changed)


@pytest.mark.browser
async def test_an_oracle_succeeds_while_others_act_and_the_record_tells_what_they_did(errands):
    collector = webtraj.MemoryTrajectoryCollector()
    async with webtraj.make(
        "apps/errands/finish-all-of-a-kind", seed=1, fault=ALWAYS, trajectory_collector=collector
    ) as env:
        timestep = await env.reset()
        while not timestep.last():
            timestep = await env.step(await env.cheat())
        (after,) = env.app_task.after.values()
        steps = env.max_steps
    (episode,) = collector.trajectories
    assert episode.outcome is webtraj.Outcome.SUCCESS
    assert episode.info.metadata["fault"] == {"others": 1.0}
    known = episode.info.metadata["meanwhile"]
    assert [one["after_steps"] for one in known] == list(range(steps))
    added = [row["text"] for row in after["errand"].values()][15:]
    assert added == [one["what"].split("“")[1][:-1] for one in known][: len(episode.steps) - 1]
    assert len(added) >= 3


@pytest.mark.browser
async def test_the_same_seed_lets_others_do_the_same(errands):
    async def trees(seed):
        async with AppEnvironment(
            "errands/finish-all-of-a-kind", seed=seed, fault=Fault(others=0.5), observe=("axtree",)
        ) as environment:
            seen = [await environment.reset()]
            while not seen[-1].last():
                seen.append(await environment.step(await environment.cheat()))
            return [timestep.observation["axtree"] for timestep in seen]

    first = await trees(2)
    assert first == await trees(2)
    assert "Feed the fish" in first[-1] or "Bring cake" in first[-1]


@pytest.mark.browser
async def test_what_others_do_is_not_the_agents_deed(errands, monkeypatch):
    assignment = find_template("errands/add").begin(1)
    (wanted,) = assignment.expect

    async def do(world):
        await world.submit(world.facts["user"], "/", add="1", text=wanted.where["text"])

    by_others(errands, monkeypatch, do)
    async with AppEnvironment("errands/add", seed=1, fault=ALWAYS) as environment:
        await environment.reset()
        last = await environment.step(a.Answer("done"))
        assert last.reward == 0
        assert "missing: added errand" in environment.app_task.reason


@pytest.mark.browser
async def test_what_others_cannot_do_any_more_changes_nothing(errands, monkeypatch):
    async def do(world):
        await world.submit(world.facts["user"], "/", nothing="1")

    by_others(errands, monkeypatch, do)
    async with AppEnvironment("errands/add", seed=1, fault=ALWAYS) as environment:
        timestep = await environment.reset()
        while not timestep.last():
            timestep = await environment.step(await environment.cheat())
        assert timestep.reward == 1.0


def test_a_state_takes_over_what_others_changed_by_row_and_column():
    start = {"line": {1: {"text": "a", "done": 0}, 2: {"text": "b", "done": 0}}}
    mine = {"line": {1: {"text": "mine", "done": 0}, 2: {"text": "b", "done": 0}}, "own": {5: {}}}
    theirs = {"line": {1: {"text": "mine", "done": 1}, 3: {"text": "c", "done": 0}}, "own": {5: {}}}
    assert rebase(start, mine, theirs)["line"] == {
        1: {"text": "a", "done": 1},
        3: {"text": "c", "done": 0},
    }
    assert rebase(start, mine, mine) == {**start, "own": {}}


def test_an_assignment_concerns_what_it_names():
    assignment = Assignment(
        goal='Reply in the topic "Old bike".',
        user="ann",
        users={"mail": "ben"},
        expect={"forum": added("comment", topic_id=7, text=same_text("It is in Leeds."))},
        answer=("42", "Hull"),
        prepare=[("INSERT INTO ticket VALUES (?)", ("Lamp flickers",))],
    )
    for value in ("old bike", "ann", "ben", "in Leeds", "Hull", "Lamp flickers", 7):
        assert assignment.concerns(value), value
    for value in ("new bike", "cem", "York", 8):
        assert not assignment.concerns(value), value


def test_faults_have_names():
    assert Fault.of("others").others > 0
    assert Fault.of(None) == Fault()
    with pytest.raises(errors.InvalidInputError, match="Unknown fault 'other'; expected one of"):
        AppEnvironment("errands/add", fault="other")


def test_a_form_is_sent_as_its_page_fills_it_in():
    page = """<form action=/search><input name=q></form>
    <form action=save method=post><input type=hidden name=token value=7>
    <input type=checkbox name=who value=1 checked><input type=checkbox name=who value=2>
    <input type=radio name=to value=all><input type=radio name=to value=me checked>
    <select name=kind><option value=a>A<option value=b selected>B</select>
    <select name=size><option>small</option><option>large</option></select>
    <textarea name=text>
two
lines</textarea><input name=off disabled><button name=send value=1>Send</button></form>"""
    form = find_form(page, "text", "send")
    assert form.action == "save"
    assert form.values == [
        ("token", "7"), ("who", "1"), ("to", "me"), ("kind", "b"), ("size", "small"),
        ("text", "two\nlines"),
    ]  # fmt: skip
    with pytest.raises(LookupError, match="text, other"):
        find_form(page, "text", "other")


OURS = [name for name, one in names.find_installed().items() if one.is_ours and one.app is not None]


@pytest.mark.slow
@pytest.mark.parametrize("name", OURS)
async def test_others_act_in_every_application_and_leave_alone_what_a_task_is_about(name):
    app = app_lib.find_app(name)
    if not app.installed:
        pytest.skip("the application is not installed")
    for seed in range(2):
        world = await app.world(seed)
        try:
            for number in range(4):
                told = []

                def concerns(value, told=told):
                    told.append(value)
                    return False

                rng = random.Random(number)
                deed = app.meanwhile(world.facts, rng, concerns)
                assert told, "it asks for no name"
                before = world.read()
                await deed.happen(world)
                assert app.changes(before, world.read()), deed.what
        finally:
            world.discard()


@pytest.mark.slow
async def test_a_page_shows_what_another_process_has_changed_meanwhile():
    """The server keeps what it has read of a world until its database changes."""
    shop = app_lib.find_app("shop")
    if not shop.installed:
        pytest.skip("the application is not installed")
    world = await shop.world(0)
    try:
        product = next(one for one in world.facts["products"] if one["stock"] > 20)

        async def found(words):
            page = await world._ask(
                f"GET /search/?q={words} HTTP/1.1\r\nHost: shop.test\r\n\r\n".encode()
            )
            return product["url"].encode() in page

        assert not await found("Zanzibar")
        assert not await found("Zanzibar")
        title = f"Zanzibar {product['title']}"
        world.execute(
            [("UPDATE catalogue_product SET title = ? WHERE id = ?", (title, product["id"]))]
        )
        assert await found("Zanzibar")
    finally:
        world.discard()
