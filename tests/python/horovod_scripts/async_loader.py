# SPDX-License-Identifier: Apache-2.0
"""A loader that reads ahead in a thread, made of Horovod's two classes."""

import horovod.torch as hvd
import torch
from horovod.data import AsyncDataLoaderMixin, BaseDataLoader


class Batches(BaseDataLoader):
    def __init__(self, count):
        super().__init__()
        self.count = count

    def __len__(self):
        return self.count

    def _iterate(self):
        for number in range(self.count):
            yield torch.full((2,), float(number))


class AsyncBatches(AsyncDataLoaderMixin, Batches):
    pass


hvd.init()
for queue in (4, 0):
    loader = AsyncBatches(async_loader_queue_size=queue, count=5)
    for _ in range(2):
        sums = [hvd.allreduce(batch, op=hvd.Sum)[0].item() for batch in loader]
        assert sums == [2.0 * number for number in range(5)], sums
    loader.close_async_loader()
