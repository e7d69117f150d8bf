# SPDX-License-Identifier: Apache-2.0
"""Sparse gradients: only the rows that were used travel."""

import horovod.torch as hvd
import torch
from torch import nn, optim

hvd.init()
torch.manual_seed(0)
model = nn.Embedding(10, 3, sparse=True)
optimizer = hvd.DistributedOptimizer(optim.SparseAdam(list(model.parameters()), lr=0.1))
hvd.broadcast_parameters(model.state_dict(), root_rank=0)
before = model.weight.detach().clone()
for _ in range(2):
    optimizer.zero_grad()
    model(torch.LongTensor([[1, 2, 4, 5 + hvd.rank()], [4, 3, 2, 9]])).sum().backward()
    optimizer.step()
changed = (model.weight.detach() != before).any(1).nonzero().flatten().tolist()
assert changed == [1, 2, 3, 4, 5, 6, 9], changed
assert model.weight.grad.is_sparse
assert hvd.allgather(model.weight.detach()[None]).unique(dim=0).shape[0] == 1
