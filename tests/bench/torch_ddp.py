# SPDX-License-Identifier: Apache-2.0
"""PyTorch's DistributedDataParallel over Gloo on lists of gradients, one rank.

torch_ddp.py RANK SIZE FOLDER SHAPES... The backward pass only fills gradients; the time to fill alone is taken
off, so the figure is what DDP adds, with the setting that is fastest for it (gradient_as_bucket_view).
"""

import os
import pathlib
import statistics
import sys
import time

import torch
import torch.distributed as dist


class FillGradients(torch.autograd.Function):
    """A loss whose gradients are constants: backward costs one write of each gradient."""

    @staticmethod
    def forward(ctx, *parameters):
        ctx.save_for_backward(*parameters)
        return torch.zeros(())

    @staticmethod
    def backward(ctx, _):
        return tuple(torch.full_like(p, 1.0) for p in ctx.saved_tensors)


class Model(torch.nn.Module):
    def __init__(self, counts):
        super().__init__()
        self.weights = torch.nn.ParameterList(torch.nn.Parameter(torch.zeros(n)) for n in counts)

    def forward(self, _):
        return FillGradients.apply(*self.weights)


def step_ms(model: torch.nn.Module, batches: int) -> float:
    """Median milliseconds of a backward pass, by the slowest rank."""
    times = []
    for iteration in range(batches + 2):
        loss = model(torch.zeros(1))
        dist.barrier()
        start = time.perf_counter()
        loss.backward()
        elapsed = torch.tensor([1e3 * (time.perf_counter() - start)])
        dist.all_reduce(elapsed, op=dist.ReduceOp.MAX)
        if iteration >= 2:
            times.append(elapsed.item())
    return statistics.median(times)


def measure(shapes: pathlib.Path, rank: int) -> None:
    model = Model([int(line) for line in shapes.read_text().split()])
    fill = step_ms(model, 9)
    wrapped = torch.nn.parallel.DistributedDataParallel(model, gradient_as_bucket_view=True)
    whole = step_ms(wrapped, 9)
    if rank == 0:
        print(f"{shapes.stem} {1e3 * (whole - fill):.1f}", flush=True)


def main() -> None:
    rank, size = int(sys.argv[1]), int(sys.argv[2])
    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo", init_method=f"file://{sys.argv[3]}/ddp", rank=rank, world_size=size
    )
    for shapes in sys.argv[4:]:
        measure(pathlib.Path(shapes), rank)
    # Gloo's teardown in torch 1.13 may hang when another rank is gone already: leave together, without it.
    dist.barrier()
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
