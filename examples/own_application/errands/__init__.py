"""A list of errands, as an application of webtraj."""

from pathlib import Path

from webtraj_apps import App, register_app

APP = App(
    name="errands",
    title="Errands",
    package="errands 1.0",
    license="MIT",
    folder=Path(__file__).parent,
)
register_app(APP, tasks=f"{__name__}.tasks")
