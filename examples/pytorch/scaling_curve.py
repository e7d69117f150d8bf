#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures training on 1, 2, 4 ... ranks and draws the scaling curve. Start it as it is, once:

    python3 scaling_curve.py --ranks 1 2 4 --png scaling.png      # on this machine
    salloc --nodes=4 --ntasks-per-node=4 python3 scaling_curve.py --ranks 1 2 4 8 16

It is not a rank itself: hvd.run() starts a job for each number, in an allocation over its nodes. Every
rank has the same work whatever their number (weak scaling), so a rate that grows with the ranks is
an efficiency of 100 %. Options it does not know are those of synthetic_benchmark.py.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import synthetic_benchmark

import hvd


def parse() -> tuple[argparse.Namespace, argparse.Namespace]:
    """Our options, and those of the benchmark."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--ranks", type=int, nargs="+", default=[1, 2, 4], help="numbers of ranks (1 2 4)")
    add("--png", type=Path, default=Path("scaling.png"), help="the drawing (scaling.png)")
    add("--timeout", type=float, default=3600, help="seconds for each number of ranks (3600)")
    ours, rest = parser.parse_known_args()
    # A small model, so that a laptop shows something within a minute.
    theirs = synthetic_benchmark.parser()
    theirs.set_defaults(model="mlp", threads=1)
    if min(ours.ranks) < 1:
        parser.error("--ranks are 1 or more")
    return ours, theirs.parse_args(rest)


def draw(ranks: list[int], rates: list[float], target: Path) -> None:
    """Draws the speedup beside the ideal one, where matplotlib is."""
    try:
        import matplotlib
    except ImportError:
        print("no matplotlib here (apt-get install python3-matplotlib): the table alone")
        return
    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(5, 4))
    speedups = [ranks[0] * rate / rates[0] for rate in rates]
    axes.plot(ranks, ranks, "--", color="grey", label="ideal")
    axes.plot(ranks, speedups, "o-", label="measured")
    axes.set(xlabel="ranks", ylabel="speedup", xticks=ranks, title="weak scaling")
    axes.legend()
    figure.tight_layout()
    figure.savefig(target, dpi=100)
    print(f"drawn: {target}")


def main() -> int:
    """Measures each number of ranks, then prints and draws."""
    options, benchmark = parse()
    counts = sorted(set(options.ranks))
    rates = []
    for count in counts:
        measured = hvd.run(
            synthetic_benchmark.measure, (benchmark,), np=count, timeout=options.timeout
        )[0]
        rates.append(count * measured.mean())
        efficiency = rates[-1] / count / (rates[0] / counts[0])
        print(
            f"{count:4} ranks  {rates[-1]:9.1f} samples/s  speedup {counts[0] * rates[-1] / rates[0]:6.2f}"
            f"  efficiency {100 * efficiency:5.1f} %  waiting {100 * measured.waited:4.1f} %",
            flush=True,
        )
    draw(counts, rates, options.png)
    return 0


if __name__ == "__main__":
    sys.exit(main())
