"""Seeds of long runs: a number, or `draw` for one that is drawn and printed."""

import random

__all__ = ["seed_of"]


def seed_of(text: str) -> int:
    """Return the seed that a text names, such as the variable `WEBTRAJ_SEED`."""
    if text != "draw":
        return int(text)
    seed = random.SystemRandom().randrange(1_000_000)
    print(f"seed {seed} (to repeat: SEED={seed})")
    return seed
