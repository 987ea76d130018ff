"""The shop: django-oscar, with the storefront and the back office of Northfield."""

import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from webtraj_apps.app import App, Concerns, Meanwhile
from webtraj_apps.state import filled

_PLENTY: Final = 20
"""With more pieces than this, neither a page nor a task calls the stock low."""


def _delivery(facts: Mapping[str, Any], rng: random.Random, concerns: Concerns) -> Meanwhile:
    """Let the warehouse take in a delivery of a product."""
    count = rng.randint(5, 40)
    product = rng.choice(
        [
            one
            for one in facts["products"]
            if one["stock"] > _PLENTY
            and not any(map(concerns, (one["id"], one["stock_id"], one["title"])))
        ]
    )
    statement = "UPDATE partner_stockrecord SET num_in_stock = num_in_stock + ? WHERE id = ?"
    return Meanwhile.by_sql(
        f"{count} pieces of the {product['title']} arrive in the stock",
        (statement, (count, product["stock_id"])),
    )


APP = App(
    name="shop",
    title="Online shop",
    package="django-oscar 4.2.1",
    license="BSD-3-Clause",
    folder=Path(__file__).parent,
    meanwhile=_delivery,
    ignored=frozenset(
        {
            # What was looked at, and what mails were sent.
            "analytics_productrecord",
            "analytics_userproductview",
            "analytics_userrecord",
            "analytics_usersearch",
            "communication_email",
            "django_session",
            # They follow from the stock.
            "partner_stockalert",
        }
    ),
    columns={
        "*": ("date_created", "date_updated"),
        # Counters that follow from the orders.
        "address_useraddress": ("num_orders_as_shipping_address",),
        "auth_user": ("last_login",),
        # Its place among its siblings: saving a category moves it.
        "catalogue_category": ("path",),
        "communication_notification": ("date_read",),
        "offer_conditionaloffer": ("num_applications", "num_orders", "total_discount"),
        "partner_stockrecord": ("num_allocated",),
        "voucher_voucher": ("num_basket_additions", "num_orders", "total_discount"),
    },
    fills={
        "*": filled("date_created", "date_updated"),
        "address_useraddress": filled("hash", "search_text", "user_id"),
        "catalogue_category": filled("path", "slug", ancestors_are_public=1),
        "customer_productalert": filled("user_id"),
        "voucher_voucherapplication": filled("order_id", "user_id"),
        # Prices are those of the product.
        "basket_line": filled(
            "line_reference",
            "price_excl_tax",
            "price_incl_tax",
            "stockrecord_id",
            price_currency="GBP",
        ),
        "catalogue_product": filled("slug", is_discountable=1, structure="standalone"),
        "order_line": filled(
            "line_price_before_discounts_excl_tax",
            "line_price_before_discounts_incl_tax",
            "line_price_excl_tax",
            "line_price_incl_tax",
            "num_allocated",
            "partner_id",
            "partner_name",
            "partner_sku",
            "stockrecord_id",
            "title",
            "unit_price_excl_tax",
            "unit_price_incl_tax",
            "upc",
            status="Pending",
        ),
        "order_order": filled(
            "analytics_tracked",
            "basket_id",
            "date_placed",
            "number",
            "shipping_code",
            "shipping_excl_tax",
            "shipping_incl_tax",
            "site_id",
            "total_excl_tax",
            "total_incl_tax",
            currency="GBP",
            status="Pending",
        ),
        "offer_conditionaloffer": filled("slug", "start_datetime", exclusive=1, status="Open"),
        "order_ordernote": filled("user_id"),
        "order_orderstatuschange": filled("old_status"),
        "order_shippingaddress": filled("search_text"),
        "partner_stockrecord": filled(price_currency="GBP"),
        "reviews_productreview": filled("user_id"),
        "reviews_vote": filled("user_id"),
        "wishlists_line": filled("title"),
        "wishlists_wishlist": filled("key", "owner_id"),
    },
)
