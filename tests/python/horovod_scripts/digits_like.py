# SPDX-License-Identifier: Apache-2.0
"""Trains a classifier of 8 x 8 images, as Horovod's first example does with MNIST."""

import argparse

import horovod
import horovod.torch as hvd
import torch
import torch.nn.functional as F  # noqa: N812 (as every script calls it)
import torch.utils.data.distributed
from torch import nn, optim

parser = argparse.ArgumentParser()
parser.add_argument("--batch-size", type=int, default=16)
parser.add_argument("--epochs", type=int, default=3)
parser.add_argument("--lr", type=float, default=0.05)
parser.add_argument("--momentum", type=float, default=0.5)
parser.add_argument("--seed", type=int, default=42)
parser.add_argument("--fp16-allreduce", action="store_true", default=False)
parser.add_argument("--use-adasum", action="store_true", default=False)
parser.add_argument("--gradient-predivide-factor", type=float, default=1.0)
args = parser.parse_args()
args.cuda = torch.cuda.is_available() and hvd.nccl_built()


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 4, kernel_size=3)
        self.drop = nn.Dropout2d(0.1)
        self.fc = nn.Linear(4 * 9, 4)

    def forward(self, x):
        x = F.relu(F.max_pool2d(self.drop(self.conv(x)), 2))
        return F.log_softmax(self.fc(x.flatten(1)), dim=1)


def images(count, seed):
    """Four patterns with noise."""
    generator = torch.Generator().manual_seed(1)
    patterns = torch.randn(4, 1, 8, 8, generator=generator)
    generator.manual_seed(seed)
    labels = torch.randint(4, (count,), generator=generator)
    noise = torch.randn(count, 1, 8, 8, generator=generator)
    return torch.utils.data.TensorDataset(patterns[labels] + 0.3 * noise, labels)


def metric_average(value, name):
    return hvd.allreduce(torch.tensor(value), name=name).item()


def train(epoch):
    model.train()
    train_sampler.set_epoch(epoch)
    for batch, (data, target) in enumerate(train_loader):
        optimizer.zero_grad()
        loss = F.nll_loss(model(data), target)
        loss.backward()
        optimizer.step()
        if batch % 10 == 0 and hvd.rank() == 0:
            seen = batch * len(data)
            print(f"Train Epoch: {epoch} [{seen}/{len(train_sampler)}]\tLoss: {loss.item():.6f}")


def test():
    model.eval()
    loss, accuracy = 0.0, 0.0
    with torch.no_grad():
        for data, target in test_loader:
            output = model(data)
            loss += F.nll_loss(output, target, reduction="sum").item()
            accuracy += output.argmax(1).eq(target).sum().item()
    loss = metric_average(loss / len(test_sampler), "avg_loss")
    accuracy = metric_average(accuracy / len(test_sampler), "avg_accuracy")
    if hvd.rank() == 0:
        print(f"Test set: Average loss: {loss:.4f}, Accuracy: {100 * accuracy:.2f}%")
    return accuracy


assert horovod.__version__ >= "0.19.0"
hvd.init()
torch.manual_seed(args.seed)
torch.set_num_threads(1)

train_set = images(400, 2)
train_sampler = torch.utils.data.distributed.DistributedSampler(
    train_set, num_replicas=hvd.size(), rank=hvd.rank()
)
train_loader = torch.utils.data.DataLoader(
    train_set, batch_size=args.batch_size, sampler=train_sampler
)
test_set = images(100, 3)
test_sampler = torch.utils.data.distributed.DistributedSampler(
    test_set, num_replicas=hvd.size(), rank=hvd.rank()
)
test_loader = torch.utils.data.DataLoader(test_set, batch_size=50, sampler=test_sampler)

model = Net()
lr_scaler = hvd.size() if not args.use_adasum else 1
if args.use_adasum and args.cuda:
    lr_scaler = hvd.local_size()
optimizer = optim.SGD(model.parameters(), lr=args.lr * lr_scaler, momentum=args.momentum)
hvd.broadcast_parameters(model.state_dict(), root_rank=0)
hvd.broadcast_optimizer_state(optimizer, root_rank=0)
compression = hvd.Compression.fp16 if args.fp16_allreduce else hvd.Compression.none
optimizer = hvd.DistributedOptimizer(
    optimizer,
    named_parameters=model.named_parameters(),
    compression=compression,
    op=hvd.Adasum if args.use_adasum else hvd.Average,
    gradient_predivide_factor=args.gradient_predivide_factor,
)
for epoch in range(1, args.epochs + 1):
    train(epoch)
    accuracy = test()
assert accuracy > 0.9, accuracy
weights = hvd.allgather(torch.cat([p.detach().flatten() for p in model.parameters()])[None])
assert torch.equal(weights[0], weights[1]), "the ranks have different models"
