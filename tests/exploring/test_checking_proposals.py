"""What a proposal claims is looked for in the episode; what is not there is no task."""

import dataclasses

import pytest

from rows import each
from webtraj.environments.tasks import spec_of_row
from webtraj.exploring.drafts import DUPLICATE, Claim, Draft, check_drafts, problem_of
from webtraj.exploring.seen import page_key, read_seen, site_key
from webtraj.trajectory import EndReason

SITE = "http://shop.example"
SOUND = Draft(
    goal="What does the green lamp cost?",
    start_url=f"{SITE}/products/7",
    kind="information",
    facts=(Claim("The answer is $15.50.", (4,)),),
    reference_answer="$15.50",
)


def fact(text="It is there.", *evidence):
    return (Claim(text, evidence),)


def test_a_sound_draft_becomes_a_task_with_where_it_came_from(seen):
    (task,), rejections = check_drafts((SOUND,), seen, limit=3, provenance={"model": "m"})
    assert rejections == ()
    assert (task.goal, task.start_url, task.site) == (SOUND.goal, SOUND.start_url, "shop.example")
    assert [group.facts[0].description for group in task.facts] == ["The answer is $15.50."]
    assert task.reference_answer == "$15.50"
    assert not task.coarse
    assert task.metadata == {
        "kind": "information",
        "provenance": {
            "episode_id": "walk",
            "explored": "coarse-1",
            "steps": [4],
            "evidence": [[4]],
            "model": "m",
        },
    }
    assert (
        spec_of_row(task.to_data() | {"facts": [dataclasses.asdict(g) for g in task.facts]}) == task
    )


@each(
    ("changes", "reason"),
    [
        pytest.param({"goal": " ?! "}, "goal: it is empty", id="empty-goal"),
        pytest.param({"goal": "x" * 501}, "goal: longer", id="long-goal"),
        pytest.param({"goal": "look at LAMPS"}, "goal: it is the description", id="description"),
        pytest.param({"goal": "Half \ud800 a character"}, "half a character", id="surrogate"),
        pytest.param({"kind": "payment"}, "kind: expected one of", id="kind"),
        pytest.param(
            {"start_url": "http://evil.example/"}, "start_url: not a page", id="other-site"
        ),
        pytest.param(
            {"start_url": "http://shop.example.evil.example/"}, "start_url: not a page", id="suffix"
        ),
        pytest.param(
            {"start_url": "http://shop.example@evil.example/"}, "start_url: not", id="userinfo"
        ),
        pytest.param({"start_url": "javascript:alert(1)"}, "start_url: not a page", id="script"),
        pytest.param({"start_url": "http://[::1"}, "start_url: not a page", id="no-url"),
        pytest.param({"start_url": f"{SITE}/admin"}, "not visited", id="unvisited"),
        pytest.param({"facts": ()}, "facts: there is none", id="no-facts"),
        pytest.param({"facts": fact("", 4)}, "facts: one is empty", id="empty-fact"),
        pytest.param({"facts": fact("x" * 501, 4)}, "facts: one is empty, or", id="long-fact"),
        pytest.param({"facts": fact("Yes.")}, "facts: one has no evidence", id="no-evidence"),
        pytest.param({"facts": fact("Yes.", 6)}, "there is no step 6", id="step-after-the-end"),
        pytest.param({"facts": fact("Yes.", -1)}, "there is no step -1", id="negative-step"),
        pytest.param({"facts": fact("Yes.", 4) * 21}, "facts: more than 20", id="many-facts"),
        pytest.param({"goal": "Go to http://evil.example/x now"}, "another site", id="url-in-goal"),
        pytest.param(
            {"facts": fact("https://evil.example is open", 4)}, "another site", id="url-in-fact"
        ),
        pytest.param({"reference_answer": ""}, "reference_answer: a task about", id="no-answer"),
        pytest.param({"reference_answer": "$99"}, "stands on none", id="invented-answer"),
        pytest.param({"reference_answer": "$15.5"}, "stands on none", id="part-of-a-number"),
        pytest.param({"reference_answer": "5.50"}, "stands on none", id="end-of-a-number"),
        pytest.param(
            {"facts": fact("It is.", 1)}, "stands on none", id="answer-on-a-page-not-given"
        ),
        pytest.param({"reference_answer": "x" * 301}, "longer than 300", id="long-answer"),
    ],
)
def test_what_was_not_seen_is_rejected_with_the_reason(seen, changes, reason):
    draft = dataclasses.replace(SOUND, **changes)
    assert reason in problem_of(draft, seen)
    tasks, (rejection,) = check_drafts((draft,), seen, limit=3, provenance={})
    assert tasks == ()
    assert reason in rejection.reason
    assert rejection.proposal["goal"] == draft.goal


def test_error_pages_and_other_sites_are_no_places_to_begin_or_to_prove(walk):
    seen = read_seen(
        walk(
            (
                (None, "", "", "/", "Welcome", '[1] link "Away"'),
                (None, "", "", "/gone", "Not found", '[1] heading "Not found"'),
                (None, "", "", "http://other.example/", "Away", '[1] heading "Away"'),
            )
        )
    )
    gone = dataclasses.replace(SOUND, start_url=f"{SITE}/gone")
    assert problem_of(gone, seen) == "start_url: a page with an error"
    away = dataclasses.replace(SOUND, start_url=f"{SITE}/", facts=fact("Away.", 2))
    assert problem_of(away, seen) == "evidence: step 2 was on another site"


def test_the_same_goal_counts_once_and_no_more_than_were_asked_for(seen):
    again = dataclasses.replace(SOUND, goal="what does the  green lamp cost")
    others = [dataclasses.replace(SOUND, goal=f"Goal {n}: what is the price?") for n in range(3)]
    tasks, rejections = check_drafts((SOUND, again, *others), seen, limit=3, provenance={})
    assert [task.goal for task in tasks] == [SOUND.goal, others[0].goal, others[1].goal]
    assert [rejection.reason for rejection in rejections] == [
        DUPLICATE,
        "more than the 3 that were asked for",
    ]


def test_a_task_begins_at_the_url_that_was_visited(seen):
    draft = dataclasses.replace(SOUND, start_url="HTTP://www.shop.example:80/products/7/#price")
    (task,), _ = check_drafts((draft,), seen, limit=1, provenance={})
    assert task.start_url == f"{SITE}/products/7"


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("http://a.example/x?q=1", "https://www.a.example/x/?q=1#y", True),
        ("http://a.example/x?q=1", "http://a.example/x?q=2", False),
        ("http://a.example/", "http://a.example:8080/", False),
    ],
    ids=("same", "query", "port"),
)
def test_urls_of_one_page(one, other, same):
    assert (page_key(one) == page_key(other)) is same


@each("url", ["", "about:blank", "file:///etc/passwd", "http://a:b", "//x"])
def test_what_is_no_web_address_is_of_no_site(url):
    assert site_key(url) == ""


def test_a_site_that_sends_its_visitors_elsewhere_is_both(walk):
    steps = ((None, "", "", "http://new.example/", "Hi", ""),)
    seen = read_seen(walk(steps, reason=EndReason.TERMINATED))
    assert seen.sites == ("shop.example", "new.example")
