"""What a hand does in the browser becomes the steps that an agent would have taken."""

import asyncio
import json

import pytest
from hand import replayed, until

from webtraj import Outcome, Verdict, WebTask
from webtraj.agents.replay import ReplayAgent
from webtraj.environments import actions as a
from webtraj.environments.browser import BrowserEnvironment, WebAccess, network, network_policy
from webtraj.environments.browser.observation import refs_in
from webtraj.trajectory import EndReason
from whole import whole

pytestmark = pytest.mark.asyncio(loop_scope="module")


def actions_of(trajectory):
    return [step.action for step in trajectory.steps[1:]]


def names_of(trajectory):
    """The role and name of each action's element, as the observation before it shows them."""
    found = []
    for before, after in zip(trajectory.steps, trajectory.steps[1:], strict=False):
        shown = {each.ref: (each.role, each.name) for each in refs_in(before.observation["axtree"])}
        found.append(shown.get(getattr(after.action, "ref", None)))
    return found


@pytest.mark.smoke
async def test_a_click_and_a_text_are_demonstrated_rewarded_and_replayed(on_task, pool):
    async with on_task("miniwob/enter-text") as shown:
        text = shown.goal.split('"')[1]
        await shown.hand.click("#tt")
        await shown.hand.type(text)
        await shown.hand.click("#subbtn")
        episode = await shown.finished()
    fill, click = actions_of(episode)
    assert isinstance(fill, a.Fill)
    assert fill.value == text
    assert isinstance(click, a.Click)
    assert names_of(episode)[1] == ("button", "Submit")
    last = episode.steps[-1]
    assert (last.reward, last.last, episode.outcome) == (1.0, True, Outcome.SUCCESS)
    assert last.observation["last_action"]["name"] == "Submit"
    assert episode.info.policy == "human"
    assert episode.info.seed == 3
    assert episode.end.reason is EndReason.TERMINATED
    assert await replayed(episode, pool) == 1.0


async def test_an_option_is_chosen_without_the_clicks_on_the_list(on_task, pool):
    async with on_task("miniwob/choose-list") as shown:
        hand = shown.hand
        wanted = shown.goal.removeprefix("Select ").partition(" from the list")[0]
        await hand.send("Runtime.evaluate", expression="document.querySelector('#options').focus()")
        chosen = "document.querySelector('#options').selectedOptions[0].label"
        for _ in range(100):
            if await hand.evaluate(chosen) == wanted:
                break
            await hand.press("ArrowDown")
        await hand.click("button")
        episode = await shown.finished()
    assert all(isinstance(each, a.SelectOption) for each in actions_of(episode)[:-1])
    assert episode.total_reward == await replayed(episode, pool) == 1.0


async def test_a_shop_of_several_pages_is_demonstrated_and_replayed(on_task, pool, fixture_presets):
    async with on_task("fixture/add-to-cart") as shown:
        environment = shown.environment
        while not shown.done.done() and (action := await environment.cheat()) is not None:
            number = shown.progress[-1].steps
            await shown.hand.do(environment, action)
            await shown.steps(number + 1)
            await shown.settled()
        episode = await shown.finished()
    assert len(actions_of(episode)) > 1
    assert episode.total_reward == await replayed(episode, pool) == 1.0


async def test_a_drag_is_a_path(on_task, pool):
    async with on_task("miniwob/drag-box") as shown:
        hand = shown.hand
        small = await hand.evaluate(
            "(() => { const [a, b] = ['#draggableSmall', '#draggableLarge'].map(s => {"
            " const r = document.querySelector(s).getBoundingClientRect();"
            " return [r.x + r.width / 2, r.y + r.height / 2]; }); return [...a, ...b]; })()"
        )
        await hand.drag(tuple(small[:2]), tuple(small[2:]))
        await hand.click("#subbtn")
        episode = await shown.finished()
    drag = actions_of(episode)[0]
    assert isinstance(drag, a.DragAt)
    assert drag.path[0] == pytest.approx(small[:2], abs=1)
    assert drag.path[-1] == pytest.approx(small[2:], abs=1)
    assert episode.total_reward == await replayed(episode, pool) == 1.0


