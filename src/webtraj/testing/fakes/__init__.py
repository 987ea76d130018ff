"""Small environments without a browser, for tests.

`Catch` and `CatchEnvironment` are one well-behaved game, synchronous and asynchronous.
`ScriptedEnvironment` does exactly what a test tells it to, faults included. `AresEnvironment`
breaks the contract the way ARES's environments do.
"""

from webtraj.testing.fakes.ares import AresEnvironment, AresTimeStep
from webtraj.testing.fakes.catch import Catch, CatchEnvironment
from webtraj.testing.fakes.scripted import HANG, Call, Hang, ScriptedEnvironment

__all__ = [
    "HANG",
    "AresEnvironment",
    "AresTimeStep",
    "Call",
    "Catch",
    "CatchEnvironment",
    "Hang",
    "ScriptedEnvironment",
]
