# SPDX-License-Identifier: Apache-2.0
"""What DistributedOptimizer adds to a backward pass, one rank, started by hvdrun: torch_hooks.py SHAPES...

For each list: `<list>_added` is the backward pass and synchronize() over filling the gradients alone;
`<list>_submit` the processor time that the hooks take. Medians of the slowest rank in ms.
"small_161" is a list of 161 gradients of 64 elements, where nothing but the hooks takes time.
"""

import pathlib
import statistics
import sys
import time

import torch

import hvd.torch as hvd


class FillGradients(torch.autograd.Function):
    """A loss whose gradients are constants: backward costs one write of each gradient."""

    @staticmethod
    def forward(ctx, *parameters):
        ctx.save_for_backward(*parameters)
        return torch.zeros(())

    @staticmethod
    def backward(ctx, _):
        return tuple(torch.full_like(p, 1.0) for p in ctx.saved_tensors)


def step_ms(weights: list, synchronize) -> tuple:
    """Processor milliseconds of the backward pass, and milliseconds of that with synchronize()."""
    for weight in weights:
        weight.grad = None
    loss = FillGradients.apply(*weights)
    hvd.barrier()
    start, spent = time.perf_counter(), time.thread_time()
    loss.backward()
    spent = time.thread_time() - spent
    synchronize()
    return 1e3 * spent, 1e3 * (time.perf_counter() - start)


def measure(name: str, counts: list, steps: int) -> None:
    alone, weights = (
        [torch.nn.Parameter(torch.zeros(count)) for count in counts] for _ in range(2)
    )
    optimizer = hvd.DistributedOptimizer(
        torch.optim.SGD(weights, lr=0.1),
        [(f"{name}.{i}", w) for i, w in enumerate(weights)],
        wait_in_backward=False,  # what the hooks take is read before the wait
    )
    # By turns, so that both meet the same machine.
    turns = [
        (*step_ms(alone, lambda: None), *step_ms(weights, optimizer.synchronize))
        for _ in range(steps + 3)
    ][3:]
    fill, fill_whole, spent, whole = (statistics.median(one) for one in zip(*turns))
    added = hvd.allreduce(
        torch.tensor([whole - fill_whole, spent - fill]), op=hvd.Max, name="added"
    ).tolist()
    if hvd.rank() == 0:
        print(f"{name}_added {added[0]:.3f}\n{name}_submit {added[1]:.3f}", flush=True)


def main() -> None:
    torch.set_num_threads(1)
    hvd.init()
    measure("small_161", [64] * 161, 200)
    for shapes in map(pathlib.Path, sys.argv[1:]):
        measure(shapes.stem, [int(line) for line in shapes.read_text().split()], 15)
    hvd.shutdown()


if __name__ == "__main__":
    main()
