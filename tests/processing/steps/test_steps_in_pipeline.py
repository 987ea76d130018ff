"""All steps in one pipeline, over a dataset on disk, with a model over real HTTP."""

import json

from made_episodes import CLICKED, LISTED, SHOP, episode, finish, page, step

from webtraj import Outcome, open_dataset
from webtraj.datasets.verification import verify
from webtraj.datasets.writer import DatasetWriter
from webtraj.environments import actions as a
from webtraj.processing.pipeline import Pipeline, process
from webtraj.processing.registry import make_step
from webtraj.testing.assertions import assert_valid_trajectory
from webtraj.testing.model_server import FakeModelServer

CHAIN = (
    ("redact", {"patterns": "email"}),
    ("filter-site", {"sites": "shop.*"}),
    ("filter-task", {"exclude": "shop/other"}),
    ("filter", {"where": "num_steps < 50"}),
    ("clean", {}),
    ("drop-no-effect", {}),
    ("prune-loops", {}),
    ("relabel", {}),
    ("grade-difficulty", {}),
    ("describe", {}),
    ("judge", {"by": "model", "options": {"check_blocked": False}}),
    ("dedupe", {}),
    ("filter-outcome", {"outcomes": ["success"]}),
)


def answer(request):
    """A model that does as each prompt asks."""
    system = request.messages[0]["content"]
    system = system if isinstance(system, str) else system[0]["text"]
    if '"achieved"' in system:
        proof = {"evidence": ['heading "All goods"'], "goal": "Open the shop."}
        return json.dumps({"achieved": True, **proof})
    if '"description"' in system:
        return json.dumps({"description": "It did.", "thought": "I do."})
    if '"difficulty"' in system:
        return json.dumps({"reason": "One thing.", "difficulty": 1})
    done = "Open the shop." in request.text
    return json.dumps({"reasoning": "So it is.", "verdict": "success" if done else "failure"})


def tried(number, **options):
    """Looks around, waits, opens the shop, and gives up."""
    return episode(
        CLICKED,
        step(a.GoBack(), page(SHOP)),
        step(a.Wait(), page(SHOP)),
        CLICKED,
        finish(LISTED),
        episode_id=f"e{number}",
        **{"outcome": Outcome.FAILURE, "site": "shop.test", "goal": "Ask a@b.org.", **options},
    )


async def test_chain_of_all_steps(tmp_path, served):
    with DatasetWriter(tmp_path / "raw") as writer:
        for one in (
            tried(0),
            tried(1),
            tried(2, site="elsewhere.test"),
            tried(3, outcome=Outcome.ENV_ERROR),
            tried(4, task="shop/other"),
        ):
            writer.add(one)
    with FakeModelServer(answer) as server:
        client = served(server)
        steps = [make_step(name, options, client=client) for name, options in CHAIN]
        report = await process(tmp_path / "raw", tmp_path / "made", Pipeline(steps))
        asked = len(server.requests)
        await process(tmp_path / "raw", tmp_path / "made", Pipeline(steps))
        assert len(server.requests) == asked  # Nothing is asked twice.
        assert not server.errors
    assert report is not None
    assert verify(tmp_path / "made").clean
    (made,) = open_dataset(tmp_path / "made")
    assert_valid_trajectory(made)
    assert (made.episode_id, made.outcome) == ("e0.hindsight", Outcome.SUCCESS)
    assert made.info.goal == "Open the shop."
    assert made.info.metadata["relabelled"]["goal"] == "Ask <secret:email>."
    assert made.info.metadata["difficulty"]["level"] == "easy"
    assert [one.action for one in made.steps] == [None, a.Click("1"), a.Answer("done")]
    assert [one.decision.metadata["description"] for one in made.steps[1:]] == ["It did."] * 2
    done = [one for one in made.info.derivation if one.step != "pipeline"]
    assert [one.step for one in done] == [
        "redact", "drop-no-effect", "prune-loops", "relabel", "grade-difficulty", "describe",
        "judge",
    ]  # fmt: skip
    assert {one.step for one in done if one.prompt_sha256} == {
        "grade-difficulty",
        "relabel",
        "describe",
        "judge",
    }
