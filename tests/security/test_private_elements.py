"""What private elements of a real page show is in no record: tree, texts, actions, screenshots."""

import io
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from hostile_web import Site
from PIL import Image, ImageChops

import webtraj
from webtraj import errors
from webtraj.environments import actions as a
from webtraj.environments.browser.access import WebAccess
from webtraj.environments.browser.environment import BrowserEnvironment
from webtraj.environments.browser.network_policy import OriginPolicy
from webtraj.environments.browser.observation import (
    CHANNELS,
    Observe,
    PictureFormat,
    refs_in,
)
from webtraj.environments.browser.pool import BrowserPool
from webtraj.environments.browser.tasks import WebTask
from webtraj.redaction import RedactionRules
from whole import whole

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.browser, pytest.mark.gate]

SHOWN = "Geheim-7"
INNOCENT = "Public-1"
STYLE = "<!doctype html><meta charset=utf-8><style>* { font: 16px monospace }</style>"
RULES = RedactionRules(elements=("payment", "marked"), selectors={"account": "#account"})
EVERYTHING = tuple(name for name in CHANNELS if name not in ("timings", "downloads"))


def environment(
    pool: BrowserPool, site: Site, page: str, *, pictures: PictureFormat = "png", **options: Any
) -> BrowserEnvironment:
    site.pages["/"] = STYLE + page
    task = WebTask(goal="Look", start_url=site.url(), redaction=options.pop("task_rules", None))
    return BrowserEnvironment(
        task,
        pool=pool,
        policy=WebAccess(OriginPolicy(allow=(f"localhost:{site.port}",))),
        viewport=(600, 400),
        observe=Observe(options.pop("channels", EVERYTHING), screenshot_format=pictures),
        **options,
    )


Record = Callable[..., Awaitable[tuple[list[Any], webtraj.EpisodeTrajectory]]]


@pytest.fixture
def record(pool: BrowserPool, site: Site) -> Record:
    """Plays on a page, by `RULES`; returns what the agent saw and what was recorded."""

    async def play(page: str, *actions: Any, redaction: Any = RULES, **options: Any) -> Any:
        collector = webtraj.MemoryTrajectoryCollector()
        made = environment(pool, site, page, redaction=redaction, **options)
        seen = []
        async with webtraj.TrajectoryCollectingEnvironment(made, collector) as recorded:
            seen.append((await recorded.reset()).observation)
            for action in actions:
                given = action(seen[-1]) if callable(action) else action
                thought = f"I see {SHOWN} and {INNOCENT}."
                decision = webtraj.Decision(action=given, thought=thought)
                seen.append((await recorded.step(decision)).observation)
                assert seen[-1]["last_action"]["error"] == ""
        return seen, collector.trajectories[0]

    return play


def picture(data: bytes) -> Any:
    return Image.open(io.BytesIO(data)).convert("RGB")


def painted(given: bytes, kept: bytes) -> Any:
    return ImageChops.difference(picture(given), picture(kept)).getbbox()


PLACES = {
    "text": "<p data-private>{}</p>",
    "nested": "<div data-private><ul><li>x <b>{}</b></ul></div>",
    "own selector": "<p id=account>{}</p>",
    "field": "<input autocomplete=cc-number aria-label=Number value='{}'>",
    "set by script": "<input autocomplete='billing cc-csc' id=i><script>i.value = '{}'</script>",
    "text area": "<textarea data-private>{}</textarea>",
    "select": "<select data-private><option>{}</select>",
    "button": "<button>Pay <span data-private>{}</span></button>",
    "link": "<a href=/x data-private>{}</a>",
    "label": "<label data-private>{}<input></label>",
    "alternative text": "<img data-private alt='{}' width=90 height=30 src='data:,'>",
    "editable": "<div contenteditable data-private>{}</div>",
    "body": "<body data-private><p>{}</p>",
    "open shadow root": "<p id=h></p><script>h.attachShadow({{mode: 'open'}}).innerHTML = "
    "'<b data-private>{}</b>'</script>",
    "shadow root of a private host": "<p data-private id=h></p><script>"
    "h.attachShadow({{mode: 'open'}}).innerHTML = '<b>{}</b>'</script>",
    "frame": "<iframe srcdoc='<p data-private>{}</p>'></iframe>",
    "private frame": "<iframe data-private srcdoc='<p>{}</p>'></iframe>",
    "frame in a frame": "<iframe srcdoc='<iframe srcdoc=\"<p data-private>{}</p>\"></iframe>'>"
    "</iframe>",
}  # fmt: skip


