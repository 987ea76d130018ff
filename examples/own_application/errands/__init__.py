"""A list of errands, as an application of webtraj."""

from pathlib import Path

from webtraj_apps import App, Meanwhile


def add_meanwhile(facts, rng, concerns):
    """Let somebody else add an errand, for tests of agents in a world that changes."""
    text = rng.choice(("Feed the fish", "Bring cake"))
    return Meanwhile(
        f"somebody adds the errand “{text}”",
        lambda world: world.submit(facts["user"], "/", add="1", text=text),
    )


APP = App(
    name="errands",
    title="Errands",
    package="errands 1.0",
    license="MIT",
    folder=Path(__file__).parent,
    meanwhile=add_meanwhile,
)
