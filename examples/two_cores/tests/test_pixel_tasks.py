"""Pages of pixels: oracles solve them, words do not tell them apart, and a model trains on them."""

import importlib.util
import io
import json

import numpy
import pytest
import pytest_asyncio
from PIL import Image

import webtraj
from two_cores.learn_from_pixels import mean_of_seeds, table_of
from two_cores.pixel_tasks import CELL, KINDS, SIZE, make_environment
from webtraj import errors
from webtraj.environments import actions
from webtraj.environments.browser import BrowserPool

WORDS = ["goal", "axtree", "aria", "text", "url", "title"]


@pytest_asyncio.fixture
async def pool():
    async with BrowserPool(contexts_per_browser=2) as made:
        yield made


@pytest.mark.browser
@pytest.mark.smoke
async def test_only_the_picture_tells_pages_of_one_goal_apart(pool):
    """The right clicks differ, and neither the document nor any text about it does."""
    for kind in KINDS:
        async with webtraj.make(f"pixels/{kind}", pool=pool, observe=WORDS) as env:
            pages = {}
            for seed in range(12):
                env.set_seed(seed)
                first = await env.reset()
                click = await env.cheat()
                assert (click.x % CELL, click.y % CELL) == (CELL / 2, CELL / 2)
                html = await env.session.page.content()
                words = json.dumps([html, *(first.observation[name] for name in WORDS)])
                pages.setdefault(words, set()).add((click.x, click.y))
                last = await env.step(click)
                assert last.last()
                assert last.reward == 1.0
            assert any(len(clicks) > 1 for clicks in pages.values()), kind


@pytest.mark.browser
async def test_a_page_is_that_of_its_seed_and_a_wrong_click_ends_it(pool):
    async with make_environment(["color"], pool=pool, observe=["goal", "screenshot"]) as env:
        seen = []
        for seed in (3, 4, 3):
            env.set_seed(seed)
            seen.append((await env.reset()).observation["screenshot"])
            right = await env.cheat()
            away = (right.x + SIZE / 2) % SIZE
            last = await env.step(actions.ClickAt(away, right.y))
            assert last.last()
            assert last.reward == 0.0
        assert seen[0] == seen[2] != seen[1]


@pytest.mark.browser
async def test_a_faded_page_is_the_same_page_in_other_colors(pool):
    seen, clicks = {}, {}
    for faded in (False, True):
        options = {"pool": pool, "observe": ["goal", "screenshot"], "faded": faded}
        async with webtraj.make("pixels/number", **options) as env:
            env.set_seed(3)
            image = Image.open(io.BytesIO((await env.reset()).observation["screenshot"]))
            seen[faded] = numpy.asarray(image.convert("RGB"), dtype=float)
            clicks[faded] = await env.cheat()
            assert (await env.step(clicks[faded])).reward == 1.0
    assert clicks[True] == clicks[False]
    middle = 255 / 2
    assert abs(seen[True] - (middle + 0.6 * (seen[False] - middle))).mean() < 2  # JPEG.


def test_an_unknown_kind_is_named():
    with pytest.raises(errors.InvalidInputError, match="No page of pixels 'colour'"):
        make_environment(["colour"])


def test_the_table_has_kinds_by_stages_and_the_spread_of_seeds():
    stages = ("clicks", "random", "supervised", "faded", "policy gradient")
    one, other = (
        {stage: {kind: [won, 10] for kind in KINDS} for stage in stages} for won in (4, 6)
    )
    curves = {"1": [(1, 10), (4, 10)], "2": [(2, 10), (6, 10)]}
    lines = table_of({"seeds": {"1": one, "2": other}, "curves": curves}).splitlines()
    assert lines[2].startswith("| color | 50% (30 to 70) |")
    assert lines[6].startswith(f"| mean | {mean_of_seeds([0.4, 0.6])} |")
    assert lines[-1] == f"| 1 | 40% | 60% | {mean_of_seeds([0.4, 0.6])} |"
    assert lines[10:12] == [
        f"| seed {n} |" + f" {r} |" * 5 for n, r in ((1, "40.0%"), (2, "60.0%"))
    ]


@pytest.mark.slow
@pytest.mark.browser
@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="needs webtraj[train]")
async def test_a_model_is_trained_on_pages_both_ways(pool, tmp_path):
    """Two supervised steps, then one step of policy gradient on sampled clicks."""
    from two_cores.learn_from_pixels import SMALL, Lab, agent_of
    from two_cores.pixel_model import make_model
    from webtraj.training.sft import read_log

    lab = Lab(tmp_path, SMALL, 2, pool)
    base = make_model(tmp_path / "base")
    model = await lab.trained(
        tmp_path / "supervised", base, await lab.demonstrations(), max_steps=2, batch_size=4
    )
    assert read_log(tmp_path / "supervised")[-1]["step"] == 2
    rows = await lab.sampled(tmp_path / "sampled", agent_of(model, 1.0, 5), model, groups=2, seed=5)
    # A model of two steps never clicks right: say that every other attempt did.
    file = rows / "train.jsonl"
    told = [json.loads(line) for line in file.read_text().splitlines()]
    assert all(row["images"] and row["grids"] for row in told)
    for number, row in enumerate(told):
        row |= {"reward": float(number % 2), "outcome": ("failure", "success")[number % 2]}
    file.write_text("".join(json.dumps(row) + "\n" for row in told))
    await lab.trained(tmp_path / "policy", model, file, policy={}, max_steps=1, batch_size=16)
    (step,) = [entry for entry in read_log(tmp_path / "policy") if "policy_ratio" in entry]
    assert step["policy_ratio"] == pytest.approx(1.0, abs=1e-3)
    assert step["grad_norm"] > 0
