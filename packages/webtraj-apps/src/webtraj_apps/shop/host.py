# mypy: ignore-errors
"""The shop's part in its own virtual environment: django-oscar, its content and its worlds.

django-oscar is used unchanged, except for what every shop must add: shipping methods, a payment
page (customers pay by invoice), a search (in SQLite), and pictures (drawn by `catalogue`).
"""

import functools
import re
import warnings
from decimal import Decimal
from pathlib import Path
from typing import Any

import catalogue
import content
import django_worlds
import oscar
from django.db import connection, transaction
from oscar import defaults

_SCRIPTS = (
    "mousewheel/jquery.mousewheel.js",
    "bootstrap4-datetimepicker/moment-with-locales.min.js",
    "bootstrap4-datetimepicker/tempusdominus-bootstrap-4.min.js",
    "select2/select2.min.js",
    "jquery-sortable/jquery-sortable-min.js",
    "oscar/dashboard.js",
    "oscar/RelatedObjectLookups.js",
)
_TEMPLATES = {
    "oscar/base.html": """
{% extends "oscar/base.html" %}{% load static %}
{% block tracking %}<style>.reviewrating select { display: block; }</style>{% endblock %}
{% block cdn_scripts %}<script src="{% static "oscar/js/jquery/jquery.min.js" %}"></script>
{% endblock %}""",
    "oscar/checkout/payment_details.html": """
{% extends "oscar/checkout/payment_details.html" %}
{% block title %}Payment{% endblock %}
{% block checkout_title %}Payment{% endblock %}
{% block payment_details_content %}
<p>You pay by invoice: we send it with the goods, and you have 30 days to pay.</p>
<a id="view_preview" href="{% url 'checkout:preview' %}" class="btn btn-primary btn-lg">Continue</a>
{% endblock %}""",
    "oscar/checkout/preview.html": """
{% extends "oscar/checkout/preview.html" %}
{% block payment_method %}<div class="col-sm-6"><div class="sub-header"><h2>Payment</h2></div>
<p>By invoice</p></div>{% endblock %}""",
    "oscar/checkout/thank_you.html": """
{% extends "oscar/checkout/thank_you.html" %}
{% block payment_info %}<div class="sub-header"><h2>Payment</h2></div><p>By invoice</p>
{% endblock %}""",
    # As it comes, without its rich text editor and its masks, which change what is typed.
    "oscar/dashboard/layout.html": """
{% extends "oscar/dashboard/layout.html" %}{% load static %}
{% block extrascripts %}
"""
    + "".join(f'<script src="/static/oscar/js/{name}"></script>\n' for name in _SCRIPTS)
    + """<script>$.fn.tinymce = $.fn.inputmask = function() { return this; };</script>
{% endblock %}""",
    "oscar/partials/brand.html": """
<div class="col-sm-6 h1"><a href="{{ homepage_url }}">{{ shop_name }}</a>
<small>{{ shop_tagline }}</small></div>""",
}
_STATUSES = {
    "Pending": ("Being processed", "Cancelled"),
    "Being processed": ("Shipped", "Cancelled"),
    "Shipped": ("Complete", "Returned"),
    "Complete": ("Returned",),
    "Cancelled": (),
    "Returned": (),
}
_BRACKETS = (("Up to £20", 0, 20), ("£20 to £50", 20, 50), ("£50 to £100", 50, 100))
_OWN = {
    ("shipping.repository", "Repository"): "_repository",
    ("search.facets", "base_sqs"): "_search",
}


def load_classes(module: str, names: list[str], prefix: str) -> list[Any]:
    """Load classes as Oscar does, with ours in the place of a few."""
    from oscar.core.loading import default_class_loader

    loaded = default_class_loader(module, names, prefix)
    return [
        globals()[_OWN[module, name]]() if (module, name) in _OWN else one
        for name, one in zip(names, loaded, strict=True)
    ]


@functools.cache
def _repository() -> type:
    from oscar.apps.shipping import methods, repository

    def method(code: str, name: str, pounds: str, description: str) -> Any:
        charge = Decimal(pounds)
        attributes = {"code": code, "name": name, "description": description}
        attributes |= {"charge_excl_tax": charge, "charge_incl_tax": charge}
        return type(code.title(), (methods.FixedPrice,), attributes)()

    class Repository(repository.Repository):
        methods = (
            method("standard", "Standard delivery", "4.95", "Within three to five days."),
            method("express", "Express delivery", "9.90", "On the next working day."),
            method("pickup", "Collect from our shop", "0.00", "In Harbour Street, from tomorrow."),
        )

    return Repository


def _search() -> Any:
    return lambda: Search()


