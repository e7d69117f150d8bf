# SPDX-License-Identifier: Apache-2.0
"""PyTorch's DistributedDataParallel on lists of gradients, one rank.

Over Gloo: torch_ddp.py RANK SIZE FOLDER SHAPES... Over our backend, started by hvdrun: torch_ddp.py --backend hvd
SHAPES... The backward pass only fills gradients; the time to fill alone is taken off, so the figure is what DDP adds,
with the setting that is fastest for it (gradient_as_bucket_view).
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


def join_gloo(rank: int, size: int, folder: str) -> None:
    meeting = f"file://{folder}/ddp"
    dist.init_process_group("gloo", init_method=meeting, rank=rank, world_size=size)


def main() -> None:
    torch.set_num_threads(1)
    if sys.argv[1:3] == ["--backend", "hvd"]:
        import hvd.torch.distributed  # noqa: F401 (registers the backend)

        dist.init_process_group("hvd", init_method="hvd://")
        lists = sys.argv[3:]
    else:
        join_gloo(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3])
        lists = sys.argv[4:]
    for shapes in lists:
        measure(pathlib.Path(shapes), dist.get_rank())
    # Gloo's teardown in torch 1.13 may hang when another rank is gone already: leave together, without it.
    dist.barrier()
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
