"""Doing actions: from a verb to trusted input.

An element's verb first asks the page script for a point on it (`page/locate.js`, `page/act.js`),
which resolves the ref, scrolls, and checks that nothing covers it, in one call. What cannot be done
is refused at once, with the reason, and leaves the page as it was.

The modules beside this one mirror those of `webtraj.environments.actions`.
"""

from webtraj.environments.browser.acting import (  # noqa: F401 (each registers its verbs)
    conversation,
    elements,
    keyboard,
    navigation,
    pointer,
)
from webtraj.environments.browser.acting.hands import ActionRefused, Hands

__all__ = ["ActionRefused", "Hands"]
