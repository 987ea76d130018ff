"""The environment that this project is about: it counts to three, on a pocket calculator."""

import dm_env
from dm_env import specs


class CounterEnvironment:
    """Counts up by each action, 1 or 2; an episode terminates at 3 or more."""

    def __init__(self):
        self._count = None

    async def reset(self):
        self._count = 0
        return dm_env.restart(0)

    async def step(self, action):
        if self._count is None:
            return await self.reset()
        self._count += int(action)
        if self._count < 3:
            return dm_env.transition(0.0, self._count)
        count, self._count = self._count, None
        return dm_env.termination(1.0, count)

    async def close(self):
        self._count = None

    def observation_spec(self):
        return specs.BoundedArray((), int, 0, 4)

    def action_spec(self):
        return specs.BoundedArray((), int, 1, 2)

    def reward_spec(self):
        return specs.Array((), float)

    def discount_spec(self):
        return specs.BoundedArray((), float, 0.0, 1.0)

    async def __aenter__(self):
        return self

    async def __aexit__(self, exc_type, exc, traceback):
        await self.close()


class ForgetfulEnvironment(CounterEnvironment):
    """Forgets to reset after LAST."""

    async def step(self, action):
        if self._count is None:
            return dm_env.transition(0.0, 0)
        return await super().step(action)
