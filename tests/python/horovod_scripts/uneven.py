# SPDX-License-Identifier: Apache-2.0
"""Ranks with different numbers of batches: join()."""

import horovod.torch as hvd
import torch
from torch import nn, optim

hvd.init()
model = nn.Linear(2, 1, bias=False)
model.weight.data.fill_(1.0)
optimizer = hvd.DistributedOptimizer(
    optim.SGD(model.parameters(), lr=0.5), named_parameters=model.named_parameters()
)
for _ in range(1 + 2 * hvd.rank()):
    optimizer.zero_grad()
    model(torch.ones(1, 2)).sum().backward()
    optimizer.step()
last = hvd.join()
assert last == hvd.size() - 1, last
# The first step is of both ranks, the others of one, divided by both all the same.
hvd.broadcast_parameters(model.state_dict(), root_rank=last)
assert torch.allclose(model.weight, torch.tensor([[0.0, 0.0]])), model.weight
