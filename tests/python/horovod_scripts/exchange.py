# SPDX-License-Identifier: Apache-2.0
"""A table of embeddings that is shared out over the ranks: alltoall there and back."""

import horovod.torch as hvd
import torch
from torch import nn

hvd.init()
ROWS, WIDTH = 12, 4
share = nn.Embedding(ROWS // hvd.size(), WIDTH)
nn.init.constant_(share.weight, hvd.rank() + 1)


def lookup(rows):
    owner = rows % hvd.size()
    order = torch.argsort(owner)
    splits = torch.bincount(owner, minlength=hvd.size()).int()
    asked, counts = hvd.alltoall(rows[order], splits=splits, name="rows")
    found, _ = hvd.alltoall(share(asked // hvd.size()), splits=counts, name="vectors")
    return torch.empty_like(found).index_copy(0, order, found)


rows = torch.randint(ROWS, (5 + hvd.rank(),))
vectors = lookup(rows)
assert torch.equal(vectors[:, 0], (rows % hvd.size() + 1).float()), vectors
vectors.sum().backward()
# Each of the rows asked for left ones in the gradient of its owner.
total = hvd.allreduce(share.weight.grad.sum(), op=hvd.Sum)
assert total == sum(WIDTH * (5 + rank) for rank in range(hvd.size())), total
# Predictions of different length, and the vocabulary that rank 0 alone has read.
predictions = hvd.allgather(torch.full((len(rows), 2), float(hvd.rank())), name="predictions")
assert len(predictions) == sum(5 + rank for rank in range(hvd.size()))
words = {"the": 0, "fox": 1} if hvd.rank() == 0 else None
assert hvd.broadcast_object(words, root_rank=0, name="vocabulary")["fox"] == 1
