# SPDX-License-Identifier: Apache-2.0
"""Our side of the comparison from PyTorch, one rank, started by hvdrun: torch_hvd.py SUITE...

A suite is "sizes" or a file of shapes, as in fresh_bench.h.
"""

import pathlib
import statistics
import sys
import time

import torch

import hvd.torch as hvd


def measure(name: str, counts: list, batches: int, iterations: int) -> None:
    """Fresh buffers: every tensor is rewritten, all meet, then only the operation is timed."""
    tensors = [torch.empty(n) for n in counts]
    names = [f"{name}.{i}" for i in range(len(counts))]
    times = []
    for iteration in range(-2, batches * iterations):
        for tensor in tensors:
            tensor.fill_(float(hvd.rank() + 1))
        hvd.barrier()
        start = time.perf_counter()
        if len(tensors) == 1:
            hvd.allreduce_(tensors[0], op=hvd.Sum, name=name)
        else:
            handles = [hvd.allreduce_async_(t, op=hvd.Sum, name=n) for t, n in zip(tensors, names)]
            for handle in handles:
                hvd.synchronize(handle)
        if iteration >= 0:
            times.append(1e6 * (time.perf_counter() - start))
    slowest = hvd.allreduce(
        torch.tensor(times, dtype=torch.float64), op=hvd.Max, name="times"
    ).tolist()
    means = [
        statistics.mean(slowest[b * iterations : (b + 1) * iterations]) for b in range(batches)
    ]
    if hvd.rank() == 0:
        right = tensors[0][0].item() == hvd.size() * (hvd.size() + 1) / 2
        print(
            f"{name} {statistics.median(means):.3f}" if right else f"{name} wrong sum", flush=True
        )


_SIZES = {
    "8B": 2,
    "1KB": 256,
    "16KB": 4096,
    "256KB": 1 << 16,
    "1MB": 1 << 18,
    "16MB": 1 << 22,
    "100MB": 25_000_000,
}


def main() -> None:
    torch.set_num_threads(1)
    hvd.init()
    for suite in sys.argv[1:]:
        if suite == "sizes":
            for label, count in _SIZES.items():
                measure(f"allreduce_{label}", [count], 9, max(2, min(500, 10_000_000 // count)))
        else:
            shapes = pathlib.Path(suite)
            measure(shapes.stem, [int(line) for line in shapes.read_text().split()], 9, 2)
    hvd.shutdown()


if __name__ == "__main__":
    main()
