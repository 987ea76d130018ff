"""Menus, dialogs, messages and carousels."""

from __future__ import annotations

import random

from webtraj.environments import actions as a
from webtraj.environments.browser.oracles import act, check, click, fill, hover
from webtraj_apps.widgets.environment import Goal, drag_by, times, widget


@widget(state="[document.getElementById('name').textContent, modal._isShown]")
def bootstrap_modal(rng: random.Random) -> Goal:
    """A form in a dialog that fades in and out."""
    name = rng.choice(("Amazon", "Danube", "Ganges", "Thames", "Volga"))
    return Goal(
        f'Rename the room to "{name}".',
        [name, False],
        click("main > button", "Rename"),
        fill("#rename input", name),
        click("#rename button", "Save"),
    )


@widget(state="sorted")
def bootstrap_dropdown(rng: random.Random) -> Goal:
    """A menu that opens at a button."""
    order = rng.choice(("Name", "Size", "Oldest first", "Newest first"))
    return Goal(
        f'Sort the files by "{order}".',
        order,
        click(".dropdown-toggle"),
        click(".dropdown-item", order),
    )


@widget(state="['news', 'offers', 'codes'].map(id => document.getElementById(id).checked)")
def bootstrap_tabs(rng: random.Random) -> Goal:
    """Switches on tabs."""
    mail = rng.choice(("news", "offers"))
    name = {"news": "newsletter", "offers": "offers"}[mail]
    return Goal(
        f"Subscribe to the {name} by mail, and get codes by phone.",
        [mail == "news", mail == "offers", True],
        click("[role=tab]", "Mail"),
        check(f"#{mail}"),
        click("[role=tab]", "Safety"),
        check("#codes"),
    )


@widget(state="deleted")
def sweetalert2(rng: random.Random) -> Goal:
    """A question before something happens."""
    photo = rng.choice(("beach", "forest", "harbour"))
    return Goal(
        f"Delete {photo}.jpg.",
        [photo],
        click(f"[data-photo={photo}]"),
        click(".swal2-confirm"),
    )


@widget(state="rating")
def sweetalert2_input(rng: random.Random) -> Goal:
    """A choice in a dialog."""
    rating = rng.choice(("bad", "fair", "good", "great"))
    return Goal(
        f"It was {rating}. Say so.",
        rating,
        click("#rate"),
        click(f".swal2-radio input[value={rating}]"),
        click(".swal2-confirm"),
    )


@widget(state="answer")
def micromodal(rng: random.Random) -> Goal:
    """A dialog with two answers."""
    answer = rng.choice(("Accept", "Decline"))
    return Goal(
        f"Read the terms and {answer.lower()} them.",
        answer,
        click("[data-micromodal-trigger]"),
        click("#terms button", answer),
    )


@widget(state="ordered")
def a11y_dialog(rng: random.Random) -> Goal:
    """A dialog that counts when it is closed."""
    dish = rng.choice(("curry", "soup", "stew"))
    return Goal(
        f"Order {dish} for lunch.",
        dish,
        click("[data-a11y-dialog-show]"),
        check(f"[value={dish}]"),
        click("[data-a11y-dialog-hide]"),
    )


@widget(state="marked")
def tippy(rng: random.Random) -> Goal:
    """Tips that come when the mouse does."""
    at = rng.randrange(3)
    country = ("Chad", "Peru", "Fiji")[at]
    return Goal(
        f"Mark the flag of {country}.",
        country,
        [hover(f"[data-country={one}]") for one in ("Chad", "Peru", "Fiji")[: at + 1]],
        click(f"[data-country={country}]"),
    )


@widget(state="dismissed")
def notyf(rng: random.Random) -> Goal:
    """Messages that are dismissed."""
    part, kind = rng.choice((("pump", "success"), ("valve", "error")))
    return Goal(
        f"Test the {part}, and dismiss the message that comes.",
        [kind],
        click(f"[data-kind={kind}]"),
        act(a.Wait(0.6)),
        click(".notyf__dismiss-btn"),
    )


