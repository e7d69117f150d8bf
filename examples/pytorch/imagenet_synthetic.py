#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Trains ResNet-50 on synthetic images of ImageNet's size: images/s of a GPU, and how this scales.

    srun hvdrun python3 imagenet_synthetic.py --batch-size 64
    hvdrun -np 2 python3 imagenet_synthetic.py --image-size 32 --batch-size 2 \\
        --num-warmup-batches 1 --num-iters 2                                    (CPUs, a trial)

First rank 0 trains alone, then all ranks together: the share of its rate that each of them keeps is
the scaling efficiency. What makes it distributed is marked with (1) to (5).
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable

import torch
from resnet50 import ResNet50

import hvd.torch as hvd

CLASSES = 1000


def parse() -> argparse.Namespace:
    """The checked options."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--batch-size", type=int, default=32, help="images per rank and step (32)")
    add("--image-size", type=int, default=224, help="pixels of a side (224)")
    add("--num-warmup-batches", type=int, default=10, help="steps before the first iteration (10)")
    add("--num-batches-per-iter", type=int, default=10, help="steps of an iteration (10)")
    add("--num-iters", type=int, default=10, help="iterations that are measured (10)")
    add("--fp16-allreduce", action="store_true", help="send gradients as float16")
    add("--amp", action="store_true", help="compute in bfloat16 where autocast does")
    add("--cpu", action="store_true", help="compute on the CPUs though there are GPUs")
    options = parser.parse_args()
    for name in ("batch_size", "num_batches_per_iter", "num_iters"):
        if getattr(options, name) < 1:
            parser.error(f"--{name.replace('_', '-')} must be 1 or more")
    if options.image_size < 32:
        parser.error("--image-size must be 32 or more")
    return options


def own_device(cpu: bool) -> torch.device:
    """The GPU of this rank, else the CPU."""
    torch.backends.cudnn.benchmark = True  # all images have one size
    return torch.device("cpu") if cpu else hvd.device()


def say(text: str) -> None:
    """Rank 0 tells it at once, through a pipe as well."""
    if hvd.rank() == 0:
        print(text, flush=True)


def introduce(options: argparse.Namespace, device: torch.device) -> None:
    """What is measured, on what."""
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else "CPU"
    images = f"{options.batch_size} images of {options.image_size} pixels a step"
    say(f"ResNet-50, {images}, {hvd.size()} ranks, rank 0 on {name}")
    if device.type == "cpu" and options.batch_size * options.image_size**2 > 1 << 17:
        say(
            "without a GPU this takes long; a trial: --image-size 32 --batch-size 2 "
            "--num-warmup-batches 1 --num-iters 2"
        )


def rates_of(
    who: str, step: Callable[[], None], device: torch.device, options: argparse.Namespace
) -> list:
    """Images per second in each iteration; those of rank 0 are told as they come."""

    def seconds_of(steps: int) -> float:
        began = time.perf_counter()
        for _ in range(steps):
            step()
        if device.type == "cuda":
            torch.cuda.synchronize(device)  # a step only fills the stream
        return time.perf_counter() - began

    say(f"{who}: {options.num_warmup_batches} steps to warm up")
    seconds_of(options.num_warmup_batches)
    images = options.batch_size * options.num_batches_per_iter
    rates = []
    for number in range(1, options.num_iters + 1):
        rates.append(images / seconds_of(options.num_batches_per_iter))
        say(f"{who}: iteration {number:2}: {rates[-1]:9.1f} images/s on rank 0")
    return rates


def stepping(model: torch.nn.Module, optimizer: torch.optim.Optimizer, batch: tuple, amp: bool):
    """One training step, as a function."""
    images, labels = batch

    def step() -> None:
        optimizer.zero_grad()
        with torch.autocast(images.device.type, torch.bfloat16, enabled=amp):
            scores = model(images)
        torch.nn.functional.cross_entropy(scores.float(), labels).backward()
        optimizer.step()  # (5) puts the update after the averages

    return step


def text_of(rates: list[float]) -> str:
    """Mean and 1.96 standard deviations."""
    return f"{statistics.mean(rates):.1f} +-{1.96 * statistics.pstdev(rates):.1f}"


def main() -> int:
    """Measures and reports."""
    options = parse()
    hvd.init()  # (1) joins the job
    device = own_device(options.cpu)
    introduce(options, device)
    torch.manual_seed(hvd.rank())
    size = options.image_size
    # (4) each rank has images of its own
    images = torch.randn(options.batch_size, 3, size, size, device=device)
    labels = torch.randint(CLASSES, (options.batch_size,), device=device)
    batch = (images, labels)
    model = ResNet50(CLASSES).to(device)

    def sgd() -> torch.optim.Optimizer:
        return torch.optim.SGD(model.parameters(), lr=0.01)

    alone: list[float] = []
    if hvd.rank() == 0:
        step = stepping(model, sgd(), batch, options.amp)
        alone = rates_of("one rank", step, device, options)
    # (3) all ranks start with the values of rank 0, which the others wait for here
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    # (2) gradients become averages over all ranks
    optimizer = hvd.DistributedOptimizer(
        sgd(),
        named_parameters=model.named_parameters(),
        compression=hvd.Compression.fp16 if options.fp16_allreduce else hvd.Compression.none,
    )
    step = stepping(model, optimizer, batch, options.amp)
    mine = rates_of("all ranks", step, device, options)
    # A mean over ranks: the slowest one is not an exception.
    rates = hvd.allreduce(torch.tensor(mine, dtype=torch.float64), name="rates").tolist()
    if hvd.rank() == 0:
        report(device, alone, rates)
    return 0


def report(device: torch.device, alone: list[float], rates: list[float]) -> None:
    """What rank 0 prints at the end."""
    unit = "GPU" if device.type == "cuda" else "CPU rank"
    mean, ranks = statistics.mean(rates), hvd.size()
    print(f"one rank alone: {text_of(alone)} images/s")
    print(f"per {unit}: {text_of(rates)} images/s")
    print(f"on {ranks} ranks: {text_of([ranks * rate for rate in rates])} images/s")
    print(f"scaling efficiency: {100 * mean / statistics.mean(alone):.1f} %")


if __name__ == "__main__":
    sys.exit(main())