async def test_a_drop_on_what_is_dragged_is_a_path_and_another_names_both_elements(on_page):
    async with on_page("/sort") as shown:
        one, two, inbox = [
            await shown.hand.middle_of(selector) for selector in ("li", "li + li", "#inbox")
        ]
        mouse = shown.environment.session.page.mouse
        for number, (start, end) in enumerate(((two, one), (one, inbox)), start=1):
            await mouse.move(*start)
            await mouse.down()
            await mouse.move(*end, steps=5)
            await mouse.move(*end)
            await mouse.up()
            await shown.steps(number)
            await shown.settled()
        assert await shown.hand.evaluate("document.querySelector('li').textContent") == "Two"
        episode = await shown.stopped(Outcome.SUCCESS)
    path, drop = actions_of(episode)[:2]
    assert path == a.DragAt((two, one))
    assert isinstance(drop, a.DragTo)
    assert drop.ref != drop.target_ref


async def test_chosen_files_are_recorded_by_their_names(on_page, tmp_path):
    file = tmp_path / "report.pdf"
    file.write_bytes(b"content")
    async with on_page("/upload") as shown:
        hand = shown.hand
        found = await hand.send("Runtime.evaluate", expression="document.querySelector('input')")
        await hand.send("DOM.enable")
        await hand.send(
            "DOM.setFileInputFiles", files=[str(file)], objectId=found["result"]["objectId"]
        )
        await shown.steps(1)
        await shown.settled()
        episode = await shown.stopped()
    (upload,) = actions_of(episode)
    assert isinstance(upload, a.UploadFile)
    assert upload.paths == ("report.pdf",)
    assert str(tmp_path) not in whole(episode)


async def test_a_form_s_fields_a_double_click_and_keys(on_page):
    async with on_page("/form") as shown:
        hand = shown.hand
        await hand.click("[name=n]")
        await hand.type("Anna")
        await hand.press("Tab")
        await hand.click("[name=b]")
        await hand.click("[name=n]", count=2)
        await hand.press("Enter")
        await until(lambda: shown.environment.session.page.url.endswith("r=0"))
        await shown.steps(5)
        await shown.settled()
        episode = await shown.stopped(Outcome.FAILURE)
    fill, tab, check, double, enter = actions_of(episode)
    assert isinstance(fill, a.Fill)
    assert fill.value == "Anna"
    assert isinstance(tab, a.Press)
    assert tab.keys == "Tab"
    assert isinstance(check, a.Check)
    assert isinstance(double, a.Click)
    assert double.count == 2
    assert isinstance(enter, a.Press)
    assert enter.keys == "Enter"
    before, after = episode.steps[-2:]
    assert before.observation["title"] == "Form"
    assert after.observation["title"] == "Done"
    assert (episode.outcome, episode.total_reward) == (Outcome.FAILURE, 0.0)


async def test_links_tabs_and_the_browser_s_own_navigation(on_page, site):
    async with on_page() as shown:
        hand, context = shown.hand, shown.environment.session.lease.context
        await hand.click("a[target=_blank]")
        await until(lambda: len(context.pages) == 2)
        await shown.steps(1)
        await shown.settled()
        await hand.mouse("mouseMoved", 20, 20)  # Back in the first tab.
        await shown.steps(2)
        await shown.settled()
        await hand.send("Page.navigate", url=f"{site}/form")
        await shown.steps(3)
        await shown.settled()
        back = await hand.send("Page.getNavigationHistory")
        entry = back["entries"][back["currentIndex"] - 1]["id"]
        await asyncio.sleep(1.6)  # So that it is not what the last action led to.
        await hand.send("Page.navigateToHistoryEntry", entryId=entry)
        await shown.steps(4)
        await shown.settled()
        episode = await shown.stopped()
    click, tab, goto, back = actions_of(episode)
    assert isinstance(click, a.Click)
    assert episode.steps[1].observation["title"] == "Other"
    assert (tab, goto, back) == (a.FocusTab(0), a.Goto(f"{site}/form"), a.GoBack())
    assert [step.observation["title"] for step in episode.steps[2:]] == ["Start", "Form", "Start"]


