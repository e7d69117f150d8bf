# SPDX-License-Identifier: Apache-2.0
"""How long hvdrun itself takes: help, completion, starting ranks, and a task of srun.

Usage: launcher_bench.py HVDRUN

Prints a line for each: least and median of the runs. Started by scripts/bench.sh, and by hand; no test.
"""

from __future__ import annotations

import os
import pathlib
import statistics
import subprocess
import sys
import time
from collections.abc import Callable

_HERE = pathlib.Path(__file__).resolve().parent
_RUNS = 30
_STEPS = 9


def measure(run: Callable[[], int], runs: int) -> tuple[float, float]:
    """Least and median milliseconds of a run, the first left out."""
    seconds = []
    for _ in range(runs + 1):
        start = time.perf_counter()
        code = run()
        seconds.append(time.perf_counter() - start)
        if code != 0:
            raise RuntimeError(f"a run ended with {code}")
    return 1000 * min(seconds[1:]), 1000 * statistics.median(seconds[1:])


def report(name: str, least: float, median: float, aim: str) -> None:
    """One line of the table."""
    print(f"{name:<42} least {least:7.1f} ms  median {median:7.1f} ms  aim {aim}", flush=True)


def bare_environment() -> dict[str, str]:
    """The environment of a laptop: no launcher around."""
    outer = ("HVD_", "SLURM_", "PMI", "OMPI_")
    return {k: v for k, v in os.environ.items() if not k.startswith(outer)}


def bench_commands(hvdrun: str) -> None:
    """What happens on one machine."""
    environment = bare_environment()

    def runner(*words: str) -> Callable[[], int]:
        command = [hvdrun, *words]
        return lambda: subprocess.call(
            command, stdout=subprocess.DEVNULL, env=environment, timeout=60
        )

    for words, aim in (
        (("--help",), "10 ms"),
        (("--version",), "10 ms"),
        (("completion", "--values", "SITE"), "20 ms"),
        (("header", "--site", "jean-zay", "--gpus", "8"), "report"),
        (("-np", "4", "true"), "40 ms"),
    ):
        least, median = measure(runner(*words), _RUNS)
        report("hvdrun " + " ".join(words), least, median, aim)


def bench_steps(hvdrun: str) -> None:
    """What hvdrun adds to the tasks of a step, on the test cluster."""
    sys.path.insert(0, str(_HERE.parent / "slurm"))
    import cluster as test_cluster

    reason = test_cluster.why_unavailable()
    if reason:
        print(f"-- srun hvdrun true: left out: {reason}")
        return
    with test_cluster.Cluster("jz") as cluster:

        def step(*words: str) -> Callable[[], int]:
            return lambda: cluster.login(["srun", *words]).returncode

        for nodes, tasks in ((1, 1), (4, 16)):
            size = (f"-N{nodes}", f"-n{tasks}")
            plain = measure(step(*size, "true"), _STEPS)
            ours = measure(step(*size, hvdrun, "true"), _STEPS)
            report(f"srun {' '.join(size)} true", *plain, "-")
            report(f"srun {' '.join(size)} hvdrun true", *ours, "-")
            added = [(with_us - without) / tasks for with_us, without in zip(ours, plain)]
            report("  added, a task", added[0], added[1], "15 ms")


def main() -> None:
    """Measure everything."""
    hvdrun = str(pathlib.Path(sys.argv[1]).resolve())
    print(f"-- load {os.getloadavg()[0]:.1f} on {os.cpu_count()} CPUs")
    bench_commands(hvdrun)
    bench_steps(hvdrun)


if __name__ == "__main__":
    main()
