"""Episodes under fire (`make test-rollouts`): every row ends as when nothing fails."""

import os
import sys

import pytest
import rollout_audit
from rollout_soak import KILLS, RolloutSoak, show
from seeds import seed_of

EPISODES = int(os.environ.get("WEBTRAJ_ROLLOUTS", "0"))


@pytest.mark.browser
@pytest.mark.timeout(7200)
@pytest.mark.skipif(not EPISODES, reason="make test-rollouts says how many: WEBTRAJ_ROLLOUTS")
@pytest.mark.skipif(sys.platform != "linux", reason="needs Linux's parent-death signal")
async def test_every_row_ends_as_when_nothing_fails(tmp_path):
    seed = seed_of(os.environ.get("WEBTRAJ_SEED", "0"))
    # In the middle, twice, and once while it resumes: of each kind one, at least.
    soak = RolloutSoak(tmp_path, EPISODES, seed, kills=KILLS if EPISODES >= 500 else 3)
    try:
        await soak.run()
    finally:
        show(soak)
    assert list(rollout_audit.audit(soak)) == []
