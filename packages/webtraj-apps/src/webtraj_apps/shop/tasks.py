"""The shop's task templates. Importing this module registers them."""

from webtraj_apps.shop.assignments import account, basket, office, products

__all__ = ["account", "basket", "office", "products"]
