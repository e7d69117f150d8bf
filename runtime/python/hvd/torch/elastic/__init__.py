# SPDX-License-Identifier: Apache-2.0
"""Elastic training with PyTorch; ``hvd.elastic`` says what a state and ``run`` are."""

from hvd.elastic import HostsUpdatedInterrupt, ObjectState, State, run, run_fn
from hvd.torch.elastic.sampler import ElasticSampler
from hvd.torch.elastic.state import TorchState

__all__ = [
    "ElasticSampler",
    "HostsUpdatedInterrupt",
    "ObjectState",
    "State",
    "TorchState",
    "run",
    "run_fn",
]
