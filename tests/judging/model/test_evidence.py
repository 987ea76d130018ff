"""What of an episode the judge is shown, and what never."""

import dataclasses

import numpy as np

from rows import each
from webtraj.environments import actions
from webtraj.environments.actions.recorded import describe
from webtraj.environments.tasks import spec_of_row
from webtraj.judging.model import JudgeSettings
from webtraj.judging.model.evidence import gather, step_list
from webtraj.trajectory import EndReason, EpisodeEnd, EpisodeInfo, EpisodeTrajectory

SETTINGS = JudgeSettings()


def test_task_steps_answer_and_pictures(make_episode, make_picture) -> None:
    evidence = gather(make_episode(), SETTINGS)
    assert evidence.goal == "Find the price of the lamp."
    assert evidence.answer == "It costs 12 dollars."
    assert list(evidence.pictures) == [0, 1, 2]
    assert evidence.pictures[2] == make_picture(2)
    assert evidence.pages == {}  # The last page has a picture.
    assert evidence.missing == ""
    assert evidence.steps.splitlines() == [
        "Step 0: the episode begins",
        "  page: Shop <http://shop.test/0>",
        "Step 1: click('1')",
        "  thought: The price must be here.",
        "  page: Shop <http://shop.test/1>",
        "Step 2: answer('It costs 12 dollars.')",
        "  thought: The price must be here.",
        "  page: Shop <http://shop.test/2>",
        "Then the episode was over",
    ]


def test_what_the_environment_said_is_not_shown(make_episode) -> None:
    info = {"raw_reward": 0.625, "success": True, "reason": "solved by the rule"}
    episode = make_episode(pictures=False, changes={"info": info})
    shown = "\n".join(gather(episode, SETTINGS).texts)
    assert "0.625" not in shown
    assert "solved by the rule" not in shown


def test_errors_elements_and_dialogs_are_told(make_episode) -> None:
    last = {"error": "The element is covered.", "role": "button", "name": "Buy"}
    changes = {"last_action": last, "dialogs": np.array(["alert: Sold out"]), "http_status": 503}
    steps = gather(make_episode(changes=changes), SETTINGS).steps
    assert "Step 1: click('1') on button 'Buy'" in steps
    assert "  not done: The element is covered." in steps
    assert "  dialog: alert: Sold out" in steps
    assert "  the site answered with the HTTP status 503" in steps


def test_thoughts_can_be_kept_from_the_judge(make_episode) -> None:
    settings = JudgeSettings(thoughts=False)
    assert "thought" not in gather(make_episode(), settings).steps


def test_of_many_steps_the_middle_is_left_out(make_episode) -> None:
    settings = JudgeSettings(max_steps=4, thoughts=False)
    told = step_list(make_episode(steps=10, changes={"url": "", "title": ""}), settings)
    assert told.splitlines() == [
        "Step 0: the episode begins",
        "Step 1: click('1')",
        "[... 6 steps left out]",
        "Step 8: click('8')",
        "Step 9: answer('It costs 12 dollars.')",
        "Then the episode was over",
    ]


def test_truncation_is_told_with_its_limit(make_episode) -> None:
    episode = make_episode(answer=None, reason=EndReason.TRUNCATED)
    end = dataclasses.replace(episode.end, detail="30 steps")
    episode = dataclasses.replace(episode, end=end)
    evidence = gather(episode, SETTINGS)
    assert evidence.answer == ""
    assert evidence.steps.endswith("Then the episode was cut off: 30 steps")


def test_without_pictures_the_text_of_pages_is_shown(make_episode) -> None:
    evidence = gather(make_episode(pictures=False), SETTINGS)
    assert evidence.pages == {2: '[1] heading "Lamp"\n[2] text "12 dollars"'}


def test_text_of_pages_is_bounded_and_the_last_page_comes_first(make_episode) -> None:
    episode = make_episode(pictures=False, steps=4)
    texts = [f"page {index}\n" + "x" * 97 + "\n" for index in range(4)]
    steps = tuple(
        dataclasses.replace(step, observation={**step.observation, "axtree": text * 5})
        for step, text in zip(episode.steps, texts, strict=True)
    )
    settings = JudgeSettings(page_characters=900)
    pages = gather(dataclasses.replace(episode, steps=steps), settings).pages
    assert list(pages) == [2, 3]
    assert pages[3] == texts[3] * 5
    assert pages[2].endswith("lines cut]")
    assert sum(map(len, pages.values())) <= 900


REFERENCES = {
    "a text": ("The price is shown.", ["The price is shown."]),
    "a list of texts": (["A holds.", "B holds."], ["A holds.", "B holds."]),
    "a list of facts": ([{"description": "A holds.", "difficulty": 2}], ["A holds."]),
    "groups": (
        [
            {"id": "g1", "description": "the lamp", "facts": ["It is red.", "It is new."]},
            {"id": 2, "description": "", "facts": [{"description": "It is on sale."}]},
        ],
        [
            "Of the group g1: the lamp\nIt is red.",
            "Of the group g1: the lamp\nIt is new.",
            "Of the group 2\nIt is on sale.",
        ],
    ),
}


def webgym_task(reference, answer="") -> dict:
    row = {
        "task_name": "Find the lamp",
        "website": "shop.test",
        "difficulty": 2,
        "evaluator_reference": reference,
        "definite_answer": answer,
    }
    return spec_of_row(row).to_data()


@each(("reference", "facts"), REFERENCES.values())
def test_webgym_references_become_facts(make_episode, reference, facts) -> None:
    evidence = gather(make_episode(task=webgym_task(reference, "12")), SETTINGS)
    assert list(evidence.facts) == facts
    assert (evidence.goal, evidence.reference) == ("Find the lamp", "12")


@each(
    "task",
    [3, {"goal": "no name"}, {"name": "a", "surplus": 1}, {"name": "a", "facts": [{"id": "g"}]}],
)
def test_task_that_cannot_be_read_is_missing(make_episode, task) -> None:
    assert "cannot be read" in gather(make_episode(task=task), SETTINGS).missing


@each("observation", [None, 3, "text", np.zeros(3), [1, 2]])
def test_other_observations_show_nothing(observation, make_episode) -> None:
    episode = make_episode(answer=None)
    steps = tuple(dataclasses.replace(step, observation=observation) for step in episode.steps)
    assert "nothing to judge" in gather(dataclasses.replace(episode, steps=steps), SETTINGS).missing


def test_without_goal_and_facts_there_is_nothing_to_judge_by(make_episode) -> None:
    assert "no goal" in gather(make_episode(goal=" "), SETTINGS).missing
    assert gather(make_episode(goal="", changes={"goal": "Buy it."}), SETTINGS).goal == "Buy it."
    empty = EpisodeTrajectory(EpisodeInfo(), (), EpisodeEnd(reason=EndReason.TERMINATED))
    assert gather(empty, SETTINGS).missing


@each(
    ("action", "text"),
    [
        (
            actions.InvalidAction("There are two calls."),
            "a reply that was not an action: There are",
        ),
        (np.array([1, 2]), "array([1, 2])"),
        ({"key": "click"}, "{'key': 'click'}"),
        (4, "4"),
    ],
)
def test_any_action_is_told(action, text) -> None:
    assert describe(action).startswith(text)
