# SPDX-License-Identifier: Apache-2.0
"""Elastic training with PyTorch, under Horovod's names."""

from horovod.common.elastic import ObjectState, State, run_fn
from horovod.torch.elastic.sampler import ElasticSampler
from horovod.torch.elastic.state import TorchState
from horovod.torch.mpi_ops import init, shutdown
from hvd.torch.elastic import run

__all__ = [
    "ElasticSampler",
    "ObjectState",
    "State",
    "TorchState",
    "init",
    "run",
    "run_fn",
    "shutdown",
]
