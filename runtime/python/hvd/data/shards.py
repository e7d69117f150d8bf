# SPDX-License-Identifier: Apache-2.0
"""Which samples, and which files, a rank reads: each exactly once, the same wherever it is asked."""

from __future__ import annotations

import os
import random
from collections.abc import Iterable, Sequence
from typing import TypeVar

from hvd._core import api
from hvd._core.refusals import refused
from hvd.errors import InvalidArgumentError

Path = TypeVar("Path", str, "os.PathLike[str]")


def _place(rank: int | None, size: int | None) -> tuple[int, int]:
    size = api.size() if size is None else size
    rank = api.rank() if rank is None else rank
    if not 0 <= rank < size:
        raise InvalidArgumentError(f"rank {rank} of {size} ranks: ranks are 0 to size - 1")
    return rank, size


def _shuffled(count: int, seed: int, epoch: int) -> list[int]:
    order = list(range(count))
    random.Random(f"{seed}/{epoch}").shuffle(order)
    return order


def shard_indices(
    count: int,
    rank: int | None = None,
    size: int | None = None,
    shuffle: bool = False,
    seed: int = 0,
    epoch: int = 0,
    pad: bool = False,
) -> Sequence[int]:
    """The indices of 0..count-1 that this rank takes: every size-th, from its rank on.

    Parameters
    ----------
    count
        Samples of the data set.
    rank, size
        Those of the job unless given.
    shuffle
        Another order in every epoch, the same on all ranks and on all machines.
    seed, epoch
        What the order depends on; equal on all ranks.
    pad
        Give all ranks equally many, some indices twice: for a training in step. Without it every
        index comes once, and the first ranks may have one more: for validation, and for `join`.

    Returns
    -------
    Sequence of int
        A range where that is enough.

    Raises
    ------
    InvalidArgumentError
        `count` is negative, or `rank` is none of `size`.

    >>> [list(shard_indices(5, rank, 2)) for rank in range(2)]
    [[0, 2, 4], [1, 3]]
    >>> list(shard_indices(5, 1, 2, pad=True))
    [1, 3, 0]
    """
    if count < 0:
        raise refused(f"shard_indices: count is {count}; 0 or more")
    rank, size = _place(rank, size)
    order: Sequence[int] = _shuffled(count, seed, epoch) if shuffle else range(count)
    mine = order[rank::size]
    share = -(-count // size)
    if not pad or len(mine) == share:
        return mine
    # The places after the last are those from the first on, as often as it takes.
    return [*mine, order[(rank + size * (share - 1)) % count]]


def shard_files(
    paths: Iterable[Path],
    rank: int | None = None,
    size: int | None = None,
    shuffle: bool = False,
    seed: int = 0,
    epoch: int = 0,
    allow_empty: bool = False,
) -> list[Path]:
    """The files that this rank reads; every file goes to one rank.

    Parameters
    ----------
    paths
        All files, on every rank, in any order: nodes list folders differently, so they are sorted.
    rank, size, shuffle, seed, epoch
        As in :func:`shard_indices`.
    allow_empty
        Let some ranks have no file; else fewer files than ranks are an error.

    Raises
    ------
    InvalidArgumentError
        A file is listed twice, or there are fewer than ranks.

    >>> shard_files(["b", "c", "a"], rank=0, size=2)
    ['a', 'c']
    """
    rank, size = _place(rank, size)
    files = sorted(paths, key=os.fspath)
    for one, other in zip(files, files[1:]):
        if os.fspath(one) == os.fspath(other):
            raise InvalidArgumentError(f"shard_files: rank {rank}: {one} is listed twice")
    if len(files) < size and not allow_empty:
        raise InvalidArgumentError(
            f"shard_files: rank {rank}: {len(files)} files for {size} ranks: ranks from {len(files)} "
            f"on would have none. Write the data as at least {size} files, let ranks share the "
            "samples of a file with shard_indices(), or pass allow_empty=True and end the epoch with "
            "hvd.join()"
        )
    indices = shard_indices(len(files), rank, size, shuffle, seed, epoch)
    return [files[index] for index in indices]
