# SPDX-License-Identifier: Apache-2.0
"""How long a checkpoint holds up training: save(), and save_async(), and the steps beside its write.

    hvdrun -np 2 python3 tests/bench/checkpoints.py FOLDER [MEGABYTES]

The model is in pieces of 16 MB. Times are medians, on rank 0, with ranks that start together.
"""

import statistics
import sys
import time
from typing import Callable

import torch

import hvd.torch as hvd

_TIMES = 5
_PIECE_BYTES = 16_000_000


def timed(act: Callable[[], object]) -> float:
    hvd.barrier()
    begin = time.perf_counter()
    act()
    return time.perf_counter() - begin


def step() -> float:
    """A loop of the interpreter, which a writer that keeps the interpreter holds up."""
    begin = time.perf_counter()
    sum(range(20_000))
    return time.perf_counter() - begin


def main() -> None:
    folder = sys.argv[1]
    pieces = int(sys.argv[2] if len(sys.argv) > 2 else 400) * 1_000_000 // _PIECE_BYTES
    hvd.init()
    torch.set_num_threads(1)
    model = torch.nn.ParameterList(
        [torch.nn.Parameter(torch.randn(_PIECE_BYTES // 4)) for _ in range(pieces)]
    )
    files = hvd.Checkpoints(folder, keep=1)
    numbers = iter(range(1000))
    waits = [timed(lambda: files.save(next(numbers), model)) for _ in range(_TIMES)]
    first = timed(lambda: files.save_async(next(numbers), model))
    later, complete = [], []
    for _ in range(_TIMES):
        files.wait()
        later.append(timed(lambda: files.save_async(next(numbers), model)))
        complete.append(later[-1] + timed(files.wait))
    alone = [step() for _ in range(1000)]
    files.save_async(next(numbers), model)
    end = time.perf_counter() + statistics.median(complete) / 2
    beside = []
    while time.perf_counter() < end:
        beside.append(step())
    files.wait()
    if hvd.rank() == 0:
        print(
            f"save(): {statistics.median(waits):.3f} s; save_async(): {first:.3f} s at first, then "
            f"{statistics.median(later):.3f} s, and {statistics.median(complete):.3f} s until it is "
            f"written; a loop of the interpreter: {1e3 * statistics.mean(alone):.2f} ms alone, "
            f"{1e3 * statistics.mean(beside):.2f} beside a write, {1e3 * max(beside):.1f} at most"
        )


if __name__ == "__main__":
    main()
