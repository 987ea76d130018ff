"""A list of errands, as an application of webtraj."""

from pathlib import Path

from webtraj_apps import App

APP = App(
    name="errands",
    title="Errands",
    package="errands 1.0",
    license="MIT",
    folder=Path(__file__).parent,
)
