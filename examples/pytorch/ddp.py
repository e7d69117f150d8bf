#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Trains a digit classifier with PyTorch's DistributedDataParallel over the backend "hvd".

    hvdrun -np 4 python3 ddp.py
    hvdrun -np 4 python3 ddp.py --backend gloo     the same over Gloo, to compare

Only the lines marked with (1) and (2) know of hvd: the rest is what a script of DDP has.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import hvd.torch.distributed  # noqa: F401  (1) makes the backend "hvd" and "hvd://" known

DATA = Path(__file__).resolve().parent.parent / "data" / "optdigits.csv"


def parse() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--backend", default="hvd", choices=["hvd", "gloo"], help="hvd")
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


def mean(value: float) -> float:
    """The mean over ranks."""
    total = torch.tensor(value)
    dist.all_reduce(total)
    return total.item() / dist.get_world_size()


def train_epoch(
    model: torch.nn.Module,
    optimizer: torch.optim.Optimizer,
    images: torch.Tensor,
    digits: torch.Tensor,
    parts: list[torch.Tensor],
) -> float:
    """One pass over this rank's parts of the steps; the mean loss."""
    total = 0.0
    for part in parts:
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(images[part]), digits[part])
        loss.backward()
        optimizer.step()
        total += loss.item()
    return total / len(parts)


def main() -> int:
    """Trains and reports; 1 when the accuracy is below what was expected."""
    options = parse()
    # (2) joins the job that the launcher has started
    dist.init_process_group(options.backend, init_method="hvd://")
    rank, size = dist.get_rank(), dist.get_world_size()
    torch.set_num_threads(1)
    torch.manual_seed(rank)
    images, digits, test_images, test_digits = load(options.data)
    network = torch.nn.Sequential(
        torch.nn.Linear(64, 128),
        torch.nn.ReLU(),
        torch.nn.Linear(128, 64),
        torch.nn.ReLU(),
        torch.nn.Linear(64, 10),
    )
    model = DistributedDataParallel(network, gradient_as_bucket_view=True)
    optimizer = torch.optim.SGD(model.parameters(), lr=options.rate * size, momentum=0.9)
    per_step = options.batch * size
    steps = len(images) // per_step
    if steps == 0:
        print(f"--batch {options.batch} on {size} ranks is more than {len(images)} images")
        return 2
    accuracy = 0.0
    for epoch in range(options.epochs):
        order = torch.randperm(len(images), generator=torch.Generator().manual_seed(epoch))
        chosen = order[: steps * per_step].view(steps, size, options.batch)[:, rank]
        began = time.perf_counter()
        loss = mean(train_epoch(model, optimizer, images, digits, list(chosen)))
        took = time.perf_counter() - began
        with torch.no_grad():
            right = network(test_images).argmax(1) == test_digits
        accuracy = right.float().mean().item()
        if rank == 0:
            print(
                f"epoch {epoch + 1:2}/{options.epochs}  loss {loss:.4f}  "
                f"accuracy {100 * accuracy:5.2f} %  {steps * per_step / took:7.0f} images/s",
                flush=True,
            )
    if rank == 0:
        print(f"DDP over {options.backend}: final test accuracy {100 * accuracy:.2f} %")
    dist.barrier()
    dist.destroy_process_group()
    # Gloo's end may hang where another rank has gone already.
    sys.stdout.flush()
    if options.backend == "gloo":
        os._exit(int(accuracy < options.expect))
    return int(accuracy < options.expect)


if __name__ == "__main__":
    sys.exit(main())
