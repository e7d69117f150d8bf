# SPDX-License-Identifier: Apache-2.0
"""Loaders that prefetch, under Horovod's names."""

from horovod.data.data_loader_base import AsyncDataLoaderMixin, BaseDataLoader

__all__ = ["AsyncDataLoaderMixin", "BaseDataLoader"]
