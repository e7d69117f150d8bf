# SPDX-License-Identifier: Apache-2.0
"""Which samples of a dataset this rank reads."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
import torch.utils.data.distributed

from hvd._core import api


class DistributedSampler(torch.utils.data.distributed.DistributedSampler):
    """torch's sampler of the same name, for the ranks of the job; call ``set_epoch`` in each epoch.

    Parameters
    ----------
    dataset
        Anything that has a length.
    num_replicas, rank
        Those of the job unless given.
    shuffle, seed, drop_last
        As in torch: the same order on all ranks, another one in each epoch.
    pad
        True: all ranks get equally many indices, some of them twice, for a training in step. False:
        every index comes once, and ranks may have one more than others or none: for an exact
        validation, and for a training that ends with ``hvd.join()``.

    >>> [list(DistributedSampler(range(5), 2, rank, shuffle=False, pad=False)) for rank in (0, 1)]
    [[0, 2, 4], [1, 3]]
    """

    def __init__(
        self,
        dataset: Any,
        num_replicas: int | None = None,
        rank: int | None = None,
        shuffle: bool = True,
        seed: int = 0,
        drop_last: bool = False,
        pad: bool = True,
    ) -> None:
        super().__init__(
            dataset,
            api.size() if num_replicas is None else num_replicas,
            api.rank() if rank is None else rank,
            shuffle,
            seed,
            drop_last,
        )
        self.pad = pad
        if not pad:
            self.total_size = len(dataset) - (len(dataset) % self.num_replicas) * drop_last
            self.num_samples = len(range(self.rank, self.total_size, self.num_replicas))

    def __iter__(self) -> Iterator[int]:
        if self.pad:
            yield from super().__iter__()
            return
        count = len(self.dataset)  # type: ignore[arg-type]
        if self.shuffle:
            generator = torch.Generator()
            generator.manual_seed(self.seed + self.epoch)
            order = torch.randperm(count, generator=generator).tolist()
        else:
            order = list(range(count))
        yield from order[self.rank : self.total_size : self.num_replicas]
