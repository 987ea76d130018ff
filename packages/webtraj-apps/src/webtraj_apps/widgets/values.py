"""Sliders, colours, phone numbers and masked fields."""

from __future__ import annotations

import random

from webtraj.environments.browser.oracles import click, fill, press
from webtraj_apps.widgets.environment import Goal, drag_by, key, type_text, widget


@widget(state="slider.noUiSlider.get()")
def nouislider(rng: random.Random) -> Goal:
    """Two handles, one by keys and one by the mouse."""
    low, high = rng.randint(3, 8) * 10, rng.randint(12, 17) * 10
    return Goal(
        f"Show shoes from {low} to {high}.",
        [low, high],
        press(".noUi-handle-lower", " ".join(["ArrowRight"] * (low // 10 - 2))),
        drag_by(".noUi-handle-upper", (high - 180) * 3, 0),
    )


@widget(state="$('#size').data('ionRangeSlider').result.from")
def ion_rangeslider(rng: random.Random) -> Goal:
    """A slider that knows nothing of ARIA."""
    size = rng.choice((2, 7, 9, 14, 17))
    return Goal(
        f"Your team has {size} members.",
        size,
        click(".irs-line"),
        key(" ".join(["ArrowLeft" if size < 11 else "ArrowRight"] * abs(size - 11))),
    )


@widget(state="$('#volume').slider('value')")
def jquery_ui_slider(rng: random.Random) -> Goal:
    """A handle that is moved by keys."""
    value = rng.choice((20, 35, 60, 75, 90))
    arrow = "ArrowRight" if value > 50 else "ArrowLeft"
    return Goal(
        f"Set the volume to {value}.",
        value,
        press("#volume .ui-slider-handle", " ".join([arrow] * (abs(value - 50) // 5))),
    )


@widget(state="['#adults', '#children'].map(field => $(field).spinner('value'))")
def jquery_ui_spinner(rng: random.Random) -> Goal:
    """Two numbers that are counted up."""
    adults, children = rng.randint(3, 5), rng.randint(1, 4)
    return Goal(
        f"Buy tickets for {adults} adults and {children} child{'ren' if children > 1 else ''}.",
        [adults, children],
        press("#adults", " ".join(["ArrowUp"] * (adults - 2))),
        press("#children", " ".join(["ArrowUp"] * children)),
    )


@widget(state="Math.round(heat.value)")
def toolcool_range_slider(rng: random.Random) -> Goal:
    """A slider in a shadow root."""
    degrees = rng.choice((16, 18, 22, 24, 25))
    arrow = "ArrowRight" if degrees > 20 else "ArrowLeft"
    return Goal(
        f"Set the temperature to {degrees} degrees.",
        degrees,
        press(".pointer", " ".join([arrow] * abs(degrees - 20)), inside=("#heat",)),
    )


@widget(state="pickr.getSelectedColor()?.toHEXA().toString()")
def pickr(rng: random.Random) -> Goal:
    """A colour by its code."""
    name, colour = rng.choice(
        (("red", "#F44336"), ("purple", "#9C27B0"), ("green", "#8BC34A"), ("amber", "#FFC107"))
    )
    return Goal(
        f"Make the title bar {name}, which is {colour}, and save.",
        colour,
        click(".pcr-button"),
        fill(".pcr-app .pcr-result", colour),
        click(".pcr-app .pcr-save"),
    )


@widget(state="document.getElementById('wall').value")
def coloris(rng: random.Random) -> Goal:
    """A colour from a few."""
    colour = rng.choice(("#264653", "#2a9d8f", "#e9c46a", "#f4a261", "#e76f51"))
    return Goal(
        f"Paint the wall in {colour}, one of the offered colours.",
        colour,
        click("#wall"),
        click(".clr-swatches button", colour),
    )


@widget(state="chosen")
def vanilla_picker(rng: random.Random) -> Goal:
    """A colour in a popup."""
    colour = rng.choice(("#aa3355", "#22bb66", "#ddaa00", "#0077cc"))
    return Goal(
        f"Give the slides the background {colour}.",
        colour,
        click("#background"),
        fill(".picker_editor input", colour),
        click(".picker_done button"),
    )


@widget(state="Math.round(picker.color.value / 5) * 5")
def iro(rng: random.Random) -> Goal:
    """A slider that only drags."""
    value = rng.choice((25, 40, 60, 75))
    return Goal(
        f"Dim the lamp to about {value} %.",
        value,
        # The handle goes from 0 to 100 % over the slider's width less its height.
        drag_by(".IroHandle", (value - 100) / 100 * 264, 0),
    )


@widget(state="phone.getNumber()")
def intl_tel_input(rng: random.Random) -> Goal:
    """A phone number with its country."""
    country, code, prefix = rng.choice(
        (("Germany", "de", "+4930"), ("Spain", "es", "+3491"), ("Sweden", "se", "+468"))
    )
    number = f"{prefix[3:]}{rng.randint(2000000, 9999999)}"
    return Goal(
        f"Your phone number in {country} is {number}, without the country's code.",
        f"{prefix[:3]}{number}",
        click(".iti__selected-country"),
        click(f".iti__country[data-iso2='{code}'], .iti__country[data-country-code='{code}']"),
        click("#phone"),
        type_text(number),
    )


@widget(state="mask.unmaskedValue")
def imask(rng: random.Random) -> Goal:
    """A mask of letters and digits."""
    letters = "".join(rng.sample("ABCDEFGHKMNPRSTUVW", 2))
    digits = f"{rng.randint(100000, 999999)}"
    return Goal(
        f"Enter the order number {letters}-{digits[:4]}-{digits[4:]}.",
        f"{letters}{digits}",
        click("#order"),
        type_text(f"{letters.lower()}{digits}"),
    )


@widget(state="cleave.getRawValue()")
def cleave(rng: random.Random) -> Goal:
    """A number in groups."""
    number = "".join(rng.choice("0123456789") for _ in range(16))
    return Goal(
        f"Use the gift card {number}.",
        number,
        fill("#card", number),
    )


@widget(state="document.getElementById('address').inputmask.unmaskedvalue()")
def inputmask(rng: random.Random) -> Goal:
    """An address of a network."""
    address = f"10.{rng.randint(100, 254)}.{rng.randint(10, 99)}.{rng.randint(2, 9)}"
    return Goal(
        f"The printer has the address {address}.",
        address,
        click("#address"),
        type_text(address),
    )


@widget(state="amount.getNumber()")
def autonumeric(rng: random.Random) -> Goal:
    """An amount with its currency."""
    pence = rng.randint(100001, 999999)
    return Goal(
        f"Transfer {pence / 100:,.2f} pounds.",
        pence / 100 if pence % 100 else pence // 100,
        click("#amount"),
        type_text(f"{pence / 100:.2f}"),
    )