async def test_what_is_done_in_frames_and_shadow_roots_is_heard(on_page):
    async with on_page("/odd") as shown:
        hand = shown.hand
        point = await hand.evaluate(
            "(() => { const box = host.shadowRoot.querySelector('button').getBoundingClientRect();"
            "return [box.x + 5, box.y + 5]; })()"
        )
        await hand.click(tuple(point))
        frame = await hand.evaluate(
            "(() => { const box = document.querySelector('iframe').getBoundingClientRect();"
            "return [box.x + 20, box.y + 20]; })()"
        )
        await hand.click(tuple(frame))
        await shown.steps(2)
        await shown.settled()
        episode = await shown.stopped()
    assert names_of(episode) == [("button", "In the shadow"), ("button", "Framed")]


_STATE = """[story.innerHTML, code.value, program.textContent, bonn.hidden, row.className.trim()]"""


async def test_what_is_typed_pressed_and_selected_in_widgets_plays_again(on_page, open_page):
    """In fields that answer keys themselves or keep no text, and in parts that the tree lacks."""
    async with on_page("/widgets") as shown:
        hand = shown.hand
        await hand.click("#story")
        await hand.press("a", "Control")
        await hand.click("#bold")
        await hand.click("#code")
        await hand.type("ab")
        await hand.click("#editor")
        await hand.type("x(y)")
        await hand.click("#filter")
        await hand.type("ul")
        await shown.steps(8)
        await shown.settled()
        await hand.click("#row i")
        await shown.steps(9)
        await shown.settled()
        done = await hand.evaluate(_STATE)
        episode = await shown.stopped()
    assert done == ["<b>Once</b>", "A-B-", "x(y)", True, "open"]
    kinds = [type(action) for action in actions_of(episode)]
    assert kinds == [
        *(a.Click, a.Press, a.Click),
        *(a.Click, a.TypeInto),
        *(a.Click, a.TypeInto),
        *(a.TypeInto, a.ClickAt),
    ]  # fmt: skip
    actor_of = ReplayAgent.of([episode])
    async with open_page("/widgets") as environment:
        timestep = await environment.reset()
        actor = actor_of.begin_episode(environment)
        for _ in kinds:
            timestep = await environment.step(await actor.act(timestep.observation))
        assert await environment.session.page.evaluate(_STATE) == done


async def test_files_are_chosen_with_what_opened_the_window_of_a_hidden_field(on_page, tmp_path):
    file = tmp_path / "report.pdf"
    file.write_bytes(b"content")
    async with on_page("/widgets") as shown:
        async with shown.environment.session.page.expect_file_chooser() as chooser:
            await shown.hand.click("#choose")
        await (await chooser.value).set_files(file)
        await shown.settled()
        episode = await shown.stopped()
    (upload,) = actions_of(episode)
    assert isinstance(upload, a.UploadFile)
    assert names_of(episode) == [("button", "Choose")]


async def test_a_verdict_comes_no_earlier_than_the_input_that_it_is_about(
    on_environment, site, pool
):
    async def judge(session, answer):
        done = await session.page.title() == "3"
        return Verdict(done=done, reward=float(done), success=done)

    task = WebTask(goal="Count to 3", start_url=f"{site}/count", judge=judge)
    settings = {
        "policy": WebAccess(network=network_policy.ANYWHERE),
        "observe": ("axtree", "title"),
    }
    async with on_environment(BrowserEnvironment(task, pool=pool, **settings)) as shown:
        await asyncio.gather(*(shown.hand.press("ArrowDown") for _ in range(3)))
        episode = await shown.finished()
    assert [action.keys for action in actions_of(episode)] == ["ArrowDown"] * 3
    assert [step.reward for step in episode.steps[1:]] == [0.0, 0.0, 1.0]