class Search:
    """The catalogue as Haystack's query set: filtered, sorted and counted in Python.

    Each method except the last ones returns a narrower search.
    """

    def __init__(self) -> None:
        self._text: list[str] = []
        self._categories: set[int] | None = None
        self._facets: list[tuple[str, list[str]]] = []
        self._order = ""
        self._found: list[dict[str, Any]] | None = None
        self.query = self
        self.backend = self
        self.include_spelling = False

    def clean(self, text: str) -> str:
        """Return a text as it stands in a query."""
        return text

    def load_all(self) -> "Search":
        """Return the search itself, which loads all it needs anyway."""
        return self

    def facet(self, _field: str) -> "Search":
        """Count by a field, which is always done."""
        return self

    def auto_query(self, text: str) -> "Search":
        """Keep products that have all words, in their title, type, category or description."""
        self._text = text.lower().split()
        return self

    def filter(self, category__in: list[int]) -> "Search":
        """Keep products of these categories."""
        self._categories = set(category__in)
        return self

    def narrow(self, query: str) -> "Search":
        """Keep products with one of a facet's values: `product_class:("A" OR "B")`."""
        field, _, values = query.partition(":")
        self._facets.append((field, [v.strip('"') for v in values[1:-1].split(" OR ")]))
        return self

    def order_by(self, field: str) -> "Search":
        """Sort by a field, from the highest if it starts with a minus."""
        self._order = field
        return self

    def _rows(self) -> list[dict[str, Any]]:
        if self._found is not None:
            return self._found
        rows = []
        for row in django_worlds.remember("public products", _public_products):
            text = row["text"]
            if all(word in text for word in self._text) and (
                self._categories is None or not self._categories.isdisjoint(row["categories"])
            ):
                rows.append(row)
        for field, values in self._facets:
            rows = [row for row in rows if row.get(field) in values]
        title = [
            (sum(word in row["title_exact"].lower() for word in self._text), row) for row in rows
        ]
        title.sort(key=lambda pair: (-pair[0], -pair[1]["id"]))
        rows = [row for _, row in title]
        if self._order:
            field = self._order.removeprefix("-")
            rows.sort(key=lambda row: row[f"{field}_key"], reverse=self._order[0] == "-")
        self._found = rows
        return rows

    def __len__(self) -> int:
        return len(self._rows())

    count = __len__

    def __getitem__(self, part: slice) -> list[Any]:
        from oscar.core.loading import get_model

        ids = [row["id"] for row in self._rows()[part]]
        found = get_model("catalogue", "Product").objects.base_queryset().in_bulk(ids)
        return [type("Result", (), {"object": found[one], "pk": one}) for one in ids]

    def facet_counts(self) -> dict[str, Any]:
        """Return how many of the products found have each value of each facet."""

        def count(field: str) -> dict[str, int]:
            counts: dict[str, int] = {}
            for row in self._rows():
                if row[field] is not None:
                    counts[row[field]] = counts.get(row[field], 0) + 1
            return counts

        fields = {name: sorted(count(name).items()) for name in ("product_class", "rating")}
        queries = {f"price:{query}": n for query, n in count("price").items()}
        return {"fields": fields, "queries": queries}


