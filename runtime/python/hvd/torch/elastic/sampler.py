# SPDX-License-Identifier: Apache-2.0
"""A sampler that goes on, after a reset, with what no rank has processed in this epoch."""

from __future__ import annotations

import torch.utils.data

from hvd.data.elastic import ElasticIndices


class ElasticSampler(ElasticIndices, torch.utils.data.Sampler):
    """Shares what is left of an epoch out among the ranks; for a DataLoader.

    Give it to ``TorchState``, call ``record_batch`` after each batch and ``set_epoch`` after each
    epoch. All ranks get equally many indices: a few come twice where they do not divide.

    Parameters
    ----------
    dataset
        Anything that has a length.
    shuffle
        Another order in every epoch, the same on all ranks.
    seed
        Equal on all ranks.

    >>> from hvd._core import api
    >>> len(ElasticSampler(range(4 * api.size())))
    4
    """
