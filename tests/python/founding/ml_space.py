# SPDX-License-Identifier: Apache-2.0
# ruff: noqa
# fmt: off
"""SberCloud ML Space, "Обучить модель с использованием библиотеки Horovod": PyTorch, as printed."""

from types import SimpleNamespace

import torch
import torch.optim as optim
import horovod.torch as hvd

hvd.init()
torch.manual_seed(hvd.rank())
if not torch.cuda.is_available():
    torch.cuda.set_device = lambda device: None  # there is no GPU here
args = SimpleNamespace(lr=0.05, momentum=0.5)
batch_size = 8
model = torch.nn.Linear(4, 1)
x = torch.randn(64, 4, generator=torch.Generator().manual_seed(0))
train_dataset = torch.utils.data.TensorDataset(x, x.sum(1, keepdim=True))

torch.cuda.set_device(hvd.local_rank())

optimizer = optim.SGD(model.parameters(), lr=args.lr * hvd.size(), momentum=args.momentum)

optimizer = hvd.DistributedOptimizer(optimizer,
named_parameters = model.named_parameters())

hvd.broadcast_parameters(model.state_dict(), root_rank=0)

# Partition dataset among workers using DistributedSampler
train_sampler = torch.utils.data.distributed.DistributedSampler(
train_dataset, num_replicas=hvd.size(), rank=hvd.rank())
train_loader = torch.utils.data.DataLoader(train_dataset,
batch_size=batch_size, sampler=train_sampler)

losses = []
for epoch in range(5):
    train_sampler.set_epoch(epoch)
    for images, labels in train_loader:
        optimizer.zero_grad()
        loss = ((model(images) - labels) ** 2).mean()
        loss.backward()
        optimizer.step()
    losses.append(float(loss.detach()))

if hvd.rank() == 0:
    torch.save(model.state_dict(), "ml-space.pt")  # printed: write smth
weights = [one.detach() for one in model.parameters()]
