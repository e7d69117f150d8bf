# SPDX-License-Identifier: Apache-2.0
"""The samples of an epoch that no rank has processed, for a job whose ranks come and go."""

from __future__ import annotations

from collections.abc import Iterator, Sized
from typing import Any

from hvd._core import api
from hvd.data.shards import shard_indices


class ElasticIndices:
    """Shares what is left of an epoch out among the ranks, as indices; for any framework.

    Give it to an elastic state that handles it, as
    ``hvd.state_handlers.HandledState(HANDLERS, indices=...)``, call ``record_batch`` after each
    batch and ``set_epoch`` after each epoch. All ranks get equally many indices: a few come twice
    where they do not divide.

    Parameters
    ----------
    dataset
        Anything that has a length, as ``range(60000)``.
    shuffle
        Another order in every epoch, the same on all ranks.
    seed
        Equal on all ranks.

    >>> len(ElasticIndices(range(4 * api.size())))
    4
    """

    def __init__(self, dataset: Sized, shuffle: bool = True, seed: int = 0) -> None:
        self.dataset = dataset
        self.shuffle = shuffle
        self.seed = seed
        self.epoch = 0
        self.processed_num = 0
        self.reset()

    def set_epoch(self, epoch: int) -> None:
        """Begins an epoch: nothing of it is processed. Call it when an epoch ends, too.

        Parameters
        ----------
        epoch
            Its number; the order depends on it.
        """
        self.epoch = epoch
        self.processed_num = 0
        self.reset()

    def record_batch(self, batch_idx: int, batch_size: int) -> None:
        """Every rank has processed a batch of this size; `batch_idx` is there for Horovod's scripts.

        Parameters
        ----------
        batch_idx
            Not used.
        batch_size
            Samples of each rank.
        """
        self.processed_num += batch_size * self.num_replicas

    def state_dict(self) -> dict[str, Any]:
        """Epoch, and how much of it is processed."""
        return {"epoch": self.epoch, "processed_num": self.processed_num}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Takes over what ``state_dict()`` gave, with the ranks of now.

        Parameters
        ----------
        state_dict
            Epoch, and how much of it is processed.
        """
        self.epoch = state_dict["epoch"]
        self.processed_num = state_dict["processed_num"]
        self.reset()

    def reset(self) -> None:
        """Shares what is left out anew among the ranks of now."""
        self.num_replicas = api.size()
        self.rank = api.rank()
        everything = shard_indices(len(self.dataset), 0, 1, self.shuffle, self.seed, self.epoch)
        self.remaining_indices = list(everything[self.processed_num :])
        self.num_samples = -(-len(self.remaining_indices) // self.num_replicas)
        self.total_size = self.num_samples * self.num_replicas

    def __iter__(self) -> Iterator[int]:
        left = self.remaining_indices
        # Fewer are left than ranks: then some come more than twice.
        mine = shard_indices(len(left), self.rank, self.num_replicas, pad=True)
        return iter([left[place] for place in mine])

    def __len__(self) -> int:
        return self.num_samples
