#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Trains the digit classifier so that a preemption, a time limit or a lost node costs little.

    hvdrun -np 2 python3 preemptible.py --checkpoints run/checkpoints
    hvdrun test-preempt -np 2 --folder run/checkpoints -- \\
        python3 preemptible.py --checkpoints run/checkpoints --epochs 100000

What makes it survive is marked with (1) to (4). With --requeue in the job script it goes on by itself.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

import digits
import torch

import hvd.torch as hvd


def parse() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--epochs", type=int, default=15, help="passes over the training set (15)")
    parser.add_argument("--batch", type=int, default=16, help="images per rank and step (16)")
    parser.add_argument(
        "--checkpoints", type=Path, default=Path("checkpoints"), help="folder (checkpoints)"
    )
    parser.add_argument(
        "--margin", type=float, default=60, help="stop so many seconds before the limit (60)"
    )
    return parser.parse_args()


def main() -> int:
    """Trains from where the last run has stopped; 0 as well when it is told to stop."""
    options = parse()
    hvd.init()
    torch.set_num_threads(1)
    images, labels, test_images, test_labels = digits.load(digits.DATA)
    model = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.ReLU(), torch.nn.Linear(128, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.03 * hvd.size(), momentum=0.9)
    optimizer = hvd.DistributedOptimizer(optimizer, model.named_parameters())
    checkpoints = hvd.Checkpoints(options.checkpoints, keep=3)
    resumed = checkpoints.resume(model, optimizer)  # (1) all ranks go on from the newest file
    first = resumed.step + 1 if resumed else 0
    per_step = options.batch * hvd.size()
    per_epoch = len(images) // per_step
    if per_epoch == 0:
        print(f"--batch {options.batch} on {hvd.size()} ranks is more than {len(images)} images")
        return 2
    if hvd.rank() == 0:
        restarts = os.environ.get("SLURM_RESTART_COUNT", "0")
        print(f"begins at step {first}, restarts {restarts}", flush=True)

    for step in range(first, options.epochs * per_epoch):
        epoch, place = divmod(step, per_epoch)
        # (2) the order follows from the step alone: a later run goes on in the same one
        order = torch.randperm(len(images), generator=torch.Generator().manual_seed(epoch))
        begin = place * per_step + hvd.rank() * options.batch
        part = order[begin : begin + options.batch]
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(images[part]), labels[part]).backward()
        optimizer.step()
        if hvd.should_stop(margin_seconds=options.margin):  # (3) on all ranks after the same step
            checkpoints.save(step, model, optimizer)
            if hvd.rank() == 0:
                print(f"told to stop: saved step {step}", flush=True)
            return 0
        if place == per_epoch - 1:  # (4) for a node that fails without a word
            checkpoints.save(step, model, optimizer)
    accuracy = digits.test_accuracy(model, test_images, test_labels)
    if hvd.rank() == 0:
        print(f"final test accuracy {100 * accuracy:.2f} % after {options.epochs} epochs")
    return 0


if __name__ == "__main__":
    sys.exit(main())
