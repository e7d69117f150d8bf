# SPDX-License-Identifier: Apache-2.0
"""Gradients of several backward passes add up before they are reduced; groups of them, too."""

import horovod.torch as hvd
import torch
from torch import nn, optim

hvd.init()
batches_per_allreduce = 2
for groups in (None, 2):
    model = nn.Sequential(nn.Linear(3, 3, bias=False), nn.Linear(3, 1, bias=False))
    for parameter in model.parameters():
        parameter.data.fill_(1.0)
    optimizer = optim.SGD(
        model.parameters(), lr=0.01 * batches_per_allreduce * hvd.size(), momentum=0.9
    )
    optimizer = hvd.DistributedOptimizer(
        optimizer,
        named_parameters=model.named_parameters(),
        backward_passes_per_step=batches_per_allreduce,
        op=hvd.Average,
        groups=groups,
    )
    data = torch.full((batches_per_allreduce * 2, 3), 1.0 + hvd.rank())
    optimizer.zero_grad()
    for i in range(0, len(data), 2):
        loss = model(data[i : i + 2]).mean()
        loss.div_(batches_per_allreduce)
        loss.backward()
    optimizer.step()
    # The mean over ranks of the gradient, 3 (1 + rank) for each weight of the last layer.
    mean = sum(3 * (1.0 + rank) for rank in range(hvd.size())) / hvd.size()
    expected = 1 - 0.01 * batches_per_allreduce * hvd.size() * mean
    assert torch.allclose(model[1].weight, torch.full((1, 3), expected)), model[1].weight
