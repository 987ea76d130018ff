"""The peer half of `openenv_browsergym.py`: OpenEnv's BrowserGym server at its leanest.

Its own application (`browsergym_env.server.app`) has no switch for BrowserGym's delays, nor for the
screenshot in each observation. Here both are off. BrowserGym still takes the screenshot, for which
it has no switch either. Uvicorn runs this in the peer's virtual environment.
"""

import functools
import os

from browsergym_env.models import BrowserGymAction, BrowserGymObservation
from browsergym_env.server.browsergym_environment import BrowserGymEnvironment
from openenv.core.env_server.http_server import create_app


class LeanEnvironment(BrowserGymEnvironment):
    def _create_observation(self, obs, *args, **kwargs):
        return super()._create_observation({**obs, "screenshot": None}, *args, **kwargs)


app = create_app(
    functools.partial(
        LeanEnvironment,
        task_name=os.environ["BROWSERGYM_TASK_NAME"],
        timeout=float(os.environ["BROWSERGYM_TIMEOUT"]),
        pre_observation_delay=0,
        slow_mo=0,
    ),
    BrowserGymAction,
    BrowserGymObservation,
    env_name="browsergym_env",
    max_concurrent_envs=int(os.environ["MAX_CONCURRENT_ENVS"]),
)
