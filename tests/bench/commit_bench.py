# SPDX-License-Identifier: Apache-2.0
"""What a commit of elastic training costs: a model of so many MB with Adam, deepcopies beside it.

    hvdrun -np 2 python3 tests/bench/commit_bench.py [--megabytes 10 100] [--repeats 15]

Model and optimizer hold three times the model. `anew` is what a commit was before it kept its memory:
a deepcopy of each part, and an object from rank 0. `partner` commits as much that is each rank's own,
with no step between in which the copies could travel: the worst case.
"""

from __future__ import annotations

import argparse
import copy
import statistics
import time
from collections.abc import Callable

import torch

import hvd.torch as hvd


def milliseconds(action: Callable[[], object], repeats: int) -> list[float]:
    """Of each call, which all ranks begin together."""
    spent = []
    for _ in range(repeats):
        hvd.barrier()
        began = time.perf_counter()
        action()
        spent.append((time.perf_counter() - began) * 1e3)
    return spent


def state_of(megabytes: float) -> hvd.elastic.TorchState:
    """A model of layers of 1 MB, and an Adam that has stepped once."""
    layers = [torch.nn.Linear(512, 512, bias=False) for _ in range(max(1, round(megabytes)))]
    model = torch.nn.Sequential(*layers)
    optimizer = torch.optim.Adam(model.parameters())
    for parameter in model.parameters():
        parameter.grad = torch.ones_like(parameter)
    optimizer.step()
    return hvd.elastic.TorchState(model, optimizer, step=0)


def main() -> None:
    """Prints a line for each size and way, on rank 0."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=float, nargs="+", default=[10, 100])
    parser.add_argument("--repeats", type=int, default=15)
    options = parser.parse_args()
    hvd.init()
    torch.set_num_threads(1)
    for megabytes in options.megabytes:
        state = state_of(megabytes)
        kept: list[object] = []

        def anew(state: hvd.elastic.TorchState = state, kept: list[object] = kept) -> None:
            parts = [copy.deepcopy(one.state_dict()) for one in (state.model, state.optimizer)]
            kept[:] = parts
            hvd.broadcast_object((0.0, 0.0, 0), name="anew")

        state.commit()
        state.commit()  # the second makes the last memory
        anew()
        own = torch.zeros(round(3 * megabytes * 2**18))
        partner = hvd.elastic.TorchState(own=hvd.elastic.PerRank(own))
        hvd.elastic.run(lambda state: state.commit())(partner)
        ways = {"anew": anew, "commit": state.commit, "partner": partner.commit}
        turns: dict[str, list[float]] = {name: [] for name in ways}
        for _ in range(3):
            for name, way in ways.items():
                turns[name] += milliseconds(way, options.repeats)
        turns["asking"] = milliseconds(state.check_host_updates, 300)
        for name, spent in turns.items():
            if hvd.rank() == 0:
                middle, least = statistics.median(spent), min(spent)
                print(f"{megabytes:g} MB: {name:7} median {middle:.3f} ms, least {least:.3f} ms")


if __name__ == "__main__":
    main()
