"""Pointing: agents for models too small for an ordinary prompt.

A page is told in some forty tokens, and the model answers in two: which element, and which word of
the goal is typed into it, if any. That an agent on the web can do with so little (click an element,
or type a word of the goal into it) is from DOM-Q-Net (Jia, Kiros and Ba 2019). Elements and words
are pointed at by names that are dealt anew for each prompt, so that a model cannot learn where the
answer usually stands and has to read.

* `pages`: what a page's elements are called.
* `prompts`: the prompt, and what a reply to it means.
* `agent`: the agent that asks a model so; `options`, what may be set about it by name.
"""

from webtraj.agents.pointing.agent import PointingAgent
from webtraj.agents.pointing.pages import Item, items_of
from webtraj.agents.pointing.prompts import ACT, ELEMENTS, MARKERS, WORDS, Prompt, make_prompt

__all__ = [
    "ACT",
    "ELEMENTS",
    "MARKERS",
    "WORDS",
    "Item",
    "PointingAgent",
    "Prompt",
    "items_of",
    "make_prompt",
]
