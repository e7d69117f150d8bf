#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Shows what more ranks do to stochastic gradient descent, on a function of two variables.

    hvdrun -np 4 python3 sgd_trajectories.py --png trajectories.png

The function is a long valley, f(x, y) = x^2 / 2 + 10 y^2, and each rank sees its gradient with noise
of its own, as from a small batch. The first 1, 2, ... N ranks descend together, each number in a
process set: the average of n noisy gradients is less noisy by the square root of n.
"""

from __future__ import annotations

import argparse
import math
import sys
from pathlib import Path

import torch

import hvd.torch as hvd

START = (-4.0, 1.0)
FAR = 1e4  # a descent that gets so high has left the valley


def parse() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--steps", type=int, default=1000, help="steps of each descent (1000)")
    add("--rate", type=float, default=0.02, help="learning rate (0.02)")
    add("--scale-rate", action="store_true", help="multiply the rate by the ranks that take part")
    add("--noise", type=float, default=3.0, help="standard deviation of a gradient's noise (3)")
    add("--seed", type=int, default=1, help="of the noise (1)")
    add("--png", type=Path, default=Path("trajectories.png"), help="the drawing (trajectories.png)")
    options = parser.parse_args()
    if options.steps < 2:
        parser.error("--steps must be 2 or more")
    return options


def value(position: torch.Tensor) -> torch.Tensor:
    """The function to be minimised: 0 at (0, 0)."""
    return 0.5 * position[0] ** 2 + 10 * position[1] ** 2


def descend(options: argparse.Namespace, ranks: hvd.ProcessSet) -> list[tuple[float, float]]:
    """The positions of one descent, in which this rank takes part."""
    noise = torch.Generator().manual_seed(options.seed * 1000 + hvd.rank())
    position = torch.nn.Parameter(torch.tensor(START))
    rate = options.rate * (ranks.size() if options.scale_rate else 1)
    optimizer = torch.optim.SGD([position], lr=rate)
    # (2) gradients become averages over the ranks that take part
    optimizer = hvd.DistributedOptimizer(
        optimizer, [(f"position_of_{ranks.size()}", position)], process_set=ranks
    )
    # (3) all begin where rank 0 does
    hvd.broadcast_parameters([("start", position)], root_rank=0, process_set=ranks)
    path = [START]
    for _ in range(options.steps):
        optimizer.zero_grad()
        # (4) each rank sees a slope of its own, as it would on its own part of the data
        tilt = options.noise * torch.randn(2, generator=noise)
        (value(position) + tilt @ position).backward()
        optimizer.step()  # (5) waits for the averages, then updates
        path.append((position[0].item(), position[1].item()))
        if value(position).item() > FAR:  # the same on all ranks of the set
            break
    return path


def wandering(path: list[tuple[float, float]]) -> float:
    """Root mean square distance from the minimum in the second half of the descent."""
    late = path[len(path) // 2 :]
    return math.sqrt(sum(x * x + y * y for x, y in late) / len(late))


def draw(paths: dict[int, list[tuple[float, float]]], target: Path) -> Path:
    """Draws the paths; without matplotlib their numbers go into a CSV file. Returns the file."""
    try:
        import matplotlib
    except ImportError:
        target = target.with_suffix(".csv")
        lines = [f"{n},{i},{x},{y}" for n, p in paths.items() for i, (x, y) in enumerate(p)]
        target.write_text("\n".join(["ranks,step,x,y", *lines]) + "\n")
        print(
            "no matplotlib here (apt-get install python3-matplotlib): numbers in place of a drawing"
        )
        return target
    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, len(paths), figsize=(4 * len(paths), 3.6), squeeze=False)
    xs, ys = torch.meshgrid(
        torch.linspace(-4.5, 2.5, 80), torch.linspace(-1.6, 1.6, 80), indexing="ij"
    )
    for plot, (ranks, path) in zip(axes[0], paths.items()):
        plot.contour(xs.tolist(), ys.tolist(), value(torch.stack([xs, ys])).tolist(), 15, alpha=0.4)
        plot.plot([x for x, _ in path], [y for _, y in path], ".-", markersize=3, linewidth=0.8)
        plot.plot(0, 0, "k+", markersize=10)
        plot.set(xlim=(-4.5, 2.5), ylim=(-1.6, 1.6))
        plot.set_title(
            f"{ranks} rank{'s' if ranks > 1 else ''}: {wandering(path):.2f} off at the end"
        )
    figure.tight_layout()
    figure.savefig(target, dpi=100)
    return target


def main() -> int:
    """Descends with 1 ... N ranks; rank 0 reports and draws."""
    options = parse()
    torch.set_num_threads(1)
    hvd.init()  # (1) joins the job
    paths = {}
    for count in range(1, hvd.size() + 1):
        everyone = count == hvd.size()
        ranks = hvd.global_process_set if everyone else hvd.add_process_set(range(count))
        if ranks.included():
            paths[count] = descend(options, ranks)
    if hvd.rank() == 0:
        alone = wandering(paths[1])
        for count, path in paths.items():
            off = wandering(path)
            if value(torch.tensor(path[-1])).item() > FAR:
                print(f"{count} rank(s): left the valley after {len(path) - 1} steps")
                continue
            print(
                f"{count} rank(s): f = {value(torch.tensor(path[-1])).item():.4f} at the end, "
                f"{off:.3f} from the minimum in the second half, {off / alone:.2f} of one rank's "
                f"(noise alone: {1 / math.sqrt(count):.2f})"
            )
        print(f"drawn: {draw(paths, options.png)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
