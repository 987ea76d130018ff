"""Episodes whose every text is an attack: nothing runs, nobody is asked, all stays in place.

That no dialog, request, download or error comes of them is what the fixture `look` watches.
"""

import pytest
from playwright.async_api import Page, expect

from webtraj.datasets.writer import DatasetWriter
from webtraj.trajectory import (
    Decision,
    Derivation,
    EndReason,
    EpisodeEnd,
    EpisodeInfo,
    EpisodeTrajectory,
    ErrorInfo,
    Judgement,
    ModelCall,
    Outcome,
    StepRecord,
    StepType,
)
from webtraj.view.page import episode_html

pytestmark = [pytest.mark.browser, pytest.mark.gate, pytest.mark.asyncio(loop_scope="module")]

SVG = (
    b'<svg xmlns="http://www.w3.org/2000/svg" onload="window.pwned=1">'
    b"<script>window.pwned=1</script></svg>"
)
ATTACK = (
    '"><script>window.pwned=1</script><img src=x onerror="window.pwned=1">'
    '<svg onload="window.pwned=1"><style>*{display:none!important}</style></svg>'
    '<iframe srcdoc="<script>parent.pwned=1</script>"></iframe><a href="javascript:pwned=1">x</a>'
    '<base href="//evil.test/"><meta http-equiv="refresh" content="0;url=//evil.test/">'
    "</script></style></textarea></title><!-- {{data}} /*{{js}}*/ ${pwned=1} '+pwned+' "
    "javascript:window.pwned=1 https://evil.test/ [x](javascript:pwned=1) url(//evil.test/a.png) "
    "\N{RIGHT-TO-LEFT OVERRIDE}\N{LEFT-TO-RIGHT EMBEDDING}\N{RIGHT-TO-LEFT ISOLATE}"
    "Z\N{COMBINING GRAVE ACCENT}\N{COMBINING DIAERESIS}" + "\N{COMBINING RING BELOW}" * 200
)
LONG = ATTACK + "W" * 30_000
TABS = ("page", "model", "judge", "errors", "about", "raw")


def hostile(episode_id: str) -> EpisodeTrajectory:
    call = ModelCall(
        model=ATTACK,
        provider=ATTACK,
        policy_version=ATTACK,
        messages=(
            {"role": ATTACK, "content": LONG, ATTACK: ATTACK},
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": ATTACK},
                    {"type": "image_url", "image_url": {"url": "https://evil.test/x.png"}},
                    {"type": "image_url", "image_url": {"url": SVG}},
                    {"type": "image_url", "image_url": {"url": ATTACK}},
                    {"type": ATTACK, ATTACK: [ATTACK]},
                ],
            },
            ATTACK,
        ),
        sampling={ATTACK: ATTACK, "__proto__": {"pwned": 1}},
        response={
            "choices": [
                {
                    "logprobs": {
                        "content": [
                            {
                                "token": ATTACK,
                                "logprob": -1.0,
                                "top_logprobs": [{"token": ATTACK, "logprob": -2.0}],
                            }
                        ]
                    },
                    "message": {"content": ATTACK, "reasoning_content": ATTACK},
                }
            ]
        },
        text=LONG,
        finish_reason=ATTACK,
        usage={ATTACK: 3, "constructor": 4},
        completion_token_ids=(1,),
        logprobs=(-1.0,),
        error=ATTACK,
    )
    decision = Decision(
        action=ATTACK, thought=LONG, memory=ATTACK, parse_error=ATTACK, model_calls=(call,)
    )
    seen = {
        "url": "javascript:window.pwned=1//" + ATTACK,
        "title": LONG,
        "axtree": "\n".join([LONG, f"[{ATTACK}] {ATTACK}", *[ATTACK] * 50]),
        "screenshot": SVG,
        "last_action": {"ref": ATTACK, "name": LONG, "role": ATTACK, "error": ATTACK},
        ATTACK: {"__proto__": ATTACK, "constructor": [ATTACK], "html": SVG},
    }
    return EpisodeTrajectory(
        EpisodeInfo(
            episode_id=episode_id,
            task=LONG,
            goal=LONG,
            site=ATTACK,
            environment=ATTACK,
            versions={ATTACK: ATTACK},
            policy=LONG,
            group_id=ATTACK,
            parent_episode_id=ATTACK,
            retry_of="javascript:window.pwned=1",
            metadata={ATTACK: [ATTACK], "__proto__": {"pwned": 1}},
            derivation=(Derivation(step=ATTACK, source=ATTACK, settings={ATTACK: ATTACK}),),
        ),
        (
            StepRecord(0, StepType.FIRST, {**seen, "axtree": ATTACK}),
            StepRecord(1, StepType.MID, seen, ATTACK, 0.5, 1.0, decision=decision),
            StepRecord(2, StepType.LAST, ATTACK, {ATTACK: ATTACK}, 1.0, 0.0, decision=decision),
        ),
        EpisodeEnd(
            reason=EndReason.ERRORED,
            detail=ATTACK,
            outcome=Outcome.ENV_ERROR,
            error=ErrorInfo(type=ATTACK, message=LONG, traceback=LONG),
            action_in_flight=True,
            in_flight_action=ATTACK,
            in_flight_decision=decision,
            violations=(ATTACK,),
            recording_errors=(ATTACK,),
            judgements=(
                Judgement(
                    judge=ATTACK,
                    version=ATTACK,
                    outcome=Outcome.SUCCESS,
                    reason=LONG,
                    findings={
                        ATTACK: ATTACK,
                        "questions": [
                            ATTACK,
                            {"question": ATTACK, "verdict": ATTACK, "reasons": [LONG]},
                        ],
                    },
                    model_calls=(call,),
                ),
            ),
        ),
    )