@pytest.mark.parametrize("place", PLACES)
async def test_no_record_holds_what_a_private_element_shows(record: Record, place: str) -> None:
    page = f"<p>{INNOCENT}</p>{PLACES[place].format(SHOWN)}"
    seen, episode = await record(page, a.Wait(0.01))
    assert SHOWN in seen[0]["axtree"]  # The agent itself sees it.
    assert SHOWN not in whole(episode)
    public = place != "body"
    assert (INNOCENT in episode.steps[0].observation["axtree"]) is public
    name = "account" if place == "own selector" else ""
    name = name or ("payment" if "cc-" in page else "marked")
    assert f"<secret:{name}>" in episode.steps[0].observation["axtree"]
    assert episode.steps[1].decision.thought.startswith(f"I see <secret:{name}>")
    counts = episode.info.metadata["redactions"]
    assert counts[name] >= 3
    assert counts["screenshots_painted"] >= 2
    for before, step in zip(seen, episode.steps, strict=True):
        assert painted(before["screenshot"], step.observation["screenshot"]) is not None


@pytest.mark.parametrize("place", PLACES)
async def test_no_pixel_tells_what_a_private_element_shows(record: Record, place: str) -> None:
    kept = []
    for word in (SHOWN, "anders+8"):
        page = PLACES[place].format(word)
        seen, episode = await record(page, channels=("axtree", "screenshot"))
        assert word in seen[0]["axtree"]
        kept.append(episode.steps[0].observation["screenshot"])
    assert painted(*kept) is None


async def test_a_picture_in_webp_is_a_jpeg_where_it_may_show_a_secret(record: Record) -> None:
    kept = []
    for word in (SHOWN, "anders+8"):
        page = f"<p>{INNOCENT}</p>" + PLACES["text"].format(word)
        for rules, kind in ((RULES, b"\xff\xd8\xff"), ((), b"RIFF")):
            seen, episode = await record(page, pictures="webp", redaction=rules)
            recorded = episode.steps[0].observation["screenshot"]
            assert seen[0]["screenshot"].startswith(kind)
            assert recorded.startswith(kind)
            kept += [recorded] if rules else []
    assert painted(*kept) is None


async def test_a_closed_shadow_root_is_painted_over(record: Record) -> None:
    page = "<p id=h></p><script>h.attachShadow({mode: 'closed'}).innerHTML = '<b data-private>"
    page += f"{SHOWN}</b>'</script>"
    seen, episode = await record(page)
    box = painted(seen[0]["screenshot"], episode.steps[0].observation["screenshot"])
    assert box is not None
    assert box[3] - box[1] < 60


async def test_a_frame_of_another_origin_is_redacted_as_the_page_is(
    record: Record, site: Site
) -> None:
    site.pages["/frame"] = f"{STYLE}<p data-private>{SHOWN}</p><p>42 <i data-private>17</i></p>"
    page = f"<iframe src='http://localhost:{site.port}/frame'></iframe>"
    seen, episode = await record(page, a.Wait(0.01))
    assert SHOWN in seen[0]["axtree"]
    assert '"17"' in seen[0]["axtree"]
    assert SHOWN not in whole(episode)
    kept = episode.steps[0].observation["axtree"]
    assert '"17"' not in kept
    assert "42" in kept
    assert painted(seen[0]["screenshot"], episode.steps[0].observation["screenshot"]) is not None


async def test_a_private_frame_of_another_origin_is_private_within(
    record: Record, site: Site
) -> None:
    site.pages["/frame"] = f"{STYLE}<p>{SHOWN}</p>"
    page = f"<iframe data-private src='http://localhost:{site.port}/frame'></iframe>"
    seen, episode = await record(page, a.Wait(0.01))
    assert SHOWN in seen[0]["axtree"]
    assert SHOWN not in whole(episode)


async def test_short_texts_are_left_out_of_the_tree_and_the_text(record: Record) -> None:
    page = "<p>Room 12 of 120: <b data-private>12</b></p><input autocomplete=cc-csc value=123>"
    seen, episode = await record(page)
    assert 'value="123"' in seen[0]["axtree"]
    kept = episode.steps[0].observation
    assert "123" not in kept["axtree"]
    # Which of the words is the private one, running text does not tell.
    assert "Room <secret:marked> of 120: <secret:marked>" in kept["text"]
    assert [line.ref for line in refs_in(kept["axtree"])] == [
        line.ref for line in refs_in(seen[0]["axtree"])
    ]


ELSEWHERE = {
    "a list": "<datalist id=l data-private><option value=17></datalist>",
    "what is around a list": "<p data-private><datalist id=l><option value=17></datalist></p>",
    "a suggestion": "<datalist id=l><option value=17 data-private></datalist>",
    "an option": "<select><option>42<option data-private>17</select>",
    "a chosen option": "<select><option data-private>17</select>",
    "a group of options": "<select><option>42<optgroup data-private label=17></select>",
    "an area": "<img usemap=#m width=90 height=90 src='data:,'><map name=m data-private>"
    "<area href=#a alt=17 coords=0,0,9,9></map>",
}  # fmt: skip


