"""Episodes with hostile values in every field of every verb, and all that a page fills."""

import math
import random

import numpy as np

from webtraj.environments import actions as a
from webtraj.environments.actions import base as rules
from webtraj.environments.browser.observation import LastAction
from webtraj.store.values import OpaqueRecord
from webtraj.trajectory import EpisodeInfo, EpisodeTrajectory, StepRecord, StepType

VERBS = list(a.VERBS.values())

CODE = (
    "evil()",
    "__import__('os').evil",
    "0)!; evil(); //",
    "0]; evil(); [0",
    "${evil()}",
    "(evil)()",
)
TEXTS = (
    *CODE,
    'a" + evil() + "',
    "a' + evil() + '",
    '""" + evil() + """',
    "`${evil()}`",
    "\\",
    '\\"',
    '\\" + evil() //',
    "\nevil()\n",
    "\revil()",
    "\u2028evil()",
    "\u2029evil()",
    "\x0bevil()\x85evil()",
    "*/ evil() /*",
    "# evil()",
    "\u202eevil()",
    "\x00evil()",
    "{evil()}",
    "{chain}",
    "%s",
    "\ud800evil()",
    "\U000e0001evil()",
    "</script><script>evil()</script>",
    "javascript:evil()",
    "file:///etc/passwd",
    "http://[",
    "http://a.test/\nevil()",
    "http://evil().test/",
    "https://<secret:host>/evil()",
    "BASE_URL",
    "SECRET_X",
    "Secret x",
    "page",
    "import",
    "",
    "1",
    "Enter",
    "Control+a",
    "left",
    "https://shop.test/a",
)
PLACEHOLDERS = ("<secret:x>", "<secret:evil()>", "<secret:", "<secret:a.b-c>evil()", "<secret:x\n>")
ODD = (
    None,
    True,
    -1,
    0,
    2,
    10**400,
    1.5,
    -0.0,
    1e300,
    math.nan,
    math.inf,
    -math.inf,
    b"evil()",
    [],
    [[]],
    ["evil()"],
    {"evil()": "evil()"},
    np.float64(1.5),
    np.array(["evil()"]),
    np.zeros(4),
    np.zeros((2, 2)),
)


def hostile_record(seed):
    """An episode by a seed; its first action is of the verb at that place."""
    return _Values(seed).episode(VERBS[seed % len(VERBS)])


class _Values:
    """Hostile values, by a seed."""

    def __init__(self, seed):
        self.random = random.Random(seed)

    def text(self):
        parts = self.random.choices((*TEXTS, *PLACEHOLDERS), k=self.random.choice((1, 1, 1, 2)))
        return "".join(parts)

    def any(self):
        make = self.random.choice((self.text, self.text, lambda: self.random.choice(ODD)))
        return make()

    def listed(self):
        return [self.any() for _ in range(self.random.randint(0, 3))]

    def field(self, rule):
        """A value of a field: one that its rule allows, more often than not."""
        if self.random.random() < 0.3:
            return self.random.choice((self.any, self.listed))()
        return self.allowed(rule)

    def allowed(self, rule):
        match rule:
            case rules.OptionalRule():
                return self.random.choice((None, self.allowed(rule.rule)))
            case rules.ManyRule():
                count = max(rule.min_items, 1)
                return [self.allowed(rule.item) for _ in range(count)]
            case rules.NumberRule():
                return (
                    self.random.choice((1, 2))
                    if rule.whole
                    else self.random.choice((1, 2.5, np.float64(2)))
                )
            case rules.ChoiceRule():
                return self.random.choice(rule.choices)
            case rules.FlagRule():
                return self.random.random() < 0.5
            case rules.KeysRule():
                return self.random.choice(
                    ("Enter", "a", '"', "\\", "<secret:x>", "<secret:x>evil()")
                )
            case rules.UrlRule():
                return "https://shop.test/" + self.random.choice(
                    ("", "<secret:x>", "evil()", '"+evil()+"')
                )
            case rules.TextRule(pattern=pattern) if pattern.startswith("[A-Za-z0-9]"):
                return self.random.choice("1234")
        return self.text()

    def tree(self):
        roles = (
            "button",
            "textbox",
            "iframe",
            "listitem",
            "option",
            "combobox",
            "evil()",
            "text",
            "generic",
        )
        lines, depth = [], 0
        for number in range(1, 6):
            name = self.random.choice(
                (ascii, lambda text: f'"{text}"', lambda text: " ".join(text.split()))
            )(self.text())
            lines.append(f"{'  ' * depth}[{number}] {self.random.choice(roles)} {name}")
            depth = self.random.randint(0, depth + 1)
        return "\n".join(lines)

    def last_action(self):
        if self.random.random() < 0.1:
            return self.any()
        names = [name for name in LastAction.__annotations__ if name != "error"]
        last = {name: self.any() for name in names if self.random.random() < 0.7}
        last["ref"] = self.random.choice(("1", "2", "3"))
        return (
            {**last, "box": np.array([0.0, 0.0, 9.0, 9.0])} if self.random.random() < 0.5 else last
        )

    def observation(self):
        page = {
            "url": self.random.choice(("https://shop.test/a", "http://b.example/", self.text())),
            "axtree": self.tree() if self.random.random() < 0.9 else self.any(),
            "last_action": self.last_action(),
            "tabs": self.random.choice(
                (["a"], ["a", "b"], np.array(["a"]), self.any(), self.listed())
            ),
            "dialogs": self.random.choice(([], self.any())),
            "scroll": self.random.choice(
                ({"width": 800.0, "height": 600.0}, {"width": self.any(), "height": 1.0})
            ),
            "info": {"raw_reward": self.any()},
        }
        return {name: value for name, value in page.items() if self.random.random() < 0.9}

    def episode(self, verb):
        steps = [
            StepRecord(0, StepType.FIRST, {"url": "https://shop.test/a", **self.observation()})
        ]
        verbs = [verb, a.Click, *self.random.choices(list(a.VERBS.values()), k=2)]
        for index, each in enumerate(verbs, 1):
            fields = {name: self.field(rule) for name, rule in each.rules.items()}
            try:
                action = each(**fields)
            except (ValueError, TypeError):
                action = OpaqueRecord(f"action/{each.verb}", fields)
            kind = StepType.LAST if index == len(verbs) else StepType.MID
            steps.append(StepRecord(index, kind, self.observation(), action, 0.0, 1.0))
        site = self.random.choice(("", "miniwob"))
        info = EpisodeInfo(episode_id="e", task=self.text(), goal=self.text(), site=site, seed=3)
        return EpisodeTrajectory(info, tuple(steps))