async def is_unharmed(page: Page, viewer: str = "") -> None:
    """Asserts that hostile content changed nothing on a page.

    Args:
        page: The page.
        viewer: The viewer that its links lead to; by default the page itself.
    """
    found = await page.evaluate(
        """(viewer) => ({
          pwned: [window.pwned, ({}).pwned, Object.prototype.pwned],
          foreign: document.querySelectorAll(
            "body :is(style, iframe, object, embed, base, meta, form, link, video, audio, math)," +
            "main script, main [style*='url'], [onload], [onerror], [onclick], [srcdoc]").length,
          links: [...document.querySelectorAll("a")].map(a => a.getAttribute("href"))
            .filter(href => !href.startsWith(`${viewer}#/`)),
          pictures: [...document.images].map(img => img.src).filter(src =>
            !src.startsWith(location.origin + "/api/") && !src.startsWith("data:image/")).length,
          wide: document.documentElement.scrollWidth - innerWidth,
          high: document.documentElement.scrollHeight - innerHeight,
          // What the viewer is used with is where it belongs: in sight.
          lost: [...document.querySelectorAll("header button")].map(b => b.getBoundingClientRect())
            .filter(b => b.width && (b.left < 0 || b.top < 0 || b.right > innerWidth
              || b.bottom > innerHeight)).length,
        })""",
        viewer,
    )
    assert found["pwned"] == [None, None, None]
    assert found["foreign"] == 0
    assert found["links"] == []
    assert found["pictures"] == 0
    assert found["wide"] <= 0
    assert found["high"] <= 0
    assert found["lost"] == 0


async def test_nothing_that_an_episode_says_runs_or_breaks_the_page(look, serve, tmp_path):
    with DatasetWriter(tmp_path / "d") as writer:
        for episode_id in ("evil1", "evil2"):
            writer.add(hostile(episode_id))
    url = await serve(tmp_path / "d")
    page = await look(url)
    rows = page.locator(".body .row")
    await expect(rows).to_have_count(2)
    await is_unharmed(page)
    assert (await rows.first.bounding_box())["height"] == 36
    globals_of = "Object.getOwnPropertyNames(window).length"
    before = await page.evaluate(globals_of)

    await page.keyboard.press("Enter")
    await expect(page.locator(".timeline .step")).to_have_count(3)
    for tab in TABS:
        for step in (0, 1, 2):
            await page.goto(f"{url}#/episode/d/evil1/step/{step}?tab={tab}&page=changes")
            await expect(page.locator(f"#tab-{tab}")).to_have_attribute("aria-selected", "true")
            await page.locator("summary, .more").evaluate_all(
                "all => all.forEach(one => one.click())"
            )
            await is_unharmed(page)
    # Addresses that an episode names are text: they lead nowhere.
    await page.goto(f"{url}#/episode/d/evil1/step/1?tab=model")
    at = page.url
    await page.get_by_text("https://evil.test/").first.click()
    assert page.url == at
    # What it says turns nothing round but itself.
    assert await page.locator("bdi, .said").evaluate_all(
        "all => all.every(one => getComputedStyle(one).unicodeBidi.startsWith('isolate'))"
    )
    await page.goto(f"{url}#/compare/d/evil1/d/evil2/step/1")
    await expect(page.locator(".pair")).to_have_count(3)
    await is_unharmed(page)
    assert await page.evaluate(globals_of) == before


