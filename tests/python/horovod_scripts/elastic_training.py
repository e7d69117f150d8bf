# SPDX-License-Identifier: Apache-2.0
"""An elastic loop: commits, an error in the middle, and on from the last commit."""

import horovod.torch as hvd
import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn, optim

hvd.init()
torch.set_num_threads(1)
torch.manual_seed(hvd.rank())
dataset = torch.utils.data.TensorDataset(torch.randn(32, 3), torch.zeros(32, 1))
sampler = hvd.elastic.ElasticSampler(dataset, shuffle=False)
loader = torch.utils.data.DataLoader(dataset, batch_size=4, sampler=sampler)
model = nn.Linear(3, 1)
optimizer = hvd.DistributedOptimizer(
    optim.SGD(model.parameters(), lr=0.01 * hvd.size()), named_parameters=model.named_parameters()
)
resets = []
failures = []


def on_state_reset():
    resets.append(hvd.size())
    for group in optimizer.param_groups:
        group["lr"] = 0.01 * hvd.size()


@hvd.elastic.run
def train(state):
    while state.epoch < 2:
        for batch_idx, (data, target) in enumerate(loader):
            optimizer.zero_grad()
            F.mse_loss(model(data), target).backward()
            optimizer.step()
            state.batch = batch_idx
            state.sampler.record_batch(batch_idx, 4)
            state.seen += 1
            if hvd.rank() == 0 and state.epoch == 1 and batch_idx == 1 and not failures:
                failures.append(state.seen)
                raise hvd.HorovodInternalError("a rank is said to be lost")
            if batch_idx % 2 == 1:
                state.commit()
        state.epoch += 1
        state.sampler.set_epoch(state.epoch)
        state.commit()
    return state.seen


state = hvd.elastic.TorchState(
    model=model, optimizer=optimizer, batch=0, epoch=0, seen=0, sampler=sampler
)
state.register_reset_callbacks([on_state_reset])
seen = train(state)
assert failures == ([6] if hvd.rank() == 0 else []) and resets == [hvd.size()], (failures, resets)
assert seen == 8, seen
assert hvd.allgather(model.weight.detach()).unique(dim=0).shape[0] == 1
if hvd.rank() == 0:
    print(f"{seen} batches of {hvd.size()} ranks, {len(resets)} reset")
