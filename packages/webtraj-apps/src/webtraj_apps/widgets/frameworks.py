"""Small applications in frameworks, and their component libraries."""

from __future__ import annotations

import random
from typing import Final

from webtraj.environments import actions as a
from webtraj.environments.browser.oracles import act, check, click, fill, press, select
from webtraj.environments.local_server import Request, Response
from webtraj_apps.tasks import join_names
from webtraj_apps.widgets.environment import Goal, times, widget


@widget(state="state.map(task => [task.text, task.done])")
def react(rng: random.Random) -> Goal:
    """A list of tasks in React."""
    text = rng.choice(("Run", "Sing", "Bake", "Paint"))
    done = rng.randrange(2)
    return Goal(
        f'Add the task "{text}", and tick "{("Read", "Rest")[done]}".',
        [["Read", done == 0], ["Rest", done == 1], [text, False]],
        fill("#root form input", text),
        click("#root form button"),
        check(f"#root li:nth-child({done + 1}) input"),
    )


@widget(state="[app.fruits.map(fruit => fruit.count), app.delivery]")
def vue(rng: random.Random) -> Goal:
    """Counters in Vue."""
    pears, delivery = rng.randint(2, 4), rng.choice(("Post", "Courier"))
    return Goal(
        f"Order {pears} pears and no other fruit, by {delivery.lower()}.",
        [[0, pears, 0], delivery],
        click("[aria-label='Fewer apples']"),
        times(pears - 1, click("[aria-label='More pears']")),
        click("[aria-label='Fewer plums']"),
        select("#app select", delivery),
    )


_NAMES: Final = (
    "Ada Byron",
    "Alan Kay",
    "Grace Hopper",
    "Hedy Lamarr",
    "Ivan Petrov",
    "Joan Clarke",
)


def _members(request: Request) -> Response:
    """Answer a part of a page."""
    if "invite" in request.query:
        return Response(body=request.query["invite"].encode())
    text = request.query.get("q", "").lower()
    rows = [
        f'<li>{name} <button hx-get="/api/members?invite={name.replace(" ", "%20")}" '
        f'hx-target="#invited">Invite {name.split()[0]}</button></li>'
        for name in _NAMES
        if text in name.lower()
    ]
    return Response(body="".join(rows).encode())


@widget(
    state="[document.querySelector('[name=q]').value, "
    "document.getElementById('invited').textContent]",
    answers=_members,
)
def htmx(rng: random.Random) -> Goal:
    """A search by parts of a page from the server."""
    first, last = rng.choice(_NAMES).split()
    return Goal(
        f'Search the members for "{last}", and invite {first}.',
        [last, f"{first} {last}"],
        fill("[name=q]", last),
        act(a.Wait(0.5)),
        click("#found button", f"Invite {first}"),
    )


@widget(state="[...Alpine.$data(document.getElementById('app')).towns]")
def alpine(rng: random.Random) -> Goal:
    """A list that is shown and hidden."""
    towns = rng.sample(("Basel", "Milan", "Genoa", "Nice"), 2)
    return Goal(
        f"Replace Paris by {towns[0]} and {towns[1]}, in this order.",
        towns,
        click("#app > button"),
        click("[aria-label='Remove Paris']"),
        [
            step
            for town in towns
            for step in (fill("#app input", town), press("#app input", "Enter"))
        ],
    )


@widget(state="given")
def preact(rng: random.Random) -> Goal:
    """One question after the other."""
    river, peak = rng.choice(("Nile", "Rhine", "Seine")), rng.choice(("Etna", "K2", "Everest"))
    return Goal(
        f"Answer that the {river} is the longest river and {peak} the highest peak.",
        [river, peak],
        click("#root button", river),
        click("#root button", peak),
    )


@widget(state="notes")
def mithril(rng: random.Random) -> Goal:
    """Pages of one document."""
    day, text = rng.choice(("Monday", "Tuesday", "Wednesday")), rng.choice(("Dentist", "Choir"))
    return Goal(
        f'Note "{text}" for {day}.',
        {day: text},
        click("#root nav a", day),
        fill("#root textarea", text),
    )


@widget(state="[order.name(), order.size()]")
def knockout(rng: random.Random) -> Goal:
    """A form that sums itself up."""
    name, size = rng.choice(("Emma", "Noah", "Priya")), rng.choice(("medium", "large"))
    return Goal(
        f"Order a {size} cup for {name}.",
        [name, size],
        fill("label input", name),
        check(f"input[value={size}]"),
    )


@widget(state="chosen")
def antd_cascader(rng: random.Random) -> Goal:
    """A list that opens another."""
    region, town = rng.choice(
        (("Asia", "Osaka"), ("Europe", "Porto"), ("Europe", "Turin"), ("America", "Lima"))
    )
    return Goal(
        f"Choose the branch in {town}, {region}.",
        [region, town],
        click(".ant-cascader input"),
        click(".ant-cascader-menu-item", region),
        click(".ant-cascader-menu-item", town),
    )


@widget(state="[...given].sort()")
def antd_transfer(rng: random.Random) -> Goal:
    """Two lists with arrows between them."""
    rights = sorted(rng.sample(("Delete", "Edit", "Export", "Print", "Read", "Share"), 2))
    return Goal(
        f"Give the rights to {join_names(rights).lower()}.",
        rights,
        [click(f".ant-transfer-list-content-item[title={one}]") for one in rights],
        click(".ant-transfer-operation button:not([disabled])"),
    )


