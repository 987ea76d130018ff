"""Tasks in the list of errands, with their oracles."""

import random

from webtraj.environments.browser.oracles import click, fill
from webtraj_apps.tasks import Assignment, Facts, added, assign, changed, template


@template("errands/add", level=1, split="train")
def add(facts: Facts, rng: random.Random) -> Assignment:
    """Type and press a button."""
    text = rng.choice(("Post the letter", "Sharpen the knives", "Book the train"))
    return assign(
        f'Add the errand "{text}" to the list.',
        (fill("input[name=text]", text), click("button", "Add")),
        added("errand", text=text, done=0),
        user=facts["user"],
    )


@template("errands/finish-all-of-a-kind", level=2, split="test")
def finish_all_of_a_kind(facts: Facts, rng: random.Random) -> Assignment:
    """Find several in a list."""
    chosen = rng.choice(facts["errands"])["text"].rpartition(" (")[0]
    meant = [one for one in facts["errands"] if one["text"].startswith(chosen)]
    return assign(
        f'Mark every errand as done that starts with "{chosen}". How many were there? '
        "Answer with the number.",
        [
            (click(f"button[value='{one['id']}']"), changed("errand", {"id": one["id"]}, done=1))
            for one in meant
        ],
        answer=str(len(meant)),
        user=facts["user"],
    )


@template("errands/remind", level=1, split="test", infeasible=True)
def remind(facts: Facts, rng: random.Random) -> Assignment:
    """A button that the application does not have."""
    errand = rng.choice(facts["errands"])["text"]
    return assign(f'Set a reminder for the errand "{errand}" at 5 pm.', user=facts["user"])