async def test_notes_and_addresses_are_text_too(look, serve, tmp_path):
    with DatasetWriter(tmp_path / "d") as writer:
        writer.add(hostile("evil"))
    url = await serve(tmp_path / "d")
    page = await look(url, "#/episode/d/evil", forgive="404")
    await expect(page.locator(".timeline .step")).to_have_count(3)
    await page.keyboard.press("n")
    await page.get_by_role("textbox", name="Note").fill(ATTACK)
    await page.keyboard.press("Control+Enter")
    await expect(page.locator(".noted")).to_be_visible()
    await is_unharmed(page)
    await page.goto(url + "#/?q=%3Cimg%20src%3Dx%20onerror%3Dpwned%3D1%3E&task=%3Cscript%3E")
    await expect(page.get_by_role("heading", name="No episodes")).to_be_visible()
    await is_unharmed(page)
    await page.goto(url + "#/episode/%E0%A4%A/%00")
    await page.goto(url + "#/compare/<script>/a/b")
    await expect(page.locator(".total")).to_be_visible()
    await is_unharmed(page)


async def test_an_exported_episode_is_as_harmless(look, tmp_path):
    file = tmp_path / "episode.html"
    file.write_text(episode_html(hostile("evil")), encoding="utf-8")
    page = await look(file.as_uri())
    for tab in TABS:
        await page.goto(f"{file.as_uri()}#/episode/this/evil/step/1?tab={tab}")
        await expect(page.locator(f"#tab-{tab}")).to_have_attribute("aria-selected", "true")
        await page.locator("summary, .more").evaluate_all("all => all.forEach(one => one.click())")
        await is_unharmed(page)


async def test_pictures_of_other_kinds_or_places_are_not_shown(look, serve, tmp_path):
    with DatasetWriter(tmp_path / "d") as writer:
        writer.add(hostile("evil"))
    url = await serve(tmp_path / "d")
    page = await look(url)
    shown = await page.evaluate(
        """async () => {
          const { h, isOwnPicture } = await import("/static/dom.js");
          const refused = (make) => { try { make(); return false; } catch { return true; } };
          return {
            own: [location.origin + "/api/blobs/d/x.png", "/api/blobs/d/x.png",
                  "data:image/png;base64,AAAA"].map(isOwnPicture),
            others: ["https://evil.test/x.png", "//evil.test/x.png",
                     "data:image/svg+xml;base64,AAAA", "javascript:pwned=1",
                     "data:text/html,<script>pwned=1</script>", "", null, "http://[", "file:///etc/passwd"].map(isOwnPicture),
            refused: [
              () => h("script"), () => h("iframe"), () => h("style"), () => h("form"),
              () => h("a", { href: "javascript:pwned=1" }),
              () => h("a", { href: "https://evil.test" }),
              () => h("div", { onclick: "pwned=1" }), () => h("div", { style: "color:red" }),
              () => h("div", { innerHTML: "<b>" }), () => h("div", { css: { color: "red" } }),
              () => h("img", { src: "https://evil.test/x.png" }), () => h("img", { srcset: "x" }),
            ].map(refused),
          };
        }"""
    )
    assert shown["own"] == [True] * 3
    assert shown["others"] == [False] * 9
    assert shown["refused"] == [True] * 12
