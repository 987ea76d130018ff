"""What an imported episode must be: as valid as a recorded one, but rewards may be unknown."""

import dataclasses

from webtraj.testing import assert_valid_trajectory


def assert_valid(episode):
    """Asserts that an episode is valid, rewards that its source does not know left aside."""
    steps = tuple(
        dataclasses.replace(step, reward=0.0) if step.reward is None and not step.first else step
        for step in episode.steps
    )
    assert_valid_trajectory(dataclasses.replace(episode, steps=steps))
