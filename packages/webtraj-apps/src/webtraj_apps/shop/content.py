# mypy: ignore-errors
"""The shop's content: users, products, orders, reviews, offers, and the facts about them.

Packages that only the application's environment has are imported where they are used.
"""

import hashlib
import random
import re
from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import company
import voices
from company import COMPANY, NOW, evening, later, moment


def _money(pence: int) -> Decimal:
    return Decimal(pence) / 100


class Shop:
    """A shop in the making, with the facts about it."""

    def __init__(self, seed: int) -> None:
        import people

        self.rng = random.Random(f"shop {seed}")
        self.words = company.words(Path(__file__).parent, seed, "content.toml", "reviews.toml")
        self.people = people.people(seed)
        self.facts: dict[str, Any] = {}
        self.ordered: dict[int, datetime] = {}
        """When each order was placed, by its key."""

    def fill(self) -> dict[str, Any]:
        """Make everything, and return the facts."""
        import django_worlds
        from django.contrib.sites.models import Site

        Site.objects.filter(pk=1).update(name="Northfield", domain="shop.test")
        self._users()
        self._products()
        self._addresses()
        self._offers()
        self._orders()
        self._reviews()
        self._account()
        self._records()
        self.facts["cookies"] = django_worlds.cookies(self.users)
        return self.facts

    def _day(self, first: int, last: int) -> datetime:
        """Return a moment so many days ago, at which people shop."""
        today = NOW.date()
        return evening(self.rng, today - timedelta(days=first), today - timedelta(days=last))

    def _users(self) -> None:
        import django_worlds
        import people
        from django.contrib.auth.models import User

        self.users = User.objects.bulk_create(
            User(
                **django_worlds.account(person),
                is_staff=number == 1,
                is_superuser=number == 1,
                date_joined=self._day(900, 420),
            )
            for number, person in enumerate(self.people)
        )
        self.user, self.staff = self.users[:2]
        self.facts |= {
            "user": self.user.username,
            "staff": self.staff.username,
            "password": people.PASSWORD,
            "people": [django_worlds.facts_of(user) for user in self.users],
        }

    def _products(self) -> None:
        import catalogue
        from oscar.apps.catalogue.categories import create_from_breadcrumbs
        from oscar.apps.catalogue.models import (
            Category,
            Product,
            ProductAttribute,
            ProductAttributeValue,
            ProductCategory,
            ProductClass,
            ProductImage,
        )
        from oscar.apps.partner.models import Partner, StockAlert, StockRecord

        partner = Partner.objects.create(name="Northfield", code="northfield")
        second = Partner.objects.create(name="Workshop delivery", code="workshop-delivery")
        classes, attributes = {}, {}
        for department in catalogue.WORDS.departments:
            classes[department] = ProductClass.objects.create(name=department)
            attributes[department] = [
                ProductAttribute.objects.create(
                    product_class=classes[department], name=name, code=code, type=kind
                )
                for name, code, kind in (
                    ("Material", "material", "text"),
                    ("Colour", "colour", "text"),
                    ("Weight (g)", "weight", "integer"),
                    ("Warranty (years)", "warranty", "integer"),
                )
            ]
        categories = {
            leaf["name"]: create_from_breadcrumbs(f"{department} > {leaf['name']}")
            for department, leaves in catalogue.WORDS.departments.items()
            for leaf in leaves
        }
        # As the back office saves them, so that it changes only what is meant.
        Category.objects.update(meta_description="")
        made = list(catalogue.products(self.rng, COMPANY.products))
        self.products = [
            Product(
                structure="standalone",
                upc=str(4006000000 + 37 * number),
                title=one.title,
                slug=re.sub("[^a-z0-9]+", "-", one.title.lower().replace("'", "")),
                description=f"<p>{one.description}</p>",
                product_class=classes[one.department],
                meta_description="",
            )
            for number, one in enumerate(made)
        ]
        Product.objects.bulk_create(self.products)
        values, facts = [], []
        for product, one in zip(self.products, made, strict=True):
            listed = (one.material, one.colour, one.weight, one.warranty)
            for attribute, value in zip(attributes[one.department], listed, strict=True):
                if value == 0:  # What is used up or washed away has no warranty.
                    continue
                kind = "value_text" if isinstance(value, str) else "value_integer"
                values.append(
                    ProductAttributeValue(attribute=attribute, product=product, **{kind: value})
                )
            chance = self.rng.random()
            stock = 0 if chance < 0.05 else self.rng.randint(1, 6 if chance < 0.2 else 80)
            facts.append(
                {
                    "id": product.pk,
                    "title": one.title,
                    "upc": product.upc,
                    "sku": f"NF-{product.pk:04}",
                    "price": one.pence / 100,
                    "stock": stock,
                    "department": one.department,
                    "category": one.category,
                    "material": one.material,
                    "colour": one.colour,
                    "weight": one.weight,
                    "warranty": one.warranty,
                    "partner": (partner if self.rng.random() < 0.8 else second).name,
                    "url": product.get_absolute_url(),
                    "text": " ".join(
                        (one.title, one.description, one.department, one.category)
                    ).lower(),
                }
            )
        self.pence = {
            product.pk: one.pence for product, one in zip(self.products, made, strict=True)
        }
        ProductAttributeValue.objects.bulk_create(values)
        ProductCategory.objects.bulk_create(
            ProductCategory(product=product, category=categories[one.category])
            for product, one in zip(self.products, made, strict=True)
        )
        ProductImage.objects.bulk_create(
            ProductImage(product=product, original=one.picture)
            for product, one in zip(self.products, made, strict=True)
        )
        self.stock = StockRecord.objects.bulk_create(
            StockRecord(
                product_id=one["id"],
                partner=partner if one["partner"] == partner.name else second,
                partner_sku=one["sku"],
                price=_money(self.pence[one["id"]]),
                num_in_stock=one["stock"],
                low_stock_threshold=5,
            )
            for one in facts
        )
        for record, one in zip(self.stock, facts, strict=True):
            one["stock_id"] = record.pk
        StockAlert.objects.bulk_create(
            StockAlert(stockrecord=record, threshold=5)
            for record in self.stock
            if record.num_in_stock < 5
        )
        for product in self.products:
            product.date_created = product.date_updated = self._day(400, 10)
        Product.objects.bulk_update(self.products, ["date_created", "date_updated"], 400)
        for alert in StockAlert.objects.all():
            StockAlert.objects.filter(pk=alert.pk).update(date_created=self._day(30, 1))
        self.known = {one["id"]: one for one in facts}
        self.facts["products"] = facts
        self.facts["categories"] = [
            {"id": one.pk, "name": one.name, "depth": one.depth, "url": one.get_absolute_url()}
            for one in Category.objects.all()
        ]

    def _address(self, user: Any, town: tuple[str, str] | None = None) -> dict[str, Any]:
        name, district = town or self.rng.choice(self.words.towns)
        letters = "".join(self.rng.choices("ABDEFGHJLNPQRSTUWXYZ", k=2))
        return {
            "first_name": user.first_name,
            "last_name": user.last_name,
            "line1": f"{self.rng.randint(1, 98)} {self.rng.choice(self.words.streets)}",
            "line4": name,
            "postcode": f"{district}{letters}",
            "country": self.country,
        }

    def _addresses(self) -> None:
        from oscar.apps.address.models import Country, UserAddress

        names = ("GB", "United Kingdom"), ("IE", "Ireland"), ("FR", "France"), ("DE", "Germany")
        countries = Country.objects.bulk_create(
            Country(
                iso_3166_1_a2=code,
                printable_name=name,
                name=name,
                is_shipping_country=True,
                display_order=int(code == "GB"),
            )
            for code, name in names
        )
        self.country = countries[0]
        towns = self.rng.sample(self.words.towns, 4)
        self.homes = [self._address(user) for user in self.users]
        self.homes[0] = self._address(self.user, towns[0])
        for user, home in zip(self.users, self.homes, strict=True):
            address = UserAddress(user=user, **home)
            address.is_default_for_shipping = address.is_default_for_billing = True
            address.save()
        for number, town in enumerate(towns[1:]):
            other = self.user if number else self.users[5]
            UserAddress(user=self.user, **self._address(other, town)).save()
        self.facts["addresses"] = list(
            UserAddress.objects.filter(user=self.user).values(
                "id", "first_name", "last_name", "line1", "line4", "postcode"
            )
        )

    def _offers(self) -> None:
        from oscar.apps.catalogue.models import Category
        from oscar.apps.offer.models import Benefit, Condition, ConditionalOffer, Range
        from oscar.apps.voucher.models import Voucher

        ranges = {"Everything": Range.objects.create(name="Everything", includes_all_products=True)}
        for name in ("Candles", "Bedding"):
            ranges[name] = Range.objects.create(name=name, is_public=True)
            ranges[name].included_categories.add(Category.objects.get(name=name))
        picks = ranges["Staff picks"] = Range.objects.create(name="Staff picks", is_public=True)
        self.picks = self.rng.sample(self.products, 8)
        for product in self.picks:
            picks.add_product(product)
        for number, row in enumerate(self.words.offers):
            name, text, range_name, condition, least, benefit, value = row
            chosen = ranges[range_name]
            ConditionalOffer.objects.create(
                name=name,
                description=text,
                priority=9 - number,
                condition=Condition.objects.create(range=chosen, type=condition, value=least),
                benefit=Benefit.objects.create(
                    range=None if benefit.startswith("Shipping") else chosen,
                    type=benefit,
                    value=value,
                ),
            )
        for name, code, usage, benefit, value, first, last, least in self.words.vouchers:
            offer = ConditionalOffer.objects.create(
                name=f"Offer for voucher {name}",
                offer_type="Voucher",
                priority=10,  # Before the offers, which would use up the basket's lines.
                condition=Condition.objects.create(
                    range=ranges["Everything"],
                    type="Value" if least else "Count",
                    value=least or 1,
                ),
                benefit=Benefit.objects.create(
                    range=ranges["Everything"], type=benefit, value=value
                ),
            )
            Voucher.objects.create(
                name=name,
                code=code,
                usage=usage,
                start_datetime=NOW + timedelta(days=first),
                end_datetime=NOW + timedelta(days=last),
                num_basket_additions=self.rng.randint(5, 60),
                num_orders=self.rng.randint(0, 5) if first < 0 else 0,
            ).offers.add(offer)
        self.facts["picks"] = [one.pk for one in self.picks]
        self.facts["ranges"] = {name: one.pk for name, one in ranges.items()}
        self.facts["offers"] = list(ConditionalOffer.objects.values("id", "name", "offer_type"))
        self.facts["vouchers"] = [
            {"id": one.pk, "name": one.name, "code": one.code, "usage": one.usage}
            | {"active": one.is_active(), "benefit": row[3], "value": row[4], "least": row[7]}
            | {"used": one.num_orders, "ends": f"{one.end_datetime:%Y-%m-%d}"}
            for row in self.words.vouchers
            for one in [Voucher.objects.get(code=row[1])]
        ]

    def _orders(self) -> None:
        from django.contrib.sites.models import Site
        from oscar.apps.basket.models import Basket
        from oscar.apps.communication.models import Email
        from oscar.apps.order.models import (
            BillingAddress,
            Line,
            LinePrice,
            Order,
            OrderNote,
            OrderStatusChange,
            ShippingAddress,
        )

        owners = [self.user] * 11
        owners += [user for user in self.users[2:] for _ in range(self.rng.randint(2, 7))]
        self.rng.shuffle(owners)
        dates = sorted(self._day(420, 1) for _ in owners)
        site = Site.objects.get(pk=1)
        self.facts["orders"] = []
        changes, notes, emails = [], [], []
        unused = self.rng.sample(self.words.notes, len(self.words.notes))
        for basket, (user, date) in enumerate(zip(owners, dates, strict=True), 1):
            number = str(100000 + basket)
            # The basket that became the order: the number of the next order counts on it.
            Basket.objects.create(pk=basket, owner=user, status="Submitted", date_submitted=date)
            age = (NOW - date).days
            status = self.rng.choice(
                ("Pending", "Pending", "Being processed", "Cancelled")
                if age < 8
                else ("Being processed", "Shipped", "Shipped", "Pending")
                if age < 25
                else ("Complete", "Complete", "Complete", "Complete", "Returned", "Cancelled")
            )
            home = self.homes[self.users.index(user)]
            chosen = self.rng.sample(self.products, self.rng.choice((1, 1, 2, 2, 3, 4)))
            amounts = [self.rng.choice((1, 1, 1, 2, 2, 3, 4)) for _ in chosen]
            method, code, charge = self.rng.choice(
                (
                    ("Standard delivery", "standard", 495),
                    ("Standard delivery", "standard", 495),
                    ("Express delivery", "express", 990),
                    ("Collect from our shop", "pickup", 0),
                )
            )
            goods = sum(
                self.pence[p.pk] * amount for p, amount in zip(chosen, amounts, strict=True)
            )
            order = Order.objects.create(
                number=number,
                site=site,
                basket_id=basket,
                user=user,
                currency="GBP",
                billing_address=BillingAddress.objects.create(**home),
                shipping_address=ShippingAddress.objects.create(**home),
                shipping_method=method,
                shipping_code=code,
                shipping_incl_tax=_money(charge),
                shipping_excl_tax=_money(charge),
                total_incl_tax=_money(goods + charge),
                total_excl_tax=_money(goods + charge),
                status=status,
                date_placed=date,
                analytics_tracked=True,
            )
            lines = []
            for product, amount in zip(chosen, amounts, strict=True):
                each, known = _money(self.pence[product.pk]), self.known[product.pk]
                line = Line.objects.create(
                    order=order,
                    partner=self.stock[product.pk - self.products[0].pk].partner,
                    partner_name=known["partner"],
                    partner_sku=known["sku"],
                    stockrecord_id=known["stock_id"],
                    product=product,
                    title=product.title,
                    upc=product.upc,
                    quantity=amount,
                    line_price_incl_tax=each * amount,
                    line_price_excl_tax=each * amount,
                    line_price_before_discounts_incl_tax=each * amount,
                    line_price_before_discounts_excl_tax=each * amount,
                    unit_price_incl_tax=each,
                    unit_price_excl_tax=each,
                    status=status,
                    num_allocated=0,
                )
                LinePrice.objects.create(
                    order=order,
                    line=line,
                    quantity=amount,
                    price_incl_tax=each,
                    price_excl_tax=each,
                )
                lines.append(
                    {"id": line.pk, "product": product.pk, "quantity": amount}
                    | {"title": product.title, "price": self.pence[product.pk] / 100}
                )
            if status != "Pending":
                changes.append((order, "Pending", status, min(later(self.rng, date, 4), NOW)))
            noted = bool(unused) and self.rng.random() < 0.12
            if noted:
                notes.append((order, unused.pop(), min(later(self.rng, date, 2), NOW)))
            self.ordered[order.pk] = date
            if user == self.user:
                emails.append((order, date))
            self.facts["orders"].append(
                {
                    "id": order.pk,
                    "number": number,
                    "user": user.username,
                    "status": status,
                    "date": f"{date:%Y-%m-%d}",
                    "total": (goods + charge) / 100,
                    "shipping": method,
                    "lines": lines,
                    "town": home["line4"],
                    "address": order.shipping_address_id,
                    "note": notes[-1][1] if noted else "",
                }
            )
        # Everybody's basket exists, so that looking at a page adds nothing.
        Basket.objects.bulk_create(Basket(owner=user) for user in self.users)
        for order, old, new, when in changes:
            change = OrderStatusChange.objects.create(order=order, old_status=old, new_status=new)
            OrderStatusChange.objects.filter(pk=change.pk).update(date_created=when)
        for order, text, when in notes:
            note = OrderNote.objects.create(
                order=order, user=self.staff, note_type="Info", message=text
            )
            OrderNote.objects.filter(pk=note.pk).update(date_created=when, date_updated=when)
        for order, when in emails:
            text = f"Thank you for your order. The total is £{order.total_incl_tax:.2f}."
            email = Email.objects.create(
                user=self.user,
                email=self.user.email,
                subject=f"Confirmation of order {order.number}",
                body_text=text,
                body_html=f"<p>{text}</p>",
            )
            Email.objects.filter(pk=email.pk).update(date_sent=when)

    def _reviews(self) -> None:
        from oscar.apps.catalogue.reviews.models import ProductReview

        self.facts["reviews"] = []
        favourites, pairs = set(), []
        for category, rows in self.words.reviews.items():
            sold = [p for p in self.products if self.known[p.pk]["category"] == category]
            liked = self.rng.sample(sold, 6)
            for row in rows:
                fit = [p for p in sold if len(row) == 3 or f" {row[3]} " in f"{p.title} "]
                if fit:
                    product = self.rng.choice([p for p in fit if p in liked] or fit)
                    pairs.append((product, row))
                    favourites.add(product)
        self.rng.shuffle(pairs)
        decks: list[list[str]] = [[], []]
        for number, (product, (score, title, body, *_)) in enumerate(pairs):
            # A name comes again only after all the others have been used.
            for deck, names in zip(decks, self.words.writers, strict=True):
                if not deck:
                    deck += self.rng.sample(names, len(names))
            (*_, first), last_names = decks
            at = next((n for n, one in enumerate(last_names) if one[:3] != first[:3]), 0)
            writer = f"{decks[0].pop()} {last_names.pop(at)}"
            body = voices.say(self.rng.randrange(len(self.people)), body)
            # The last ones wait for the staff.
            waits = number >= len(pairs) - 14
            date = self._day(6, 1) if waits else self._day(380, 8)
            while (
                not waits
                and self.known[product.pk]["department"] == "Outdoor"
                and not 4 <= date.month <= 10
            ):
                date = self._day(380, 8)
            review = ProductReview(
                product=product, name=writer, score=score, title=title, body=body
            )
            review.email = f"{writer.lower().replace(' ', '.')}@postbox.test"
            review.status = 0 if waits else 1
            ProductReview.objects.bulk_create([review])
            ProductReview.objects.filter(pk=review.pk).update(date_created=date)
            self.facts["reviews"].append(
                {
                    "id": review.pk,
                    "product": product.pk,
                    "by": writer,
                    "score": score,
                    "title": title,
                    "date": f"{date:%Y-%m-%d}",
                    "waits": waits,
                }
            )
        for product in sorted(favourites, key=lambda one: one.pk):
            product.update_rating()
            known = self.known[product.pk]
            scores = [
                one["score"]
                for one in self.facts["reviews"]
                if one["product"] == product.pk and not one["waits"]
            ]
            known["reviews"] = len(scores)
            known["rating"] = round(sum(scores) / len(scores), 4) if scores else 0.0

    def _records(self) -> None:
        """Count who ordered what, for the reports."""
        from oscar.apps.analytics.models import ProductRecord, UserRecord

        placed: dict[str, list[Any]] = {}
        sold: dict[int, int] = {}
        for order in self.facts["orders"]:
            placed.setdefault(order["user"], []).append(order)
            for line in order["lines"]:
                sold[line["product"]] = sold.get(line["product"], 0) + line["quantity"]
        UserRecord.objects.bulk_create(
            UserRecord(
                user=user,
                num_orders=len(orders),
                num_order_lines=sum(len(one["lines"]) for one in orders),
                num_order_items=sum(line["quantity"] for one in orders for line in one["lines"]),
                total_spent=Decimal(str(round(sum(one["total"] for one in orders), 2))),
                date_last_order=orders[-1]["date"] + "T12:00:00Z",
                num_product_views=self.rng.randint(20, 400),
                num_basket_additions=self.rng.randint(5, 40),
            )
            for user in self.users
            for orders in [placed.get(user.username)]
            if orders
        )
        records = [
            ProductRecord(
                product=product,
                num_purchases=sold.get(product.pk, 0),
                num_views=self.rng.randint(30, 900),
                num_basket_additions=sold.get(product.pk, 0) + self.rng.randint(0, 15),
            )
            for product in self.products
        ]
        ProductRecord.objects.bulk_create(records)
        self.facts["bestsellers"] = [
            {"product": one.product_id, "views": one.num_views}
            for one in ProductRecord.objects.all()
        ]

    def _account(self) -> None:
        """Fill the basket, wish lists, alerts and messages of the user."""
        from oscar.apps.basket.models import Basket
        from oscar.apps.communication.models import Notification
        from oscar.apps.customer.models import ProductAlert
        from oscar.apps.partner.strategy import Selector
        from oscar.apps.wishlists.models import WishList

        # Nothing that an offer makes cheaper: the small basket does not say why.
        sold = [
            p
            for p in self.products
            if self.known[p.pk]["stock"] > 20
            and self.known[p.pk]["category"] not in ("Bedding", "Candles")
        ]
        chosen = self.rng.sample(sold, 12)
        basket = Basket.objects.get(owner=self.user, status="Open")
        basket.strategy = Selector().strategy(user=self.user)
        for product in chosen[:3]:
            basket.add_product(product, self.rng.randint(1, 3))
        self.facts["basket"] = {
            "id": basket.pk,
            "lines": [
                {"id": line.pk, "product": line.product_id, "quantity": line.quantity}
                for line in basket.lines.all()
            ],
        }
        self.facts["wishlists"] = []
        for name, part in (("Birthday ideas", chosen[3:7]), ("New flat", chosen[7:12])):
            key = hashlib.sha256(name.encode()).hexdigest()[:6]
            wishes = WishList.objects.create(owner=self.user, name=name)
            for product in part:
                wishes.add(product)
            day = self._day(90, 20)
            WishList.objects.filter(pk=wishes.pk).update(date_created=day, key=key)
            self.facts["wishlists"].append(
                {
                    "id": wishes.pk,
                    "name": name,
                    "key": key,
                    "lines": [
                        {"id": line.pk, "product": line.product_id, "quantity": line.quantity}
                        for line in wishes.lines.all()
                    ],
                }
            )
        empty = [p for p in self.products if not self.known[p.pk]["stock"]]
        self.facts["alerts"] = []
        for user in (self.user, self.user, *self.users[6:12]):
            product = self.rng.choice(empty)
            if ProductAlert.objects.filter(user=user, product=product).exists():
                continue
            alert = ProductAlert.objects.create(user=user, product=product, email=user.email)
            ProductAlert.objects.filter(pk=alert.pk).update(date_created=self._day(40, 2))
            self.facts["alerts"].append(
                {"id": alert.pk, "product": product.pk, "user": user.username}
            )
        self.facts["notifications"] = []
        sent = [one for one in self.facts["orders"] if one["user"] == self.user.username]
        messages = {
            subject: (moment(self.rng, first, first + timedelta(days=6)), body)
            for subject, days, body in self.words.messages
            for first in [NOW.date() - timedelta(days=days)]
        }
        for one in sent[-3:]:
            body = (
                "Thank you! We are packing it in Leeds. You can follow it under Order History, and "
                "change the address until it has left us."
            )
            messages[f"We have received order {one['number']}"] = self.ordered[one["id"]], body
        for subject, (date, body) in messages.items():
            note = Notification.objects.create(
                recipient=self.user,
                subject=subject,
                body=f"Hello {self.user.first_name},\n\n{body}",
            )
            day = date.date()
            seen = evening(self.rng, day + timedelta(days=1), day + timedelta(days=3))
            read = self.rng.random() < 0.6 and seen < NOW
            Notification.objects.filter(pk=note.pk).update(
                date_sent=date, date_read=seen if read else None
            )
            self.facts["notifications"].append({"id": note.pk, "subject": subject, "read": read})
