"""Drag and drop, files, canvases and maps."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator
from typing import Final

from webtraj.environments import actions as a
from webtraj.environments.browser.oracles import (
    OracleView,
    Step,
    act,
    click,
    click_inside,
    drag,
    upload,
)
from webtraj.environments.local_server import Request, Response, json_answer
from webtraj_apps.tasks import join_names
from webtraj_apps.widgets.environment import Goal, drag_by, drag_to, times, widget

_COMPOSERS: Final = ("Bach", "Chopin", "Holst", "Liszt", "Verdi")


@widget(state="sortable.toArray()")
def sortable(rng: random.Random) -> Goal:
    """A list that is sorted by HTML's drag and drop."""
    who = rng.choice(_COMPOSERS[2:])
    return Goal(
        f"{who} is the best: move that name to the top of the list.",
        [who, *(one for one in _COMPOSERS if one != who)],
        drag("#ranking li", who, "#ranking li"),
    )


@widget(state="[red.toArray(), blue.toArray()].map(team => team.sort())")
def sortable_groups(rng: random.Random) -> Goal:
    """Two lists that share their items."""
    who = rng.choice(("Ann", "Bob", "Cat"))
    return Goal(
        f"{who} joins the blue team.",
        [[one for one in ("Ann", "Bob", "Cat") if one != who], sorted([who, "Deb"])],
        drag("#red li", who, "#blue [data-id=Deb]"),
    )


@widget(state="done")
def dragula(rng: random.Random) -> Goal:
    """Two lists, by the mouse."""
    chore = rng.choice(("Dust the shelves", "Feed the cat", "Iron the shirts"))
    return Goal(
        f'"{chore}" is done. Move it there.',
        [chore],
        drag_to("#todo p", "#done", text=chore),
    )


@widget(state="basket")
def jquery_ui_droppable(rng: random.Random) -> Goal:
    """Things for a basket."""
    fruit = rng.sample(("Apple", "Pear", "Plum"), 2)
    return Goal(
        f"Put the {join_names(fruit).lower()} into the basket, in this order.",
        fruit,
        [drag_to("#fruit span", "#basket", text=one) for one in fruit],
    )


@widget(state="$('#queue').sortable('toArray')")
def jquery_ui_sortable(rng: random.Random) -> Goal:
    """A list that is sorted by the mouse."""
    songs = ["anna", "help", "yesterday", "michelle"]
    song = rng.choice(songs[1:])
    return Goal(
        f'Play "{song.capitalize()}" first.',
        [f"song-{one}" for one in (song, *(one for one in songs if one != song))],
        drag_by(f"#song-{song}", 0, -38 * songs.index(song) - 10),
    )


@widget(state="grid.save(false).map(tile => [tile.id, tile.x ?? 0, tile.y ?? 0]).sort()")
def gridstack(rng: random.Random) -> Goal:
    """Tiles on a grid."""
    tile, other = rng.sample(("sales", "visits"), 2)
    return Goal(
        f'Move the tile "{tile.capitalize()}" down by two of its heights.',
        sorted([[tile, 0 if tile == "sales" else 3, 2], [other, 0 if other == "sales" else 3, 0]]),
        drag_by(f"[gs-id={tile}]", 0, 160),
    )


@widget(state="[Math.round(at.x / 60), Math.round(at.y / 60)]")
def interact(rng: random.Random) -> Goal:
    """A piece that snaps to a grid."""
    right, down = rng.randint(2, 7), rng.randint(1, 3)
    return Goal(
        f"Move the piece {right} fields to the right and {down} down. A field is as wide as it.",
        [right, down],
        drag_by("#piece", right * 60, down * 60),
    )


@widget(state="moved")
def jkanban(rng: random.Random) -> Goal:
    """Cards on a board."""
    card, title = rng.choice((("logo", "Draw the logo"), ("press", "Call the press")))
    board, name = rng.choice((("doing", "Doing"), ("done", "Done")))
    return Goal(
        f'Move the card "{title}" to "{name}".',
        [[card, board]],
        drag_to(f"[data-eid={card}]", f"[data-id={board}] .kanban-drag"),
    )


# Files.


def _answer_upload(request: Request) -> Response:
    """Answer an upload."""
    return json_answer({"files": [file.name for file in request.files]})


_NAMES: Final = ("invoice.txt", "report.txt", "letter.txt", "minutes.txt")


@widget(
    state="dropzone.files.filter(file => file.status === 'success').map(file => file.name)",
    answers=_answer_upload,
)
def dropzone(rng: random.Random) -> Goal:
    """Files that are sent at once."""
    name = rng.choice(_NAMES)
    return Goal(
        f"Attach the file {name}.",
        [name],
        upload("input[type=file]", name),
        act(a.Wait(0.5)),
    )


