#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Trains a small CNN on synthetic and on real images, and says what reading the real ones costs.

    hvdrun -np 2 python3 input_pipeline.py

Synthetic images are made once and used again: the rate is that of computing and averaging alone.
Real ones (scanned digits, 8 x 8) are parsed from text for every batch: by the rank between its steps,
ahead of them by a thread (hvd.data), and by processes of a DataLoader. hvd.data measures the wait for
each batch and says whether input is the bottleneck. What makes it distributed is marked with (1) to
(5).
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import NamedTuple

import torch
from digits import DATA
from torch.utils.data import DataLoader, Dataset

import hvd.torch as hvd
from hvd.data import PrefetchLoader


def parse() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--epochs", type=int, default=3, help="passes over the images (3)")
    add("--batch", type=int, default=32, help="images per rank and step (32)")
    add("--rate", type=float, default=0.02, help="learning rate of one rank (0.02)")
    add("--workers", type=int, default=1, help="processes that read for each rank (1)")
    add("--data", type=Path, default=DATA, help="the digits, as CSV")
    options = parser.parse_args()
    if options.epochs < 1 or options.batch < 1 or options.workers < 0:
        parser.error("--epochs and --batch are 1 or more, --workers 0 or more")
    return options


class Digits(Dataset):
    """One line of text per digit, parsed when it is asked for."""

    def __init__(self, path: Path) -> None:
        self.lines = path.read_text().splitlines()

    def __len__(self) -> int:
        return len(self.lines)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        *pixels, digit = [int(field) for field in self.lines[index].split(",")]
        return torch.tensor(pixels).reshape(1, 8, 8) / 16, digit


class Seen(NamedTuple):
    """What one kind of input came to on this rank."""

    images_per_second: float
    input_share: float  # of the time, spent waiting for the next batch
    loss: float


def network() -> torch.nn.Module:
    """Images (N, 1, 8, 8) to scores (N, 10)."""
    nn = torch.nn
    return nn.Sequential(
        *(nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.Flatten()),
        nn.Linear(32 * 4 * 4, 10),
    )


def train(name: str, options: argparse.Namespace, batches: PrefetchLoader) -> Seen:
    """Trains a new network on the batches, several times over."""
    torch.manual_seed(1)
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=options.rate * hvd.size(), momentum=0.9)
    # (2) gradients become averages over all ranks
    named = [(f"{name}.{key}", parameter) for key, parameter in model.named_parameters()]
    optimizer = hvd.DistributedOptimizer(optimizer, named)
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)  # (3) all start as rank 0 does
    began, images_seen, loss = time.perf_counter(), 0, torch.zeros(())
    for _ in range(options.epochs):
        for images, digits in batches:
            optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(model(images), digits)
            loss.backward()
            optimizer.step()  # (5) waits for the averages, then updates
            images_seen += len(images)
    took = time.perf_counter() - began
    return Seen(images_seen / took, batches.statistics().wait_share, loss.item())


def main() -> int:
    """Trains with each kind of input and compares them."""
    options = parse()
    hvd.init()  # (1) joins the job
    torch.set_num_threads(1)
    digits = Digits(options.data)
    # (4) each rank has its own images: every size-th line, the same number on all ranks
    each = len(digits) // hvd.size()
    mine = torch.utils.data.Subset(digits, range(hvd.rank(), each * hvd.size(), hvd.size()))

    def read_by(workers: int, ahead: int) -> PrefetchLoader:
        loader = DataLoader(
            mine,
            options.batch,
            shuffle=True,
            num_workers=workers,
            persistent_workers=workers > 0,
            multiprocessing_context="fork" if workers else None,
        )
        return PrefetchLoader(loader, depth=ahead)

    same = (torch.rand(options.batch, 1, 8, 8), torch.randint(10, (options.batch,)))
    kinds = {
        "synthetic": PrefetchLoader([same] * -(-each // options.batch), depth=0),
        "real, read by the rank": read_by(0, 0),
        "real, read ahead by a thread": read_by(0, 2),
    }
    if options.workers:
        kinds[f"real, read by {options.workers} beside it"] = read_by(options.workers, 0)
    rows = [list(train(f"net{i}", options, kind)) for i, kind in enumerate(kinds.values())]
    verdicts = [kind.report(quiet=True).text for kind in kinds.values()]
    means = hvd.allreduce(torch.tensor(rows, dtype=torch.float64), name="rows").tolist()
    if hvd.rank() == 0:
        for name, (rate, share, loss), verdict in zip(kinds, means, verdicts):
            print(
                f"{name:28} {rate:8.0f} images/s per rank  {rate / means[0][0]:5.2f} of synthetic  "
                f"waiting for input {100 * share:4.1f} %  last loss {loss:.3f}\n"
                f"    {verdict}"
            )
    return 0


if __name__ == "__main__":
    sys.exit(main())
