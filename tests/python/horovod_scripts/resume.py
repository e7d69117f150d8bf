# SPDX-License-Identifier: Apache-2.0
"""Resumes from the checkpoint that only rank 0 has: object, parameters and optimizer state."""

import os
import tempfile

import horovod.torch as hvd
import torch
from torch import nn, optim

hvd.init()
torch.manual_seed(hvd.rank())
folder = tempfile.mkdtemp()
path = os.path.join(folder, "checkpoint-{epoch}.pt")
model = nn.Linear(2, 2)
optimizer = optim.Adam(model.parameters(), lr=0.5)
if hvd.rank() == 0:
    for epoch in range(3):
        optimizer.zero_grad()
        model(torch.ones(1, 2)).sum().backward()
        optimizer.step()
        state = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
        torch.save(state, path.format(epoch=epoch))

resume_from_epoch = 0
for try_epoch in range(10, -1, -1):
    if os.path.exists(path.format(epoch=try_epoch)):
        resume_from_epoch = try_epoch
        break
resume_from_epoch = hvd.broadcast_object(resume_from_epoch, root_rank=0, name="resume_from_epoch")
assert resume_from_epoch == 2

model = nn.Linear(2, 2)
optimizer = optim.Adam(model.parameters(), lr=0.1)
optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
if hvd.rank() == 0:
    checkpoint = torch.load(path.format(epoch=resume_from_epoch))
    model.load_state_dict(checkpoint["model"])
    optimizer.load_state_dict(checkpoint["optimizer"])
hvd.broadcast_parameters(model.state_dict(), root_rank=0)
hvd.broadcast_optimizer_state(optimizer, root_rank=0)
assert optimizer.param_groups[0]["lr"] == 0.5
steps = [int(state["step"]) for state in optimizer.state_dict()["state"].values()]
assert steps == [3, 3], steps
assert len(set(hvd.allgather_object(model.weight.sum().item()))) == 1