@pytest.mark.parametrize("place", ELSEWHERE)
async def test_short_texts_of_choices_and_areas_are_left_out_of_the_tree(
    record: Record, place: str
) -> None:
    page = f"<input list=l aria-label=Seat>{ELSEWHERE[place]}"
    seen, episode = await record(page, channels=("axtree",))
    assert '"17"' in seen[0]["axtree"]
    kept = episode.steps[0].observation["axtree"]
    assert '"17"' not in kept
    assert '"Seat"' in kept
    assert "<secret:marked>" in kept


@pytest.mark.parametrize("text", ["4111111111111111", "123"])
async def test_what_is_typed_into_a_private_field_is_not_recorded(
    record: Record, text: str
) -> None:
    page = "<input autocomplete=cc-number aria-label=Number>"

    def field(observation: Any) -> str:
        return next(line.ref for line in refs_in(observation["axtree"]) if line.name == "Number")

    seen, episode = await record(
        page, lambda o: a.Fill(field(o), text), a.Wait(0.01), a.TypeText(text)
    )
    assert f'value="{text}"' in seen[1]["axtree"]
    assert episode.steps[1].action == a.Fill(field(seen[0]), "<secret:payment>")
    assert episode.steps[1].decision.action == episode.steps[1].action
    for step in episode.steps[1:]:
        assert 'value="<secret:payment>"' in step.observation["axtree"]
        assert text not in step.observation["axtree"]
    if len(text) > 3:
        assert text not in whole(episode)


@pytest.mark.smoke
async def test_patterns_are_painted_over_where_the_page_shows_them(record: Record) -> None:
    page = (
        "<p>Hello</p><p>Mail anna@example.com now</p>"
        "<p>Pay <b>4111</b> <b>1111</b> <b>1111</b> <b>1111</b></p><p>Bye</p>"
    )
    rules = {"patterns": ["email", "card"]}
    seen, episode = await record(page, redaction=rules)
    kept = episode.steps[0].observation
    assert "anna@example.com" not in whole(kept)
    assert "Pay <secret:card>" in kept["text"]
    given, covered = picture(seen[0]["screenshot"]), picture(kept["screenshot"])
    difference = ImageChops.difference(given, covered)
    box = difference.getbbox()
    assert box is not None
    hello, bye = given.crop((0, 0, 600, 24)), covered.crop((0, 0, 600, 24))
    assert ImageChops.difference(hello, bye).getbbox() is None
    assert box[3] < 150  # Not the last line.


async def test_the_rules_of_a_task_go_for_its_environment(record: Record) -> None:
    page = f"<p data-private>{SHOWN}</p>"
    rules = RedactionRules(elements=("marked",))
    _, episode = await record(page, redaction=None, task_rules=rules)
    assert SHOWN not in whole(episode)


@pytest.mark.smoke
async def test_files_hold_nothing_of_it(pool: BrowserPool, site: Site, tmp_path: Path) -> None:
    made = environment(pool, site, f"<p data-private>{SHOWN}</p>", redaction=RULES)
    async with (
        webtraj.JsonTrajectoryCollector(tmp_path) as collector,
        webtraj.TrajectoryCollectingEnvironment(made, collector) as recorded,
    ):
        await recorded.reset()
        await recorded.step(webtraj.Decision(action=a.Wait(0.01), thought=SHOWN))
    for path in tmp_path.rglob("*"):
        assert not path.is_file() or SHOWN.encode() not in path.read_bytes(), path


async def test_more_than_can_be_looked_for_costs_the_texts_that_may_hold_it(record: Record) -> None:
    items = "".join(f"<li>entry {number}" for number in range(400))
    page = f"<p>{INNOCENT}</p><ul data-private>{items}</ul>"
    _, episode = await record(page, a.Wait(0.01))
    first = episode.steps[0].observation
    assert "entry" not in first["axtree"]
    assert first["text"] == "<secret:private>"
    assert INNOCENT in first["axtree"]
    assert episode.steps[1].decision == webtraj.Decision(action=a.Wait(0.01))


async def test_a_selector_that_is_none_is_an_error_that_names_its_rule(
    pool: BrowserPool, site: Site
) -> None:
    made = environment(pool, site, "<p>x</p>", redaction={"selectors": {"mine": "p[["}})
    with pytest.raises(errors.InvalidInputError, match=r"rule 'mine' is 'p\[\['"):
        await made.reset()
    await made.close()


async def test_without_rules_the_page_is_asked_for_nothing_more(record: Record) -> None:
    seen, episode = await record(f"<p data-private>{SHOWN}</p>", redaction=None)
    assert episode.steps[0].observation["axtree"] == seen[0]["axtree"]
    assert "redactions" not in episode.info.metadata
