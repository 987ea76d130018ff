# mypy: ignore-errors
"""Northfield's part of the site, as a Django application: its page types have no migrations."""

from importlib import import_module
from pathlib import Path

from django.apps import AppConfig


class NorthfieldConfig(AppConfig):
    """The application whose models are in `page_types`."""

    name = "northfield"
    path = str(Path(__file__).parent)
    default_auto_field = "django.db.models.AutoField"

    def import_models(self) -> None:
        """Import the models, once Django is ready for them."""
        self.models = self.apps.all_models[self.label]
        self.models_module = import_module("page_types")