@pytest.mark.gate
async def test_a_document_that_is_written_anew_is_heard(on_page):
    """A click on what the tree does not show has no ref: its place is recorded."""
    async with on_page() as shown:
        hand = shown.hand
        await hand.evaluate(
            "document.open(), document.write('<button id=n>Next</button>"
            "<button id=s aria-hidden=true>Silent</button>'), document.close(), 1"
        )
        await hand.click("#n")
        await hand.click("#s")
        await shown.steps(3)
        episode = await shown.stopped()
    assert [type(action) for action in actions_of(episode)] == [a.Wait, a.Click, a.ClickAt]


async def test_input_that_comes_faster_than_looks_is_kept_in_order(on_page):
    async with on_page() as shown:
        for _ in range(2):
            await shown.hand.click("a[href='/form']")
            await until(lambda: shown.environment.session.page.url.endswith("/form"))
            await until_true(shown.hand, "document.readyState === 'complete'")
            await shown.hand.click("[name=n]")
            await shown.hand.type("x")
            await shown.hand.click("button")
            await until_true(shown.hand, "document.title === 'Done'")
            await shown.hand.send("Page.navigate", url=shown.environment.session.page.url[:-1])
            break
        await shown.steps(3)
        episode = await shown.stopped()
    assert names_of(episode)[:3] == [
        ("link", "To the form"), ("textbox", "Name"), ("button", "Send"),
    ]  # fmt: skip


async def until_true(hand, expression):
    async with asyncio.timeout(60):
        while not await hand.evaluate(expression):
            await asyncio.sleep(0.02)


async def test_the_last_step_can_be_undone(on_page):
    async with on_page() as shown:
        await shown.hand.click("button")
        await shown.steps(1)
        await shown.settled()
        shown.recorder.undo()
        await until(lambda: not shown.progress[-1].can_undo)
        assert "Left out: click(" in shown.progress[-1].notice
        await shown.hand.click("a")
        await shown.steps(1)
        await shown.settled()
        episode = await shown.stopped(Outcome.SUCCESS, answer="It is done")
    click, answer = actions_of(episode)
    assert names_of(episode)[0] == ("link", "To the form")
    assert (click.count, answer) == (1, a.Answer("It is done"))
    assert (episode.outcome, episode.total_reward) == (Outcome.SUCCESS, 1.0)
    assert episode.end.in_flight_action is None


async def test_nothing_is_recorded_while_it_is_paused(on_page):
    async with on_page() as shown:
        shown.recorder.pause()
        await until(lambda: shown.progress[-1].paused)
        await shown.hand.click("a")
        await until_true(shown.hand, "document.title === 'Form'")
        shown.recorder.resume()
        await until(lambda: not shown.progress[-1].paused)
        await shown.hand.click("[name=b]")
        await shown.steps(2)
        await shown.settled()
        episode = await shown.stopped()
    wait, check = actions_of(episode)
    assert isinstance(wait, a.Wait)
    assert episode.steps[1].decision.metadata["demonstration"]["waited_for"] == "paused"
    assert isinstance(check, a.Check)


@pytest.mark.gate
async def test_a_password_and_a_redacted_field_are_in_no_part_of_the_record(on_page):
    async with on_page("/form") as shown:
        hand = shown.hand
        await hand.click("[name=p]")
        await hand.type("hunter2-secret")
        await hand.click("[name=c]")
        await hand.type("4111-2222-3333")
        shown.recorder.redact()
        await until(lambda: "<secret:hidden>" in shown.progress[-1].notice)
        await hand.click("button")
        await until_true(hand, "document.title === 'Done'")
        await shown.steps(3)
        await shown.settled()
        episode = await shown.stopped()
    assert [each.value for each in actions_of(episode)[:2]] == [
        "<secret:password>", "<secret:hidden>",
    ]  # fmt: skip
    assert "hunter2" not in whole(episode)
    assert "4111-2222" not in whole(episode)


