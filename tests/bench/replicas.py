# SPDX-License-Identifier: Apache-2.0
"""What a comparison of replicas costs: the same steps without and with one in each of them.

    hvdrun -np 2 python3 tests/bench/replicas.py tests/bench/shapes_resnet50.txt

Prints milliseconds of a step, of a comparison, and the share of it where one comes every 100 steps;
medians, on the slowest rank, of blocks that take turns.
"""

import statistics
import sys
import time
from pathlib import Path
from typing import Any, Callable

import torch

import hvd.torch as hvd

_BLOCKS = 8


def mlp() -> tuple[list[torch.nn.Parameter], Callable[[], torch.Tensor]]:
    model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 10))
    data, labels = torch.randn(8, 64), torch.randint(0, 10, (8,))
    return list(model.parameters()), lambda: torch.nn.functional.cross_entropy(model(data), labels)


def listed(path: str) -> tuple[list[torch.nn.Parameter], Callable[[], torch.Tensor]]:
    lines = [line.split("#")[0].split() for line in Path(path).read_text().splitlines()]
    sizes = [int(line[-1]) for line in lines if line]
    weights = [torch.nn.Parameter(torch.zeros(size)) for size in sizes]
    return weights, lambda: torch.stack([one.sum() for one in weights]).sum()


def steps_ms(loss: Callable[[], torch.Tensor], optimizer: Any, steps: int) -> list[float]:
    times = []
    for _ in range(steps):
        start = time.perf_counter()
        optimizer.zero_grad()
        loss().backward()
        optimizer.step()
        times.append(1e3 * (time.perf_counter() - start))
    return times


def measured(
    make: Callable[[], tuple[list[torch.nn.Parameter], Callable[[], torch.Tensor]]], steps: int
) -> tuple[float, float]:
    """A step without comparison, and by how much one with it is longer; with Adam's state."""
    torch.manual_seed(1)
    found: dict[int, list[float]] = {0: [], 1: []}
    both = {}
    for every in found:
        weights, loss = make()
        optimizer = torch.optim.Adam(weights, lr=0.01)
        names = [(f"{len(weights)}.{every}.{i}", one) for i, one in enumerate(weights)]
        both[every] = loss, hvd.DistributedOptimizer(optimizer, names, check_replicas=every)
        steps_ms(*both[every], 5)
    for _ in range(_BLOCKS):
        for every, (loss, optimizer) in both.items():
            found[every] += steps_ms(loss, optimizer, steps)
    without, with_one = (statistics.median(times) for times in found.values())
    return without, with_one - without


def main() -> None:
    torch.set_num_threads(1)
    hvd.init()
    for name, make, steps in (
        ("mlp 64-64-10", mlp, 200),
        *((Path(path).stem, lambda path=path: listed(path), 4) for path in sys.argv[1:]),
    ):
        mine = torch.tensor(measured(make, steps), dtype=torch.float64)
        step, check = hvd.allreduce(mine, op=hvd.Max, name=name).tolist()
        if hvd.rank() == 0:
            share = check / 100 / step
            print(f"{name}: step {step:.3f} ms, comparison {check:.3f} ms, {share:.2%} at 100")
    hvd.shutdown()


if __name__ == "__main__":
    main()
