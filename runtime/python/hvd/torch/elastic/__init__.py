# SPDX-License-Identifier: Apache-2.0
"""Elastic training with PyTorch; ``hvd.elastic`` says what a state and ``run`` are."""

from hvd.elastic import (
    HostsUpdatedInterrupt,
    ObjectState,
    PerRank,
    State,
    StateLostError,
    run,
    run_fn,
)
from hvd.torch.elastic.sampler import ElasticSampler
from hvd.torch.elastic.state import CompressionState, TorchState

__all__ = [
    "CompressionState",
    "ElasticSampler",
    "HostsUpdatedInterrupt",
    "ObjectState",
    "PerRank",
    "State",
    "StateLostError",
    "TorchState",
    "run",
    "run_fn",
]
