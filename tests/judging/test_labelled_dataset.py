"""There are enough labelled trajectories, and they are as the other tests take them to be."""

from collections import Counter

from webtraj.trajectory import Outcome


def test_there_are_enough_of_each_kind(labelled_dataset) -> None:
    dataset, labels = labelled_dataset.dataset, labelled_dataset.labels
    assert len(labels) >= 300
    assert set(labels.values()) == {Outcome.SUCCESS, Outcome.FAILURE}
    assert labels.keys() <= set(dataset.episode_ids)
    outcomes = Counter((s.policy, labels.get(s.episode_id)) for s in dataset.summaries)
    assert outcomes["oracle", Outcome.SUCCESS] >= 80
    for policy in ("hasty", "claiming", "random"):
        assert outcomes[policy, Outcome.FAILURE] >= 20
    assert outcomes["hasty", Outcome.SUCCESS] >= 3  # One action was enough.
    assert len({s.task for s in dataset.summaries if s.episode_id in labels}) >= 45
