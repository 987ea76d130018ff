"""Which tasks a rollout plays: samplers, and what keeps a task out (`filters`, `blocklist`)."""

from webtraj.rollouts.sampling.blocklist import Blocklist
from webtraj.rollouts.sampling.filters import distinct, unblocked, unseen
from webtraj.rollouts.sampling.samplers import Band, RatioSampler, Sampler, Sequence, UniformSampler

__all__ = [
    "Band",
    "Blocklist",
    "RatioSampler",
    "Sampler",
    "Sequence",
    "UniformSampler",
    "distinct",
    "unblocked",
    "unseen",
]
