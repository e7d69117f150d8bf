# SPDX-License-Identifier: Apache-2.0
"""Input of a training: prefetching, measuring the wait for it, and sharing it out among ranks."""

from hvd.data.elastic import ElasticIndices
from hvd.data.feed import AsyncDataLoaderMixin, BaseDataLoader
from hvd.data.prefetch import InputReport, InputStatistics, PrefetchLoader
from hvd.data.shards import shard_files, shard_indices

__all__ = [
    "AsyncDataLoaderMixin",
    "BaseDataLoader",
    "ElasticIndices",
    "InputReport",
    "InputStatistics",
    "PrefetchLoader",
    "shard_files",
    "shard_indices",
]
