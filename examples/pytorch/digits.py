#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Trains a digit classifier with PyTorch on several ranks.

    hvdrun -np 4 python3 digits.py

What makes it distributed is marked with (1) to (5); the rest is an ordinary script.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

import torch

import hvd.torch as hvd

DATA = Path(__file__).resolve().parent.parent / "data" / "optdigits.csv"


def parse() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--epochs", type=int, default=15, help="passes over the training set (15)")
    parser.add_argument("--batch", type=int, default=16, help="images per rank and step (16)")
    parser.add_argument(
        "--rate", type=float, default=0.03, help="learning rate of one rank; grows with them (0.03)"
    )
    parser.add_argument(
        "--expect", type=float, default=0.96, help="exit with 1 below this test accuracy (0.96)"
    )
    parser.add_argument("--data", type=Path, default=DATA, help="the digits, as CSV")
    options = parser.parse_args()
    if options.epochs < 1 or options.batch < 1:
        parser.error("--epochs and --batch must be 1 or more")
    if not options.data.exists():
        parser.error(f"--data {options.data} does not exist")
    return options


def load(path: Path) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Images and digits for training; every fifth image and its digit for the test."""
    rows = [[int(field) for field in line.split(",")] for line in path.read_text().splitlines()]
    table = torch.tensor(rows)
    images, digits = table[:, :64].float() / 16, table[:, 64]
    is_test = torch.arange(len(table)) % 5 == 4
    return images[~is_test], digits[~is_test], images[is_test], digits[is_test]


def main() -> int:
    """Trains and reports; 1 when the accuracy is below what was expected."""
    options = parse()
    hvd.init()  # (1) joins the job
    # Several ranks share the cores of this machine: one thread each.
    torch.set_num_threads(1)
    torch.manual_seed(hvd.rank())
    images, digits, test_images, test_digits = load(options.data)
    model = torch.nn.Sequential(
        torch.nn.Linear(64, 128),
        torch.nn.ReLU(),
        torch.nn.Linear(128, 64),
        torch.nn.ReLU(),
        torch.nn.Linear(64, 10),
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=options.rate, momentum=0.9)
    # (2) gradients become averages over all ranks
    optimizer = hvd.DistributedOptimizer(optimizer, model.named_parameters())
    # (3) all ranks start with the values of rank 0
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    hvd.broadcast_optimizer_state(optimizer, root_rank=0)

    per_step = options.batch * hvd.size()
    steps = len(images) // per_step
    if steps == 0:
        print(f"--batch {options.batch} on {hvd.size()} ranks is more than {len(images)} images")
        return 2
    accuracy = 0.0
    for epoch in range(options.epochs):
        order = torch.randperm(len(images), generator=torch.Generator().manual_seed(epoch))
        began, waited = time.perf_counter(), hvd.statistics().waited_seconds
        total = 0.0
        for step in range(steps):
            # (4) each rank takes its own part of the step's images
            first = step * per_step + hvd.rank() * options.batch
            part = order[first : first + options.batch]
            for group in optimizer.param_groups:
                group["lr"] = hvd.learning_rate(options.rate, epoch * steps + step, steps)
            optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(model(images[part]), digits[part])
            loss.backward()
            optimizer.step()  # (5) waits for the averages, then updates
            total += loss.item()
        took = time.perf_counter() - began
        waited = hvd.statistics().waited_seconds - waited
        accuracy = test_accuracy(model, test_images, test_digits)
        mean_loss = hvd.allreduce(torch.tensor(total / steps), name="loss").item()
        if hvd.rank() == 0:
            print(
                f"epoch {epoch + 1:2}/{options.epochs}  loss {mean_loss:.4f}  "
                f"accuracy {100 * accuracy:5.2f} %  {steps * per_step / took:7.0f} images/s  "
                f"waiting {100 * waited / took:4.1f} %",
                flush=True,
            )
    is_good = accuracy >= options.expect
    if hvd.rank() == 0:
        print(f"\n{hvd.describe()}\ndevices: CPU on every rank, torch {torch.__version__}")
        print(
            f"final test accuracy {100 * accuracy:.2f} % (expected {100 * options.expect:.2f} %)"
            + ("" if is_good else ": TOO LOW")
        )
    return 0 if is_good else 1


def test_accuracy(model: torch.nn.Module, images: torch.Tensor, digits: torch.Tensor) -> float:
    """Share of the test set that the model gets right; each rank looks at its part."""
    mine = slice(hvd.rank(), None, hvd.size())
    with torch.no_grad():
        right = (model(images[mine]).argmax(1) == digits[mine]).sum()
    return hvd.allreduce(right, op=hvd.Sum, name="accuracy").item() / len(images)


if __name__ == "__main__":
    sys.exit(main())
