# SPDX-License-Identifier: Apache-2.0
# ruff: noqa
# fmt: off
"""The page "Introduction to Horovod": the optimizer with Adasum, as printed."""

from types import SimpleNamespace

import torch
import torch.optim as optim
import horovod.torch as hvd

hvd.init()
torch.manual_seed(hvd.rank())
args = SimpleNamespace(lr=0.05, momentum=0.5)
compression = hvd.Compression.none
model = torch.nn.Linear(4, 1)
hvd.broadcast_parameters(model.state_dict(), root_rank=0)

optimizer = optim.SGD(model.parameters(), lr=args.lr, momentum=args.momentum)
optimizer = hvd.DistributedOptimizer(optimizer,
                                     named_parameters=model.named_parameters(),
                                     compression=compression,
                                     backward_passes_per_step = 5,
                                     op=hvd.AdaSum)

losses = []
for step in range(40):
    optimizer.zero_grad()
    for _ in range(5):
        x = torch.randn(8, 4)
        loss = ((model(x) - x.sum(1, keepdim=True)) ** 2).mean() / 5
        loss.backward()
    optimizer.step()
    losses.append(float(loss.detach()))
weights = [one.detach() for one in model.parameters()]

# The operations that the page lists, with the arguments that it lists.
ones = torch.ones(hvd.size())
results = [
    horovod_torch(*arguments, name=None)
    for horovod_torch, arguments in (
        (hvd.allreduce, (ones,)),
        (hvd.allgather, (ones,)),
        (hvd.broadcast, (ones, 0)),
        (hvd.reducescatter, (ones,)),
        (hvd.alltoall, (ones,)),
    )
]
