#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Trains the digits in mixed precision: bfloat16 (or float16) beside float32, with a GradScaler.

    hvdrun -np 4 python3 amp.py

When backward() returns, gradients are averages of all ranks; the rest is torch's own loop. A step in
which any rank's gradients overflowed is skipped by all, since the averages overflow with them. What
makes it distributed is marked with (1) to (4).
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

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
    add("--clip", type=float, default=5.0, help="largest norm of all gradients together")
    add("--expect", type=float, default=0.9, help="exit with 1 below this test accuracy (0.9)")
    add("--data", type=Path, default=DATA, help="the digits, as CSV")
    options = parser.parse_args()
    if options.epochs < 1 or options.batch < 1:
        parser.error("--epochs and --batch must be 1 or more")
    return options


def make_scaler() -> Any:
    """A GradScaler that works on CPUs; None where this PyTorch has none (before 2.3)."""
    try:
        return torch.amp.GradScaler("cpu")
    except (AttributeError, TypeError):
        return None


def update(optimizer: Any, model: torch.nn.Module, scaler: Any, clip: float) -> None:
    """One step from scaled gradients."""
    if scaler is None:
        torch.nn.utils.clip_grad_norm_(model.parameters(), clip)
        optimizer.step()
        return
    scaler.unscale_(optimizer)
    torch.nn.utils.clip_grad_norm_(model.parameters(), clip)
    scaler.step(optimizer)
    scaler.update()


def main() -> int:
    """Trains and reports; 1 when the accuracy is below what was expected."""
    options = parse()
    hvd.init()  # (1) joins the job
    torch.set_num_threads(1)
    torch.manual_seed(1)
    images, digits, test_images, test_digits = load(options.data)
    model = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.ReLU(), torch.nn.Linear(128, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=options.rate, momentum=0.9)
    # (2) gradients become averages over all ranks
    optimizer = hvd.DistributedOptimizer(optimizer, model.named_parameters())
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)  # (3) all start as rank 0 does
    scaler = make_scaler()
    per_step = options.batch * hvd.size()
    accuracy = 0.0
    for epoch in range(options.epochs):
        order = torch.randperm(len(images), generator=torch.Generator().manual_seed(epoch))
        for first in range(0, len(images) - per_step + 1, per_step):
            # (4) each rank takes its own part of the step's images
            begin = first + hvd.rank() * options.batch
            part = order[begin : begin + options.batch]
            optimizer.zero_grad()
            with torch.autocast("cpu", torch.bfloat16):
                scores = model(images[part])
            loss = torch.nn.functional.cross_entropy(scores.float(), digits[part])
            (loss if scaler is None else scaler.scale(loss)).backward()
            update(optimizer, model, scaler, options.clip)
        accuracy = test_accuracy(model, test_images, test_digits)
        if hvd.rank() == 0:
            scale = "no GradScaler" if scaler is None else f"scale {scaler.get_scale():.0f}"
            print(f"epoch {epoch + 1:2}  accuracy {100 * accuracy:5.2f} %  {scale}", flush=True)
    if hvd.rank() == 0:
        print(f"scores are {scores.dtype}, gradients {model[0].weight.grad.dtype}")
    return 0 if accuracy >= options.expect else 1


if __name__ == "__main__":
    sys.exit(main())
