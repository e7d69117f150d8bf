#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures how fast a known model trains on random data: samples per second of a rank and of all.

    hvdrun -np 4 python3 synthetic_benchmark.py --model resnet50
    hvdrun -np 4 python3 synthetic_benchmark.py --model bert-base --bf16

Run it on 1 rank and on more: where the rate of a rank stays, training scales. What makes it
distributed is marked with (1) to (5).
"""

from __future__ import annotations

import argparse
import contextlib
import statistics
import sys
import time
from typing import Any, NamedTuple

import torch
from bert_base import POSITIONS, VOCABULARY, WIDTH, BertBase
from resnet50 import ResNet50

import hvd.torch as hvd

CLASSES = 1000


class Mlp(torch.nn.Sequential):
    """Three dense layers, for trials: 1 386 472 parameters."""

    def __init__(self) -> None:
        dense, relu = torch.nn.Linear, torch.nn.ReLU
        super().__init__(dense(784, 512), relu(), dense(512, 512), relu(), dense(512, CLASSES))


class Rates(NamedTuple):
    """Samples per second of each iteration, as a mean over ranks, and the share of time waited."""

    per_rank: list[float]
    ranks: int
    waited: float

    def mean(self) -> float:
        """The mean rate of a rank."""
        return statistics.mean(self.per_rank)

    def spread(self) -> float:
        """1.96 standard deviations: 95 of 100 iterations are that near, if they vary normally."""
        return 1.96 * statistics.pstdev(self.per_rank)


def parser() -> argparse.ArgumentParser:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--model", choices=["resnet50", "bert-base", "mlp"], default="resnet50")
    add("--batch-size", type=int, default=32, help="samples per rank and step (32)")
    add("--num-warmup-batches", type=int, default=10, help="steps before the first iteration (10)")
    add("--num-batches-per-iter", type=int, default=10, help="steps of an iteration (10)")
    add("--num-iters", type=int, default=10, help="iterations that are measured (10)")
    add("--fp16-allreduce", action="store_true", help="send gradients as float16")
    add("--bf16", action="store_true", help="compute in bfloat16 where autocast does")
    add("--image-size", type=int, default=224, help="pixels of a side, for resnet50 (224)")
    add("--sequence-length", type=int, default=128, help="tokens, for bert-base (128)")
    add("--layers", type=int, default=12, help="layers of bert-base, fewer for trials (12)")
    add("--threads", type=int, default=0, help="threads of a rank (as hvdrun shares the cores)")
    return parser


def parse() -> argparse.Namespace:
    """The checked options."""
    options = parser().parse_args()
    for name in ("batch_size", "num_batches_per_iter", "num_iters", "layers", "sequence_length"):
        if getattr(options, name) < 1:
            parser().error(f"--{name.replace('_', '-')} must be 1 or more")
    if options.image_size < 32 or options.sequence_length > POSITIONS:
        parser().error(f"--image-size is 32 or more, --sequence-length {POSITIONS} or less")
    return options


def workload(options: argparse.Namespace) -> tuple[torch.nn.Module, torch.Tensor, torch.Tensor]:
    """The model, one batch of random samples, and what to learn of them."""
    size = options.batch_size
    if options.model == "bert-base":
        tokens = torch.randint(VOCABULARY, (size, options.sequence_length))
        return BertBase(options.layers), tokens, torch.randint(WIDTH, (size,))
    target = torch.randint(CLASSES, (size,))
    if options.model == "mlp":
        return Mlp(), torch.randn(size, 784), target
    return ResNet50(CLASSES), torch.randn(size, 3, options.image_size, options.image_size), target


def measure(options: argparse.Namespace) -> Rates:
    """Trains on every rank of the job; the rates, equal on all of them."""
    hvd.init()  # (1) joins the job
    if options.threads:
        torch.set_num_threads(options.threads)
    torch.manual_seed(hvd.rank())
    model, samples, target = workload(options)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    compression = hvd.Compression.fp16 if options.fp16_allreduce else hvd.Compression.none
    # (2) gradients become averages over all ranks
    optimizer = hvd.DistributedOptimizer(
        optimizer, named_parameters=model.named_parameters(), compression=compression
    )
    # (3) all ranks start with the values of rank 0
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    hvd.broadcast_optimizer_state(optimizer, root_rank=0)

    def steps(count: int) -> None:
        for _ in range(count):
            optimizer.zero_grad()
            half: Any = torch.autocast("cpu", torch.bfloat16)
            with half if options.bf16 else contextlib.nullcontext():
                output = model(samples)  # (4) each rank has samples of its own
            torch.nn.functional.cross_entropy(output.float(), target).backward()
            optimizer.step()  # (5) waits for the averages, then updates

    steps(options.num_warmup_batches)
    hvd.barrier()
    began, waited = time.perf_counter(), hvd.statistics().waited_seconds
    rates = []
    for _ in range(options.num_iters):
        start = time.perf_counter()
        steps(options.num_batches_per_iter)
        took = time.perf_counter() - start
        rates.append(options.batch_size * options.num_batches_per_iter / took)
    share = (hvd.statistics().waited_seconds - waited) / (time.perf_counter() - began)
    # A mean over ranks: the slowest one is not an exception.
    means = hvd.allreduce(torch.tensor([*rates, share], dtype=torch.float64), name="rates").tolist()
    return Rates(means[:-1], hvd.size(), means[-1])


def report(options: argparse.Namespace, rates: Rates) -> None:
    """What rank 0 prints."""
    unit = "sequences/s" if options.model == "bert-base" else "images/s"
    print(f"model {options.model}, {options.batch_size} samples per rank and step")
    for number, rate in enumerate(rates.per_rank, start=1):
        print(f"iteration {number:2}: {rate:9.1f} {unit} per rank")
    mean, spread = rates.mean(), rates.spread()
    print(f"per rank: {mean:.1f} +- {spread:.1f} {unit}")
    print(f"on {rates.ranks} ranks: {rates.ranks * mean:.1f} +- {rates.ranks * spread:.1f} {unit}")
    print(f"waiting for gradients: {100 * rates.waited:.1f} % of the time")


def main() -> int:
    """Measures and reports."""
    options = parse()
    rates = measure(options)
    if hvd.rank() == 0:
        report(options, rates)
    return 0


if __name__ == "__main__":
    sys.exit(main())