def _public_products() -> list[dict[str, Any]]:
    """Return what a search needs to know of all products on sale."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT p.id, p.title, p.description, p.rating, p.date_created, c.name, s.price,"
            " group_concat(pc.category_id), group_concat(k.name, ' '), p.upc"
            " FROM catalogue_product p JOIN catalogue_productclass c ON c.id = p.product_class_id"
            " LEFT JOIN partner_stockrecord s ON s.product_id = p.id"
            " LEFT JOIN catalogue_productcategory pc ON pc.product_id = p.id"
            " LEFT JOIN catalogue_category k ON k.id = pc.category_id"
            " WHERE p.is_public AND p.structure IN ('standalone', 'parent') GROUP BY p.id"
        )
        rows = cursor.fetchall()
    made = []
    for id_, title, description, rating, date, kind, price, categories, names, upc in rows:
        stars = None if rating is None else str(int(rating))
        plain = re.sub("<[^>]+>", " ", description)
        made.append(
            {
                "id": id_,
                "text": f"{title} {plain} {kind} {names} {upc}".lower(),
                "title_exact": title,
                "title_exact_key": title,
                "product_class": kind,
                "rating": stars,
                "rating_key": rating or 0,
                "date_created_key": str(date),
                "price": None if price is None else _bracket(price),
                "price_key": price or 0,
                "categories": {int(one) for one in (categories or "").split(",") if one},
            }
        )
    return made


def _bracket(price: float) -> str:
    for _, low, high in _BRACKETS:
        if low <= price < high:
            return f"[{low} TO {high}]"
    return "[100 TO *]"


class Thumbnails:
    """Pictures scale, so that the picture is its own thumbnail."""

    def generate_thumbnail(self, source: Any, **_: Any) -> Any:
        """Return something with the URL of a picture."""
        url = source if isinstance(source, str) else f"/media/{source.name}"
        return type("Thumbnail", (), {"url": url})

    def delete_thumbnails(self, source: Any) -> None:
        """Delete nothing: there are none."""


warnings.filterwarnings("ignore", message="Pagination may yield inconsistent results")
warnings.filterwarnings("ignore", message=".* received a naive datetime")
django_worlds.configure(
    AUTHENTICATION_BACKENDS=["oscar.apps.customer.auth_backends.EmailBackend"],
    HAYSTACK_CONNECTIONS={
        "default": {"ENGINE": "haystack.backends.simple_backend.SimpleEngine"},
    },
    INSTALLED_APPS=[app for app in oscar.INSTALLED_APPS if app != "django.contrib.admin"],
    LANGUAGES=[("en-gb", "English")],
    MIDDLEWARE=[
        "django.contrib.sessions.middleware.SessionMiddleware",
        "django.middleware.csrf.CsrfViewMiddleware",
        "django.contrib.auth.middleware.AuthenticationMiddleware",
        "django.contrib.messages.middleware.MessageMiddleware",
        "oscar.apps.basket.middleware.BasketMiddleware",
        "django.contrib.flatpages.middleware.FlatpageFallbackMiddleware",
    ],
    ROOT_URLCONF=__name__,
    SITE_ID=1,
    TEMPLATES=django_worlds.templates(
        "oscar.apps.search.context_processors.search_form",
        "oscar.apps.communication.notifications.context_processors.notifications",
        "oscar.apps.checkout.context_processors.checkout",
        "oscar.core.context_processors.metadata",
        pages=_TEMPLATES,
    ),
    **{name: getattr(defaults, name) for name in dir(defaults) if name.startswith("OSCAR_")}
    | {
        "OSCAR_DEFAULT_CURRENCY": "GBP",
        "OSCAR_DYNAMIC_CLASS_LOADER": f"{__name__}.load_classes",
        "OSCAR_INITIAL_LINE_STATUS": "Pending",
        "OSCAR_INITIAL_ORDER_STATUS": "Pending",
        "OSCAR_LINE_STATUS_PIPELINE": _STATUSES,
        "OSCAR_MODERATE_REVIEWS": True,
        "OSCAR_ORDER_STATUS_PIPELINE": _STATUSES,
        "OSCAR_PRODUCTS_PER_PAGE": 12,
        "OSCAR_SEARCH_FACETS": {
            "fields": {
                "product_class": {"name": "Type", "field": "product_class"},
                "rating": {"name": "Rating", "field": "rating"},
            },
            "queries": {
                "price_range": {
                    "name": "Price range",
                    "field": "price",
                    "queries": [
                        *((name, f"[{low} TO {high}]") for name, low, high in _BRACKETS),
                        ("£100 and more", "[100 TO *]"),
                    ],
                }
            },
        },
        "OSCAR_SHOP_NAME": "Northfield",
        "OSCAR_SHOP_TAGLINE": "Things for home and garden",
        "OSCAR_THUMBNAILER": f"{__name__}.Thumbnails",
    },
    HAYSTACK_SIGNAL_PROCESSOR="haystack.signals.BaseSignalProcessor",
)

from django.apps import apps  # noqa: E402
from django.urls import include, path  # noqa: E402

Category = apps.get_model("catalogue", "Category")
Range = apps.get_model("offer", "Range")


def _contains_product(products: Any, product: Any) -> bool:
    """Return whether a range contains a product; asks for all its products at once."""
    if products.proxy:
        return products.proxy.contains_product(product)
    return product.id in django_worlds.remember(
        (Range, products.pk), lambda: set(products.product_queryset.values_list("id", flat=True))
    )


def _full_name(category: Any) -> str:
    """Return the names of a category and those above it; asks for all categories at once."""
    names = django_worlds.remember(
        "names of categories", lambda: dict(Category.objects.values_list("path", "name"))
    )
    step = Category.steplen
    paths = (category.path[:end] for end in range(step, len(category.path), step))
    return Category._full_name_separator.join([*map(names.get, paths), category.name])


# On each page, the basket asks each offer about each of its products.
Range.contains_product = _contains_product
Category.full_name = property(_full_name)

urlpatterns = [path("", include(apps.get_app_config("oscar").urls[0]))]
enter = django_worlds.enter


def open_application(root: Path) -> Any:
    """Return the WSGI application."""
    return django_worlds.application(draw=catalogue.draw)


def build(state: Path, seed: int) -> dict[str, Any]:
    """Make a world's first moment; see `serve.py`."""
    django_worlds.create(state)
    with transaction.atomic():
        facts = content.Shop(seed).fill()
    django_worlds.finish(state)
    return facts
