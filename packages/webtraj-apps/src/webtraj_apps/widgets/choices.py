"""Comboboxes, multiple selections, tags and completions."""

from __future__ import annotations

import random
from typing import Final

from webtraj.environments.browser.oracles import click, fill
from webtraj_apps.tasks import join_names
from webtraj_apps.widgets.environment import Goal, key, type_text, widget

CITIES: Final = (
    "Amsterdam",
    "Athens",
    "Berlin",
    "Brussels",
    "Dublin",
    "Helsinki",
    "Lisbon",
    "Madrid",
    "Oslo",
    "Rome",
    "Vienna",
    "Warsaw",
)


@widget(state="select.getValue(true)")
def choices(rng: random.Random) -> Goal:
    """A list that opens."""
    city = rng.choice(CITIES)
    return Goal(
        f"The new colleague works in {city}.",
        city,
        click(".choices"),
        click(".choices__item--choice", city),
    )


@widget(state="select.getValue(true).sort()")
def choices_multiple(rng: random.Random) -> Goal:
    """Tags, one of which goes."""
    chosen = rng.sample(("Arabic", "French", "German", "Hindi", "Polish", "Spanish"), 2)
    return Goal(
        f"You speak {join_names(chosen)}, and no other language.",
        sorted(chosen),
        click(".choices__button"),
        [
            step
            for one in chosen
            for step in (click(".choices__input--cloned"), click(".choices__item--choice", one))
        ],
    )


@widget(state="select.getValue()")
def tom_select(rng: random.Random) -> Goal:
    """A list to search."""
    city = rng.choice(CITIES)
    return Goal(
        f"Fly to {city}.",
        city,
        click(".ts-control"),
        type_text(city[:3]),
        click(".ts-dropdown .option", city),
    )


@widget(state="[...select.items].sort()")
def tom_select_tags(rng: random.Random) -> Goal:
    """Tags that are made by typing."""
    labels = rng.sample(("urgent", "printer", "login", "billing", "question"), 2)
    return Goal(
        f'Give the ticket the labels "{labels[0]}" and "{labels[1]}" beside "bug".',
        sorted(["bug", *labels]),
        click(".ts-control input"),
        [step for one in labels for step in (type_text(one), key("Enter"))],
    )


@widget(state="$('#to').val()")
def select2(rng: random.Random) -> Goal:
    """A list with a search field."""
    city = rng.choice(CITIES)
    return Goal(
        f"Ship the order to {city}.",
        city,
        click(".select2-selection"),
        fill(".select2-search__field", city[:3]),
        click(".select2-results__option", city),
    )


@widget(state="[...select.getSelected()].sort()")
def slim_select(rng: random.Random) -> Goal:
    """Several of a list that stays open."""
    toppings = ("Anchovies", "Artichokes", "Capers", "Ham", "Mushrooms", "Olives", "Spinach")
    chosen = rng.sample(toppings, 3)
    return Goal(
        f"Order a pizza with {join_names(chosen).lower()}.",
        sorted(chosen),
        click(".ss-main"),
        [click(".ss-content .ss-option", one) for one in chosen],
    )


@widget(state="document.querySelector('#city').value")
def virtual_select(rng: random.Random) -> Goal:
    """A long list with a search field."""
    place = f"{rng.choice(CITIES)} {rng.choice(('North', 'South', 'Centre'))}"
    return Goal(
        f"Your address is in {place}.",
        place,
        click(".vscomp-toggle-button"),
        fill(".vscomp-search-input", place),
        click(".vscomp-option", place),
    )


@widget(state="$('#artist')[0].selectize.getValue()")
def selectize(rng: random.Random) -> Goal:
    """Labels for values."""
    name, value = rng.choice(
        (
            ("Bela Bartok", "bb"),
            ("Clara Schumann", "cs"),
            ("Frederic Chopin", "fc"),
            ("Lili Boulanger", "lb"),
            ("Maurice Ravel", "mr"),
        )
    )
    return Goal(
        f"Play something by {name.split()[1]}.",
        value,
        click(".selectize-input"),
        click(".selectize-dropdown .option", name),
    )


@widget(state="chosen")
def autocomplete_js(rng: random.Random) -> Goal:
    """Completions of a field."""
    city = rng.choice(CITIES)
    return Goal(
        f"Show the timetable of {city}.",
        city,
        fill("#station", city[:3].lower()),
        click("#autoComplete_list_1 li", city),
    )


