"""Episodes made by hand, as small as a case needs them."""

from webtraj import Outcome
from webtraj.environments import actions as a
from webtraj.trajectory import (
    Decision,
    EndReason,
    EpisodeEnd,
    EpisodeInfo,
    EpisodeTrajectory,
    StepRecord,
    StepType,
)

SHOP = '[1] link "Shop"\n[2] textbox "Search"\n[3] button "Go"\ntext "Welcome"'
LIST = '[4] link "Home"\n[5] heading "All goods"\n[6] button "Add to cart"'


def page(axtree=SHOP, *, url="https://shop.test/", **channels):
    """An observation of a page in words."""
    return {"goal": "Buy tea.", "url": url, "axtree": axtree, **channels}


def done(role="", name="", *, ref="", error=""):
    """What an observation says of the last action."""
    return {"last_action": {"role": role, "name": name, "ref": ref, "error": error}}


def step(action, observation, *, reward=0.0, discount=1.0, decision=None):
    """One step after the first."""
    return StepRecord(0, StepType.MID, observation, action, reward, discount, None, None, decision)


LISTED = page(LIST, url="https://shop.test/list", **done("link", "Shop"))
CLICKED = step(a.Click("1"), LISTED)


def episode(*steps, first=None, outcome=Outcome.SUCCESS, truncated=False, reason=None, **info):
    """An episode of a first observation and some steps, of which the last one ends it."""
    records = [StepRecord(0, StepType.FIRST, page() if first is None else first)]
    for index, record in enumerate(steps, 1):
        last = index == len(steps)
        kind = StepType.LAST if last else StepType.MID
        discount = (1.0 if truncated else 0.0) if last else record.discount
        records.append(
            StepRecord(
                index,
                kind,
                record.observation,
                record.action,
                record.reward,
                discount,
                100.0 + index,
                100.5 + index,
                record.decision,
            )
        )
    ended = reason or (EndReason.TRUNCATED if truncated else EndReason.TERMINATED)
    info = EpisodeInfo(**{"episode_id": "e1", "task": "shop/tea", "goal": "Buy tea.", **info})
    return EpisodeTrajectory(info, tuple(records), EpisodeEnd(reason=ended, outcome=outcome))


def finish(observation=None, **options):
    """The step that ends an episode."""
    return step(a.Answer("done"), page() if observation is None else observation, **options)


def thought(text, action=None, **options):
    """A decision with a thought."""
    return Decision(action=action, thought=text, **options)


def only(result):
    """The one trajectory that a step gave."""
    if isinstance(result, EpisodeTrajectory):
        return result
    (made,) = result.trajectories
    return made