@widget(state="[[...archived], undone]")
def toastify(rng: random.Random) -> Goal:
    """A message with a way back."""
    kept, gone = rng.sample(("Ann", "Bill"), 2)
    return Goal(
        f"Archive both letters, then undo that for the one from {kept}.",
        [[gone], [kept]],
        [click("p button", f"Archive the letter from {one}") for one in (kept, gone)],
        act(a.Wait(0.6)),
        click(".toastify", f"Archived {kept}. Click to undo."),
    )


@widget(state="location.hash")
def metismenu(rng: random.Random) -> Goal:
    """A menu that folds."""
    part, page = rng.choice(
        (("Setup", "Unpack"), ("Setup", "Plug in"), ("Use", "Wash"), ("Use", "Dry"))
    )
    return Goal(
        f'Open the page "{page}" of the manual, under "{part}".',
        f"#{page.lower().replace(' ', '-')}",
        click("#menu > li > a", part),
        act(a.Wait(0.5)),
        click("#menu li li a", page),
    )


@widget(state="chosen")
def jquery_ui_menu(rng: random.Random) -> Goal:
    """A menu within a menu."""
    kind = rng.choice(("PDF", "Text", "Web page"))
    return Goal(
        f"Export as {kind}.",
        kind,
        click("#menu > li > div", "Export"),
        act(a.Wait(0.5)),
        click("#menu li li > div", kind),
    )


@widget(state="$('#questions').accordion('option', 'active')")
def jquery_ui_accordion(rng: random.Random) -> Goal:
    """Sections, one of which is open."""
    at = rng.randint(1, 3)
    title = ("Opening hours", "Parking", "Dogs", "Tickets")[at]
    return Goal(f'Show the answer on "{title}".', at, click(".ui-accordion-header", title))


@widget(
    state="[$('#more').dialog('isOpen'), Math.round($('#note').closest('.ui-dialog')"
    ".position().top / 50)]"
)
def jquery_ui_dialog(rng: random.Random) -> Goal:
    """Windows that are moved and closed."""
    down = rng.randint(3, 6)
    return Goal(
        f'Close "Another note", and move "A note" down by about {down * 50} pixels.',
        [False, 2 + down],
        click(".ui-dialog:has(#more) .ui-dialog-titlebar-close"),
        drag_by(".ui-dialog:has(#note) .ui-dialog-titlebar", 0, down * 50),
    )


@widget(state="tour.getActiveIndex()")
def driver(rng: random.Random) -> Goal:
    """A tour over a covered page."""
    at = rng.randint(1, 2)
    return Goal(
        f'Take the tour up to the step "{("News", "Search", "Help")[at]}".',
        at,
        click("#start"),
        times(at, click(".driver-popover-next-btn")),
    )


@widget(state="swiper.activeIndex")
def swiper(rng: random.Random) -> Goal:
    """Slides with arrows and dots."""
    at = rng.randint(1, 4)
    return Goal(
        f"Show the picture of the {('ash', 'beech', 'elm', 'oak', 'yew')[at]}.",
        at,
        click(f".swiper-pagination-bullet:nth-child({at + 1})"),
    )


@widget(state="splide.index")
def splide(rng: random.Random) -> Goal:
    """Slides with arrows."""
    at = rng.randint(1, 3)
    return Goal(
        f"Leaf to the recipe for {('bread', 'cake', 'jam', 'pie')[at]}.",
        at,
        times(at, click(".splide__arrow--next")),
    )


@widget(state="$('#posters').slick('slickCurrentSlide')")
def slick(rng: random.Random) -> Goal:
    """Slides that all are in the page."""
    at = rng.randint(1, 3)
    return Goal(
        f"Show the poster of {('Alien', 'Brazil', 'Casablanca', 'Diva')[at]}.",
        at,
        times(at, click(".slick-next")),
    )


@widget(state="embla.selectedScrollSnap()")
def embla(rng: random.Random) -> Goal:
    """Slides that are dragged."""
    at = rng.randint(1, 3)
    return Goal(
        f"Drag the cards until {('hearts', 'clubs', 'spades', 'diamonds')[at]} are shown.",
        at,
        [step for _ in range(at) for step in (drag_by("#cards", -200, 0), act(a.Wait(0.5)))],
    )
