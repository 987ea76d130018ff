"""The dialect that fits an episode's viewport."""

import io

import pytest
from PIL import Image

from webtraj import errors
from webtraj.agents.screens import dialect_for, viewport_of
from webtraj.environments import actions as a


def picture(width, height):
    data = io.BytesIO()
    Image.new("RGB", (width, height)).save(data, "PNG")
    return data.getvalue()


@pytest.mark.parametrize("name", ["webgym", "webgym_marks", "anthropic", "openai"])
def test_others_do(name):
    with pytest.raises(errors.InvalidInputError, match=rf"{name}.*size of the viewport"):
        dialect_for(name, None)
    assert dialect_for(name, (800, 600)).name == name


def test_pixels_are_those_of_the_picture_that_is_shown():
    half = picture(400, 300)
    click = '{"action": "left_click", "coordinate": [200, 150]}'
    assert dialect_for("anthropic", (800, 600), half).parse(click) == a.ClickAt(400, 300)
    assert dialect_for("anthropic", (800, 600)).parse(click) == a.ClickAt(200, 150)
    click = '{"type": "click", "button": "left", "x": 200, "y": 150}'
    assert dialect_for("openai", (800, 600), half).parse(click) == a.ClickAt(400, 300)


@pytest.mark.parametrize("observation", [None, 3, {}, {"scroll": None}, {"scroll": {"width": 3}}])
def test_observation_that_does_not_tell_the_viewport(observation):
    assert viewport_of(observation) is None
