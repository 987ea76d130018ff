"""Runs a loop and tells on stdout what it does: `play_loop.py CONFIG [KEY=VALUE]... [--resume]`."""

import asyncio
import sys

from webtraj.cli import signals
from webtraj.loop import load_loop_config
from webtraj.loop import run as run_loop
from webtraj.loop.phases import NullLoopObserver


class Teller(NullLoopObserver):
    """Prints a line for each event."""

    def phase_began(self, phase, *, attempt, log):
        print("began", phase.slot.iteration, phase.slot.name, attempt, flush=True)

    def phase_ended(self, slot, seconds):
        print("ended", slot.iteration, slot.name, flush=True)


def main(config, *arguments):
    given = [argument for argument in arguments if "=" in argument]
    settings = load_loop_config(config, given)
    resume = "--resume" in arguments
    signals.run(run_loop(settings, resume=resume, observer=Teller()))
    print("finished", flush=True)


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except signals.SignalReceivedError as error:
        sys.exit(128 + error.signal)
    except asyncio.CancelledError:
        sys.exit(1)
