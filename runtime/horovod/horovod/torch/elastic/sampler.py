# SPDX-License-Identifier: Apache-2.0
"""The sampler of elastic training, where Horovod has it."""

from hvd.torch.elastic import ElasticSampler

__all__ = ["ElasticSampler"]
