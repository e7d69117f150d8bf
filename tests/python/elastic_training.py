# SPDX-License-Identifier: Apache-2.0
"""Trains elastically for elastic_losses_cases.py: what a rank loses must not change any loss.

Usage: elastic_training.py FOLDER; VICTIMS: "process:step" of those that are killed, once each.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

import torch

if os.environ.get("NAMES") == "horovod":
    import horovod.torch as hvd
else:
    import hvd.torch as hvd

folder = Path(sys.argv[1])
victims = [tuple(map(int, one.split(":"))) for one in os.environ["VICTIMS"].split()]
process = int(os.environ["HVD_PROCESS"])

torch.set_num_threads(1)
hvd.init()
torch.manual_seed(1)
dataset = torch.utils.data.TensorDataset(torch.randn(144, 8), torch.randn(144, 1))
sampler = hvd.elastic.ElasticSampler(dataset, shuffle=True, seed=3)
loader = torch.utils.data.DataLoader(dataset, batch_size=4, sampler=sampler)
model = torch.nn.Sequential(torch.nn.Linear(8, 32), torch.nn.Tanh(), torch.nn.Linear(32, 1))
optimizer: torch.optim.Optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
if os.environ.get("NAMES") != "ddp":
    optimizer = hvd.DistributedOptimizer(optimizer, model.named_parameters())
# A process that comes to the job at work does nothing in these.
hvd.broadcast_parameters(model.state_dict(), root_rank=0)
hvd.broadcast_optimizer_state(optimizer, root_rank=0)
if os.environ.get("NAMES") != "horovod":
    assert hvd.Checkpoints(folder / "checkpoints").resume(model, optimizer) is None
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=5, gamma=0.7)


def note(*words: object) -> None:
    line = " ".join(str(word) for word in words) + "\n"
    with open(folder / f"process-{process}", "a") as file:
        file.write(line)


def forward_module() -> torch.nn.Module:
    """What reduces the gradients where the optimizer does not: DDP, in a group of its own."""
    if os.environ.get("NAMES") != "ddp":
        return model
    import hvd.torch.distributed as _  # noqa: F401 (makes the backend known)

    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()
    torch.distributed.init_process_group("hvd", init_method="hvd://")
    return torch.nn.parallel.DistributedDataParallel(model, gradient_as_bucket_view=True)


@hvd.elastic.run
def train(state: hvd.elastic.TorchState) -> None:
    module = forward_module()
    while state.epoch < 2:
        for number, (inputs, labels) in enumerate(loader):
            optimizer.zero_grad()
            loss = torch.nn.functional.mse_loss(module(inputs), labels)
            loss.backward()
            if (process, state.step) in victims:
                note("dies", time.monotonic())
                os.kill(os.getpid(), signal.SIGKILL)
            optimizer.step()
            state.scheduler.step()
            state.step += 1
            mean = hvd.allreduce(loss.detach().double(), name="loss").item()
            note("step", state.step, hvd.size(), mean.hex(), time.monotonic())
            state.sampler.record_batch(number, len(inputs))
            state.commit()
        state.epoch += 1
        state.sampler.set_epoch(state.epoch)
        state.commit()


train(
    hvd.elastic.TorchState(model, optimizer, sampler=sampler, scheduler=scheduler, epoch=0, step=0)
)
weights = torch.cat([part.detach().flatten() for part in model.parameters()])
note("ends", hvd.rank(), hvd.size(), hash(tuple(weights.tolist())), scheduler.get_last_lr()[0])
