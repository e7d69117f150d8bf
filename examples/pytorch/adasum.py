#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Trains the digits with averaged gradients and with Adasum, at rates that grow.

    hvdrun -np 4 python3 adasum.py

An average takes as many steps fewer as there are ranks, so its learning rate must grow with them to
learn as much. Adasum (https://arxiv.org/abs/2006.02924) adds what ranks learned where it differs and
averages where it agrees: at the rate of one rank it comes near, whatever the number of ranks. What
makes it distributed is marked with (1) to (5).
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import torch
from digits import DATA, load, test_accuracy

import hvd.torch as hvd


def parse() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--epochs", type=int, default=6, help="passes over the training set (6)")
    add("--batch", type=int, default=16, help="images per rank and step (16)")
    add("--rate", type=float, default=0.05, help="learning rate of one rank (0.05)")
    add("--expect", type=float, default=0.9, help="exit with 1 if Adasum ends below (0.9)")
    add("--data", type=Path, default=DATA, help="the digits, as CSV")
    options = parser.parse_args()
    if options.epochs < 1 or options.batch < 1:
        parser.error("--epochs and --batch must be 1 or more")
    return options


def train(options: argparse.Namespace, op: int, rate: float) -> list[float]:
    """The test accuracy after each epoch."""
    images, digits, test_images, test_digits = load(options.data)
    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=rate)
    # (2) what the ranks learned is put together by `op`
    optimizer = hvd.DistributedOptimizer(optimizer, model.named_parameters(), op=op)
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)  # (3) all start as rank 0 does
    per_step = options.batch * hvd.size()
    accuracies = []
    for epoch in range(options.epochs):
        order = torch.randperm(len(images), generator=torch.Generator().manual_seed(epoch))
        for first in range(0, len(images) - per_step + 1, per_step):
            # (4) each rank takes its own part of the step's images
            begin = first + hvd.rank() * options.batch
            part = order[begin : begin + options.batch]
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(images[part]), digits[part]).backward()
            optimizer.step()  # (5) waits for the others, then updates
        accuracies.append(test_accuracy(model, test_images, test_digits))
    return accuracies


def main() -> int:
    """Trains in each way; 1 when Adasum ends below what was expected."""
    options = parse()
    hvd.init()  # (1) joins the job
    torch.set_num_threads(1)
    ways = {
        "average, rate of one rank": (hvd.Average, options.rate),
        f"average, rate times {hvd.size()}": (hvd.Average, options.rate * hvd.size()),
        "Adasum, rate of one rank": (hvd.Adasum, options.rate),
    }
    accuracies: list[float] = []
    for name, (op, rate) in ways.items():
        accuracies = train(options, op, rate)
        if hvd.rank() == 0:
            print(
                f"{name:26}" + "".join(f"  {100 * value:5.2f} %" for value in accuracies),
                flush=True,
            )
    return 0 if accuracies[-1] >= options.expect else 1


if __name__ == "__main__":
    sys.exit(main())