@pytest.mark.gate
async def test_a_page_can_neither_see_the_recorder_nor_forge_input(on_page):
    async with on_page("/hostile") as shown:
        await shown.hand.click("#real")
        await shown.steps(1)
        await shown.settled()
        found = json.loads(await shown.hand.evaluate("found.textContent"))
        episode = await shown.stopped()
    assert names_of(episode) == [("button", "Real")]
    assert found == [["webtrajTell"], None]  # Its own, which nobody called.


async def test_what_a_page_does_by_script_is_no_step_of_the_person(on_page):
    async with on_page("/forge") as shown:
        await shown.hand.click("#go")
        await until_done(shown.hand, 6)  # Three handlers, a promise, and two timers.
        await shown.hand.click("#own")
        await shown.hand.type("Ulm")
        await shown.steps(2)
        await shown.settled()
        assert await shown.hand.evaluate("t.value + e.innerHTML")  # It did change its fields.
        episode = await shown.stopped()
    done = [type(action) for action in actions_of(episode)]
    assert done == [a.Click, a.Fill]
    assert actions_of(episode)[-1].value == "Ulm"
    assert {name for _, name in names_of(episode)} == {"Go", "City"}


async def test_a_page_that_navigates_by_script_makes_no_step_of_the_person(on_page):
    ways = ("location.reload()", "location = '/other'", "location.replace('/forge')",
            "history.go(0)", "navigation.reload()", "location = '/forge'")  # fmt: skip
    async with on_page("/forge") as shown:
        page = shown.environment.session.page
        for way in ways:
            async with page.expect_navigation(wait_until="load"):
                await shown.hand.evaluate(f"void setTimeout(() => {{ {way} }})")
        await shown.hand.click("#own")
        await shown.hand.type("Ulm")
        await shown.steps(1)
        episode = await shown.stopped()
    assert [type(action) for action in actions_of(episode)] == [a.Fill]


async def test_a_name_leads_a_persons_browser_to_no_private_address_unless_declared(
    on_page, site, monkeypatch
):
    async def resolve(host, port):
        return ["169.254.1.2" if host == "metadata.test" else "127.0.0.1"]

    names = network_policy.Names()
    monkeypatch.setattr(network, "NAMES", names)
    monkeypatch.setattr(network, "_system_resolve", resolve)
    port = site.rpartition(":")[2]
    async with on_page("/") as shown:
        page = shown.environment.session.page

        async def reaches(host):
            url = f"http://{host}:{port}/"
            fetch = "url => fetch(url, {mode: 'no-cors'}).then(() => true, () => false)"
            return await page.evaluate(fetch, url)

        found = [await reaches(host) for host in ("127.0.0.1", "localhost", "wiki.test")]
        names.declare("wiki.test", "metadata.test")
        found += [await reaches(host) for host in ("wiki.test", "metadata.test")]
    assert found == [True, True, False, True, False]


async def until_done(hand, count):
    async with asyncio.timeout(60):
        while await hand.evaluate("window.done") < count:
            await asyncio.sleep(0.02)


async def test_toggles_and_choices_of_the_person_are_steps_whatever_the_page_does(on_page):
    async with on_page("/forge") as shown:
        await shown.hand.click("#c")
        await shown.hand.click("#l")
        await shown.hand.press("Tab")
        await shown.hand.press("Space")
        await shown.steps(4)
        await shown.settled()
        episode = await shown.stopped()
    toggles = [action for action in actions_of(episode) if not isinstance(action, a.PressKey)]
    assert len(toggles) >= 2
    assert {type(action) for action in toggles} <= {a.Check, a.Uncheck, a.Click, a.Press}
