# SPDX-License-Identifier: Apache-2.0
"""Clips gradients between backward and step, as Horovod's documentation says."""

import horovod.torch as hvd
import torch
from torch import nn, optim

hvd.init()
torch.manual_seed(0)
model = nn.Linear(4, 1)
before = model.weight.detach().clone()
optimizer = optim.SGD(model.parameters(), lr=1.0)
optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
hvd.broadcast_parameters(model.state_dict(), root_rank=0)

optimizer.zero_grad()
loss = 100 * model(torch.ones(2, 4) * (1 + hvd.rank())).sum()
loss.backward()
optimizer.synchronize()
norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5)
with optimizer.skip_synchronize():
    optimizer.step()
assert norm > 100
assert len(set(hvd.allgather_object(round(float(norm), 3)))) == 1
change = torch.cat([(model.weight.detach() - before).flatten(), model.bias.grad])
assert abs(change.norm().item() - 0.5) < 1e-4, change