@widget(state="pond.getFiles().map(file => file.filename)")
def filepond(rng: random.Random) -> Goal:
    """A file that stays with the form."""
    name = rng.choice(_NAMES)
    return Goal(
        f"Choose the file {name}.",
        [name],
        upload("input[type=file]", name),
        act(a.Wait(0.5)),
    )


@widget(state="uppy.getFiles().map(file => file.name)")
def uppy(rng: random.Random) -> Goal:
    """Files in a dashboard."""
    name = rng.choice(_NAMES)
    return Goal(f"Add the file {name}.", [name], upload(".uppy-Dashboard-browse", name))


# Canvases.


@widget(state="pad.toData().length")
def signature_pad(rng: random.Random) -> Goal:
    """A line on a canvas."""
    strokes = rng.randint(2, 4)
    return Goal(
        f"Sign with {strokes} separate strokes.",
        strokes,
        [drag_by("#pad", 40 + 20 * stroke, 30 - 20 * stroke) for stroke in range(strokes)],
    )


@widget(state="[round, square].map(one => Math.round(one.x() / 50))")
def konva(rng: random.Random) -> Goal:
    """Shapes on a canvas."""
    seats = rng.randint(4, 8)
    is_round = rng.random() < 0.5
    return Goal(
        f"Move the {'round' if is_round else 'square'} table to the right by {seats * 50} pixels.",
        [2 + seats, 1] if is_round else [2, 1 + seats],
        _drag_on("#plan", 100, 80 if is_round else 220, seats * 50),
    )


def _drag_on(selector: str, x: float, y: float, dx: float) -> Step:
    async def step(page: OracleView) -> AsyncIterator[a.Action]:
        left, top, _, _ = (await page.one(selector)).box
        yield a.DragAt(
            ((left + x, top + y), (left + x + dx / 2, top + y), (left + x + dx, top + y))
        )

    return step


@widget(state="canvas.getActiveObject()?.name")
def fabric(rng: random.Random) -> Goal:
    """A selection on a canvas."""
    name, x = rng.choice((("square", 90), ("circle", 290), ("triangle", 490)))
    return Goal(f"Select the {name}.", name, click_inside(".upper-canvas", x, 150))


@widget(state="[cropper.getData().rotate, cropper.getData().scaleX]")
def cropper(rng: random.Random) -> Goal:
    """Buttons for a picture."""
    side, mirrored = rng.choice(("left", "right")), rng.random() < 0.5
    turned = "Turn the portrait by a quarter to the " + side
    return Goal(
        f"{turned}{' and mirror it' if mirrored else ''}.",
        [-90 if side == "left" else 90, -1 if mirrored else 1],
        click(f"#{side}"),
        times(int(mirrored), click("#mirror")),
    )


@widget(state="[cy.$(':selected').map(node => node.id())].flat()")
def cytoscape(rng: random.Random) -> Goal:
    """A node of a graph."""
    at = rng.randrange(3)
    return Goal(
        f"Select the node {('mail', 'web', 'files')[at]}.",
        [("mail", "web", "files")[at]],
        click_inside("#network", 100 + 200 * at, 120),
    )


@widget(state="shown")
def chart(rng: random.Random) -> Goal:
    """A bar of a chart."""
    at = rng.randrange(5)
    return Goal(
        f"Click on the bar of {2022 + at}.",
        2022 + at,
        click_inside("#chart", 87 + 132 * at, 290),
    )


# Maps.


@widget(state="opened")
def leaflet(rng: random.Random) -> Goal:
    """Markers on a map."""
    place = rng.choice(("Beachy Head", "Bell", "Eddystone", "Muckle Flugga", "Skerries"))
    return Goal(
        f"Open what the map says of the lighthouse {place}.",
        place,
        click(f".leaflet-marker-icon[title='{place}']"),
    )


@widget(state="[map.getZoom(), [...on].sort()]")
def leaflet_zoom(rng: random.Random) -> Goal:
    """Layers of a map."""
    number, steps = rng.randint(1, 2), rng.randint(1, 3)
    layer = ("Harbours", "Beaches")[number - 1]
    times_in = ("once", "twice", "three times")[steps - 1]
    return Goal(
        f"Show the {layer.lower()}, and zoom in {times_in}.",
        [6 + steps, [layer]],
        click(f".leaflet-control-layers-overlays label:nth-child({number}) input"),
        times(steps, click(".leaflet-control-zoom-in")),
    )


@widget(state="view.getZoom()")
def openlayers(rng: random.Random) -> Goal:
    """A map that zooms."""
    steps = rng.choice((-2, -1, 1, 2))
    return Goal(
        f"Zoom {'in' if steps > 0 else 'out'} by {abs(steps)}.",
        3 + steps,
        [
            step
            for _ in range(abs(steps))
            for step in (click(f".ol-zoom-{'in' if steps > 0 else 'out'}"), act(a.Wait(0.6)))
        ],
    )
