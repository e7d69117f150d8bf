# SPDX-License-Identifier: Apache-2.0
"""hvd.torch on GPUs beside torch.distributed over NCCL: torch_bench.py TABLE [--quick], by hvdrun.

hooks      host time of submitting 161 gradients, and of synchronize() until it returns
step       training steps of ResNet-50 and BERT-base: DistributedOptimizer beside
           DistributedDataParallel
phases     where the host is in such steps, one rank's alone beside both; and the time of a step where
           the host runs ahead of the device, as in training
allreduce  sizes from 1 KB to 1 GB beside all_reduce
Rank 0 prints rows "table | case | ours | theirs | ratio"; medians of the slowest rank, ours and theirs
in turns. --quick: little data, to see that it works; over the double of the driver, too, where
torch.distributed takes gloo.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import torch
import torch.distributed as dist

import hvd.torch as hvd

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "examples" / "pytorch"), str(ROOT / "tests" / "python")]

from bert_base import VOCABULARY, BertBase  # noqa: E402 (the path comes first)
from gpu_seam import IS_DOUBLE, own_device  # noqa: E402
from resnet50 import ResNet50  # noqa: E402

QUICK = "--quick" in sys.argv


def finish() -> None:
    """Until the device has done everything."""
    if not IS_DOUBLE:
        torch.cuda.synchronize()


def join_nccl(device: torch.device) -> None:
    folder = hvd.broadcast_object(tempfile.mkdtemp(prefix="hvd-bench-"), 0)
    dist.init_process_group(
        "gloo" if IS_DOUBLE else "nccl",
        init_method=f"file://{folder}/ddp",
        rank=hvd.rank(),
        world_size=hvd.size(),
    )
    dist.all_reduce(torch.ones(1, device=device))


def slowest(times: list[float]) -> float:
    """The median of the rank where it is the greatest."""
    mine = torch.tensor([statistics.median(times)], dtype=torch.float64)
    return hvd.allreduce(mine, op=hvd.Max).item()


def once_us(run: Callable[[], None]) -> float:
    """Microseconds until the device is done."""
    finish()
    hvd.barrier()
    begin = time.perf_counter()
    run()
    finish()
    return 1e6 * (time.perf_counter() - begin)


def compare(seconds: float, ours: Callable[[], None], theirs: Callable[[], None]) -> list[float]:
    """Medians of both, in turns: whatever slows the machine down meets both. As often as fits into
    the seconds, by how long they took to warm up, which all ranks agree on."""
    runs = (ours, theirs)
    for _ in range(1 if QUICK else 4):
        warm = sum(map(once_us, runs))
    turns = 1 if QUICK else min(max(int(1e6 * seconds / slowest([warm])), 3), 100)
    times = [[once_us(run) for run in runs] for _ in range(turns)]
    return [slowest(list(of_one)) for of_one in zip(*times)]


def row(table: str, case: str, ours: float, theirs: float | None = None) -> None:
    if hvd.rank() == 0:
        rest = " | " if theirs is None else f"{theirs:.1f} | {ours / theirs:.2f}"
        print(f"{table} | {case} | {ours:.1f} | {rest}", flush=True)


def hooks(device: torch.device) -> None:
    weights = [torch.nn.Parameter(torch.zeros(64, device=device)) for _ in range(161)]
    optimizer = hvd.DistributedOptimizer(
        torch.optim.SGD(weights, lr=0.0),
        [(f"hooks.{i}", w) for i, w in enumerate(weights)],
        wait_in_backward=False,  # hooks are called without a backward pass
    )
    for weight in weights:
        weight.grad = torch.zeros_like(weight)
    reducer = optimizer._hvd_reducers[0]
    calls = [reducer._hook(index, None) for index in range(len(weights))]
    submit, wait = [], []
    for turn in range(12 if QUICK else 60):
        finish()
        hvd.barrier()
        begin = time.perf_counter()
        for call, weight in zip(calls, weights):
            call(weight)
        middle = time.perf_counter()
        optimizer.synchronize()
        if turn >= 10:
            submit.append(1e6 * (middle - begin))
            wait.append(1e6 * (time.perf_counter() - middle))
    row("hooks", "submit 161 gradients, us of the host", slowest(submit))
    row("hooks", "synchronize() returns, us of the host", slowest(wait))


class Workload(NamedTuple):
    """What a step trains, and on what."""

    name: str
    make: Callable[[], torch.nn.Module]
    loss: Callable[[torch.nn.Module], torch.Tensor]


def workloads(device: torch.device) -> list[Workload]:
    count, pixels, words, layers = (2, 32, 8, 1) if QUICK else (16, 224, 128, 12)
    images = torch.randn(count, 3, pixels, pixels, device=device)
    labels = torch.randint(1000, (count,), device=device)
    tokens = torch.randint(VOCABULARY, (count, words), device=device)

    def of_images(model: torch.nn.Module) -> torch.Tensor:
        return torch.nn.functional.cross_entropy(model(images), labels)

    def of_images_in_bfloat16(model: torch.nn.Module) -> torch.Tensor:
        with torch.autocast(device.type, torch.bfloat16):
            return of_images(model)

    def of_words(model: torch.nn.Module) -> torch.Tensor:
        with torch.autocast(device.type, torch.bfloat16):
            return model(tokens).float().square().mean()

    def bert() -> torch.nn.Module:
        return BertBase(layers, dropout=0.0)

    return [
        Workload(f"ResNet-50, {count} images", ResNet50, of_images),
        Workload(f"ResNet-50 in bfloat16, {count} images", ResNet50, of_images_in_bfloat16),
        Workload(f"BERT-base in bfloat16, {count} x {words} words", bert, of_words),
    ]


class Trainer:
    """A model and its optimizer."""

    def __init__(
        self, work: Workload, model: torch.nn.Module, optimizer: torch.optim.Optimizer
    ) -> None:
        self._work = work
        self._model = model
        self._optimizer = optimizer

    def step(self) -> list[float]:
        """One step; when the forward pass was over, the backward pass, and the update."""
        self._optimizer.zero_grad()
        loss = self._work.loss(self._model)
        forward = time.perf_counter()
        loss.backward()
        backward = time.perf_counter()
        self._optimizer.step()
        return [forward, backward, time.perf_counter()]


def sgd(model: torch.nn.Module) -> torch.optim.Optimizer:
    return torch.optim.SGD(model.parameters(), lr=0.01)


def trainers(work: Workload, device: torch.device) -> tuple[Trainer, Trainer, Trainer]:
    """By ours, by torch.distributed, and of one rank alone."""
    torch.manual_seed(0)
    mine, theirs, own = (work.make().to(device) for _ in range(3))
    optimizer = hvd.DistributedOptimizer(sgd(mine), mine.named_parameters())
    hvd.broadcast_parameters(mine.state_dict(), 0)
    wrapped = torch.nn.parallel.DistributedDataParallel(
        theirs,
        gradient_as_bucket_view=True,
        broadcast_buffers=False,  # nor does the optimizer of ours send them
    )
    return (
        Trainer(work, mine, optimizer),
        Trainer(work, wrapped, sgd(theirs)),
        Trainer(work, own, sgd(own)),
    )


def step(device: torch.device) -> None:
    join_nccl(device)
    for work in workloads(device):
        ours, theirs, _ = trainers(work, device)
        row("step", f"{work.name}, us", *compare(8, ours.step, theirs.step))


def phases(device: torch.device) -> None:
    join_nccl(device)
    warm, turns, ahead = (0, 1, 1) if QUICK else (3, 20, 10)
    for work in workloads(device)[: 1 if QUICK else None]:
        both = dict(zip(("ours", "DDP", "one rank alone"), trainers(work, device)))
        spent: dict[str, list[float]] = {}

        def note(what: str, seconds: float, spent: dict[str, list[float]] = spent) -> None:
            spent.setdefault(what, []).append(1e6 * seconds)

        for turn in range(warm + turns):
            if turn == warm:
                spent.clear()
            for name, trainer in both.items():
                finish()
                hvd.barrier()
                before = time.perf_counter()
                for what, now in zip(("forward", "backward", "update"), trainer.step()):
                    note(f"{name}: host, {what}", now - before)
                    before = now
                finish()
                hvd.barrier()
                before = time.perf_counter()
                for _ in range(ahead):
                    trainer.step()
                finish()
                note(f"{name}: a step of {ahead} in a row", (time.perf_counter() - before) / ahead)
        for what, times in spent.items():
            row("phases", f"{work.name}, {what}, us", slowest(times))


def allreduce(device: torch.device) -> None:
    join_nccl(device)
    for power in range(10, 15 if QUICK else 31, 2):
        tensor = torch.zeros((1 << power) // 4, device=device)
        row(
            "allreduce",
            f"{1 << power} bytes, us",
            *compare(
                3,
                lambda t=tensor: hvd.allreduce_(t, name="bench", op=hvd.Sum),
                lambda t=tensor: dist.all_reduce(t),
            ),
        )


def main() -> int:
    device = own_device()
    hvd.init()
    if hvd.rank() == 0:
        name = "double of a GPU" if IS_DOUBLE else torch.cuda.get_device_name(device)
        print(f"{name}, {hvd.size()} ranks, torch {torch.__version__}\n{hvd.describe()}")
    tables = {"hooks": hooks, "step": step, "phases": phases, "allreduce": allreduce}
    tables[sys.argv[1]](device)
    if dist.is_initialized():
        dist.destroy_process_group()
    hvd.shutdown()
    return 0


if __name__ == "__main__":
    sys.exit(main())
