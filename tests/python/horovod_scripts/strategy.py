# SPDX-License-Identifier: Apache-2.0
"""What training frameworks build on Horovod: two optimizers, never synchronized by step()."""

from contextlib import ExitStack

import horovod.torch as hvd
import torch
from horovod.common.util import split_list
from horovod.torch import functions, mpi_ops
from torch import nn, optim


class Strategy:
    """Takes a model and optimizers, wraps them, and is asked at each stage of the training."""

    def __init__(self, model, optimizers, schedulers):
        if not hvd.is_initialized():
            hvd.init()
        for optimizer in optimizers:
            for group in optimizer.param_groups:
                group["lr"] *= hvd.size()
        for scheduler in schedulers:
            scheduler.base_lrs = [rate * hvd.size() for rate in scheduler.base_lrs]
        functions.broadcast_parameters(model.state_dict(), root_rank=0)
        for optimizer in optimizers:
            functions.broadcast_optimizer_state(optimizer, root_rank=0)
        self.optimizers = [self.wrapped(model, optimizer) for optimizer in optimizers]
        self.stack = ExitStack()
        for optimizer in self.optimizers:
            self.stack.enter_context(optimizer.skip_synchronize())

    @staticmethod
    def wrapped(model, optimizer):
        own = {parameter for group in optimizer.param_groups for parameter in group["params"]}
        named = [(name, one) for name, one in model.named_parameters() if one in own]
        return hvd.DistributedOptimizer(optimizer, named_parameters=named)

    def post_backward(self):
        for optimizer in self.optimizers:
            optimizer.synchronize()

    def reduce(self, tensor, how="mean"):
        hvd.join()  # a barrier
        return hvd.allreduce(tensor, op=hvd.Sum if how == "sum" else hvd.Average)

    def all_gather(self, tensor):
        return hvd.allgather(tensor.reshape(1, -1))


torch.manual_seed(1)
model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 1))
first, second = optim.SGD(model[0].parameters(), lr=0.1), optim.Adam(model[1].parameters())
scheduler = optim.lr_scheduler.ExponentialLR(first, 0.5)
strategy = Strategy(model, [first, second], [scheduler])
torch.manual_seed(hvd.rank())
for _ in range(3):
    for optimizer in strategy.optimizers:
        optimizer.zero_grad()
    loss = model(torch.randn(2, 4)).pow(2).mean()
    loss.backward()
    strategy.post_backward()
    nn.utils.clip_grad_value_(model.parameters(), 1.0)
    for optimizer in strategy.optimizers:
        optimizer.step()
    scheduler.step()
    mean = strategy.reduce(loss.detach())
    assert abs(strategy.all_gather(loss.detach()).mean() - mean) < 1e-6
strategy.stack.close()
assert isinstance(strategy.optimizers[0], optim.SGD)
assert abs(strategy.optimizers[0].param_groups[0]["lr"] - 0.1 * hvd.size() / 8) < 1e-9
assert strategy.reduce(torch.ones(1), "sum") == mpi_ops.size()
assert split_list(list(range(5)), 2) == [[0, 1, 2], [3, 4]]
assert len(set(hvd.allgather_object(float(model[0].weight.detach().sum())))) == 1