@widget(state="chosen")
def awesomplete(rng: random.Random) -> Goal:
    """Completions below a field."""
    language = rng.choice(("Clojure", "Elixir", "Haskell", "Julia", "OCaml", "Python", "Scala"))
    return Goal(
        f"Your favourite language is {language}. Choose it in the list that comes up.",
        language,
        click("#language"),
        type_text(language[:2]),
        click(".awesomplete li", language),
    )


@widget(state="tagify.value.map(tag => tag.value).sort()")
def tagify(rng: random.Random) -> Goal:
    """Tags in an editable line."""
    leaves = rng.choice(("Emma", "Noah", "Priya"))
    comes = rng.choice(("Amir", "Chloe", "Hugo", "Ines", "Kenji", "Zoe"))
    return Goal(
        f"{leaves} cannot come to dinner, but {comes} can. Mend the list of guests.",
        sorted({"Emma", "Noah", "Priya", comes} - {leaves}),
        click(f".tagify__tag[value={leaves}] .tagify__tag__removeBtn"),
        click(".tagify__input"),
        type_text(comes[:2]),
        click(".tagify__dropdown__item", comes),
    )


@widget(state="confirmed")
def accessible_autocomplete(rng: random.Random) -> Goal:
    """A combobox by the book."""
    country = rng.choice(("Austria", "Brazil", "Denmark", "Finland", "Greece", "Iceland", "Japan"))
    return Goal(
        f"You were born in {country}.",
        country,
        click("#country"),
        type_text(country[:4]),
        click(".autocomplete__option", country),
    )


@widget(state="$('#speed').val()")
def jquery_ui_selectmenu(rng: random.Random) -> Goal:
    """A button that is a list."""
    speed = rng.choice(("Slower", "Slow", "Fast", "Faster"))
    return Goal(
        f'Set the speed to "{speed}".',
        speed,
        click("#speed-button"),
        click("#speed-menu .ui-menu-item-wrapper", speed),
    )


@widget(state="noted")
def jquery_ui_autocomplete(rng: random.Random) -> Goal:
    """Completions after a pause."""
    bird = rng.choice(("Blackcap", "Bullfinch", "Kestrel", "Kingfisher", "Redwing", "Woodlark"))
    return Goal(
        f"You have seen a {bird.lower()}. Note it by choosing it from the list.",
        bird,
        fill("#bird", bird[:4].lower()),
        click(".ui-menu-item-wrapper", bird),
    )


@widget(state="selected")
def downshift(rng: random.Random) -> Goal:
    """A combobox in React."""
    book = rng.choice(("Dracula", "Emma", "Hamlet", "Macbeth", "Persuasion", "Ulysses", "Walden"))
    return Goal(
        f'Choose the book "{book}".',
        book,
        click("#root button"),
        click("#root li", book),
    )


@widget(state="[...root.chosen].sort()")
def vue_multiselect(rng: random.Random) -> Goal:
    """A multiple selection in Vue."""
    skills = ("Cooking", "Driving", "First aid", "Gardening", "Music", "Painting", "Teaching")
    chosen = rng.sample(skills, 2)
    return Goal(
        f"You are good at {join_names(chosen).lower()}. Choose these skills.",
        sorted(chosen),
        click(".multiselect"),
        [click(".multiselect__element", one) for one in chosen],
    )


@widget(state="[...select.value].sort()")
def treeselect(rng: random.Random) -> Goal:
    """A tree in a list."""
    chosen = rng.sample(("India", "Japan", "France", "Poland", "Spain", "Egypt", "Kenya"), 2)
    regions = {"Asia": "India Japan", "Europe": "France Poland Spain", "Africa": "Egypt Kenya"}
    order = [one for one in " ".join(regions.values()).split() if one in chosen]
    opened = [name for name, members in regions.items() if set(members.split()) & set(chosen)]
    arrow = ".treeselect-list__item[title={}] .treeselect-list__item-icon"
    return Goal(
        f"Subscribe to the news from {join_names(order)}.",
        sorted(one.lower() for one in order),
        click(".treeselect-input"),
        [click(arrow.format(name)) for name in opened],
        [click(f".treeselect-list__item[title={one}]") for one in order],
    )
