"""The shop's task templates. Importing this module registers them."""

from webtraj_apps.shop.assignments import account, browsing, buying, office

__all__ = ["account", "browsing", "buying", "office"]
