# SPDX-License-Identifier: Apache-2.0
"""Loaders that prefetch, where Horovod has them."""

from hvd.data import AsyncDataLoaderMixin, BaseDataLoader

__all__ = ["AsyncDataLoaderMixin", "BaseDataLoader"]