@widget(state="group")
def mui_select(rng: random.Random) -> Goal:
    """A list that covers the page."""
    group = rng.choice(("Children", "Teenagers", "Adults", "Seniors"))
    return Goal(
        f"Choose the group of {group.lower()}.",
        group,
        click("[role=combobox]"),
        click("[role=option]", group),
    )


@widget(state="sent")
def mui_rating(rng: random.Random) -> Goal:
    """Stars that are hidden radio buttons."""
    stars, text = rng.randint(1, 5), rng.choice(("Nice", "Loud", "Far", "Cheap"))
    return Goal(
        f'Give {stars} star{"s" if stars > 1 else ""} with the comment "{text}", and send it.',
        [stars, text],
        check(f"input[name=stars][value='{stars}']"),
        fill("input[type=text]", text),
        click("button", "Send"),
    )


@widget(state="applied?.slice().sort()")
def react_bootstrap(rng: random.Random) -> Goal:
    """Switches in a panel at the side."""
    chosen = sorted(rng.sample(("New", "On sale", "In stock", "Vegan"), 2))
    return Goal(
        f'Filter by "{chosen[0]}" and "{chosen[1]}".',
        chosen,
        click("#root button"),
        [check(f"[id='{one}']") for one in chosen],
        click(".offcanvas button", "Apply"),
    )


@widget(state="[app.room, app.people, app.lunch]")
def element_plus(rng: random.Random) -> Goal:
    """A list, a number and a switch in Vue."""
    room, people = rng.choice(("Amber", "Coral", "Ivory", "Onyx")), rng.randint(3, 5)
    return Goal(
        f"Book the room {room} for {people} people, with lunch.",
        [room, people, True],
        click(".el-select__wrapper"),
        click(".el-select-dropdown__item", room),
        times(people - 2, click(".el-input-number__increase")),
        click(".el-switch__core"),
    )


@widget(state="[app.plan, app.country]")
def vuetify(rng: random.Random) -> Goal:
    """Radio buttons and completions in Material Design."""
    plan = rng.choice(("Basic", "Family", "Premium"))
    country = rng.choice(("Austria", "Belgium", "Croatia", "Denmark", "Estonia"))
    return Goal(
        f'Subscribe to the plan "{plan}" in {country}.',
        [plan, country],
        check(f"input[type=radio][value={plan}]"),
        fill(".v-autocomplete input", country[:3]),
        click(".v-list-item", country),
    )


@widget(state="[[...app.chosen].sort(), app.shuffle]")
def quasar(rng: random.Random) -> Goal:
    """Boxes and a switch that are no inputs."""
    chosen = sorted(rng.sample(("Blues", "Folk", "Jazz", "Soul"), 2))
    return Goal(
        f"Play {join_names(chosen).lower()}, shuffled.",
        [chosen, True],
        [check(f".q-checkbox[aria-label={one}]") for one in chosen],
        check(".q-toggle"),
    )


@widget(state="[app.count, app.kind, app.day]")
def vant(rng: random.Random) -> Goal:
    """Widgets for phones."""
    count, kind = rng.randint(2, 4), rng.choice(("single", "return"))
    day = rng.choice(("Friday", "Saturday", "Sunday"))
    return Goal(
        f"Buy {count} {kind} tickets for {day}.",
        [count, kind, day],
        times(count - 1, click(".van-stepper__plus")),
        click(".van-radio", kind.capitalize()),
        click(".van-cell"),
        click(".van-action-sheet__item", day),
    )


@widget(state="[...document.getElementById('tea').value].sort()")
def shoelace_select(rng: random.Random) -> Goal:
    """A list in a web component."""
    teas = sorted(rng.sample(("assam", "ceylon", "mint", "rooibos"), 2))
    return Goal(
        f"Order {join_names([tea.capitalize() for tea in teas])}.",
        teas,
        click("#tea"),
        [click(f"sl-option[value={tea}]") for tea in teas],
    )


@widget(state="document.querySelector('sl-tree-item[selected]')?.textContent")
def shoelace_tree(rng: random.Random) -> Goal:
    """A tree of web components."""
    number, kind, animal = rng.choice(
        ((1, "birds", "Owl"), (2, "fish", "Carp"), (2, "fish", "Pike"), (3, "mammals", "Vole"))
    )
    return Goal(
        f"Find the {animal.lower()} among the {kind}, and select it.",
        animal,
        click(".tree-item__expand-button", inside=(f"sl-tree > sl-tree-item:nth-child({number})",)),
        click("sl-tree-item sl-tree-item", animal),
    )


@widget(state="plan")
def shoelace_dialog(rng: random.Random) -> Goal:
    """A dialog of web components."""
    beds, pond = rng.randint(3, 7), rng.random() < 0.5
    return Goal(
        f"Plan a garden with {beds} beds and {'a' if pond else 'no'} pond.",
        [beds, pond, 0],
        click("#open"),
        fill("input", str(beds), inside=("#beds",)),
        times(int(pond), click("#pond")),
        click("#done"),
    )


@widget(
    state="[document.getElementById('paper').value, document.getElementById('colour').checked, "
    "document.getElementById('copies').value]"
)
def fluent(rng: random.Random) -> Goal:
    """A form of web components."""
    paper, copies = rng.choice(("A4", "Letter")), rng.randint(2, 5)
    return Goal(
        f"Print {copies} copies in colour, on paper of the size {paper}.",
        [paper, True, str(copies)],
        click("#paper"),
        click("fluent-option", paper),
        click("#colour"),
        fill("input", str(copies), inside=("#copies",)),
    )
