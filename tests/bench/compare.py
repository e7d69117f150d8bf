# SPDX-License-Identifier: Apache-2.0
"""Runs our benchmarks and those of the peers in turns, and prints tables with ratios.

compare.py BUILD FOLDER [--rounds N] [--json FILE] [TABLE...]: BUILD holds hvdrun and hvd_peer, FOLDER
the peers that scripts/peers.sh could make. Tables: allreduce, operations, lists, oversubscribed, tcp,
nodes, mpi, step, hooks, tensorflow, start; all of them where none is named. A star marks a case in
which a peer is faster. FILE gets every figure, for figures_page.py.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time
from collections.abc import Callable

from libraries import HERE, Bench, outcome
from measured import LIMIT, OURS, PEER, Column, Measured, text_table

_LISTS = [str(HERE / f"shapes_{name}.txt") for name in ("resnet50", "vgg16", "bert_base")]


def start_ms(command: list[str], rounds: int = 9) -> float:
    """Median milliseconds from start to end of a command; 0 if it fails."""
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        if subprocess.run(command, capture_output=True, timeout=60, check=False).returncode != 0:
            return 0.0
        times.append(1e3 * (time.perf_counter() - start))
    return statistics.median(times)


def _mpi_columns(bench: Bench, suites: list[str], ranks: int = 2) -> list[Column]:
    return [
        Column(mpi.name, PEER, lambda mpi=mpi: mpi.run(suites, ranks))  # type: ignore[misc]
        for mpi in bench.mpis
    ]


def _open_mpi_over_tcp(bench: Bench, suites: list[str], ranks: int) -> list[Column]:
    return [
        Column(f"{mpi.name}, TCP", PEER, lambda mpi=mpi: mpi.run(suites, ranks, True))  # type: ignore[misc]
        for mpi in bench.mpis
        if mpi.is_open_mpi
    ]


def allreduce_tables(bench: Bench) -> list[Measured]:
    suites = ["sizes"]
    columns = [
        Column("hvd C++", OURS, lambda: bench.ours(suites)),
        Column("hvd, shared tensors", OURS, lambda: bench.ours(["shared", *suites])),
        Column("hvd torch", OURS, lambda: bench.ours_torch(suites)),
        *_mpi_columns(bench, suites),
        Column("Gloo", PEER, lambda: bench.gloo(suites)),
        Column("least work", LIMIT, lambda: bench.limit(suites)),
    ]
    return [Measured("allreduce, 2 ranks of one node", "allreduce", columns)]


def operations_tables(bench: Bench) -> list[Measured]:
    suites = ["operations"]
    columns = [
        Column("hvd C++", OURS, lambda: bench.ours(suites)),
        *_mpi_columns(bench, suites),
        Column("Gloo", PEER, lambda: bench.gloo(suites)),
        Column("least work", LIMIT, lambda: bench.limit(suites)),
    ]
    return [Measured("the other collectives, 2 ranks of one node", "operations", columns)]


def lists_tables(bench: Bench) -> list[Measured]:
    columns = [
        Column("hvd C++", OURS, lambda: bench.ours(_LISTS)),
        Column("hvd, shared tensors", OURS, lambda: bench.ours(["shared", *_LISTS])),
        Column("hvd torch", OURS, lambda: bench.ours_torch(_LISTS[:1])),
        Column("DDP over hvd", OURS, lambda: bench.ours_ddp(_LISTS)),
        *_mpi_columns(bench, _LISTS),
        Column("DDP over Gloo", PEER, lambda: bench.ddp(_LISTS)),
        Column("least work", LIMIT, lambda: bench.limit(_LISTS)),
    ]
    return [Measured("lists of gradients, 2 ranks of one node", "lists", columns)]


def oversubscribed_tables(bench: Bench) -> list[Measured]:
    """More ranks than cores: nothing may collapse. Few peers end at all with more than 4."""
    suites = _LISTS[:1]
    tables = []
    for ranks in (4, 8, 16):
        columns = [Column("hvd C++", OURS, lambda ranks=ranks: bench.ours(suites, ranks))]  # type: ignore[misc]
        if ranks == 4:
            columns += _mpi_columns(bench, suites, ranks)
        title = f"ResNet-50's gradients, {ranks} ranks on {os.cpu_count()} CPUs"
        tables.append(Measured(title, f"ranks_{ranks}", columns))
    return tables


def tcp_tables(bench: Bench) -> list[Measured]:
    suites = ["sizes"]
    columns = [
        Column("hvd C++", OURS, lambda: bench.ours(suites, 2, ("--nodes", "2"))),
        *_open_mpi_over_tcp(bench, suites, 2),
        Column("Gloo", PEER, lambda: bench.gloo(suites)),
    ]
    return [Measured("allreduce, 2 nodes of 1 rank, TCP on the loopback", "tcp", columns)]


def nodes_tables(bench: Bench) -> list[Measured]:
    """Two levels: shared memory in a node, TCP between nodes."""
    suites = _LISTS[:1]
    columns = [
        Column("hvd C++", OURS, lambda: bench.ours(suites, 8, ("--nodes", "4"))),
        *_open_mpi_over_tcp(bench, suites, 8),
    ]
    return [Measured("ResNet-50's gradients, 4 virtual nodes of 2 ranks", "nodes", columns)]


def mpi_tables(bench: Bench) -> list[Measured]:
    """MPI knows nothing of the two nodes: on both sides it moves bytes through shared memory."""
    suites = ["sizes"]
    return [
        Measured(
            f"allreduce, 2 nodes of 1 rank over {mpi.name}, and its own",
            f"over_{mpi.name.split()[0].lower()}",
            [
                Column("hvd C++", OURS, lambda mpi=mpi: bench.ours_over_mpi(mpi, suites)),  # type: ignore[misc]
                Column(mpi.name, PEER, lambda mpi=mpi: mpi.run(suites)),  # type: ignore[misc]
            ],
        )
        for mpi in bench.mpis
        if not mpi.name.startswith("Intel")  # there is a plugin for each MPI of a cluster
    ]


def step_lines(bench: Bench) -> None:
    """What the runtime adds to a training step: nothing while idle, little with the optimizer."""
    program = [sys.executable, str(HERE / "torch_step.py")]
    got = outcome("training step", [[bench.hvdrun, "-np", "2", *program]])
    print()
    for case, milliseconds in got.items():
        local = got[case.rsplit("_", 1)[0] + "_local"]
        print(f"{case:28} {milliseconds:9.3f} ms ({milliseconds / local:4.2f} x the local step)")


def hooks_lines(bench: Bench) -> None:
    """What DistributedOptimizer adds to a backward pass that only fills gradients."""
    program = [sys.executable, str(HERE / "torch_hooks.py"), str(HERE / "shapes_resnet50.txt")]
    got = outcome("gradient hooks", [[bench.hvdrun, "-np", "2", *program]])
    print()
    for case, milliseconds in got.items():
        print(f"{case:28} {milliseconds:9.3f} ms")


def tensorflow_lines(bench: Bench) -> None:
    """What reductions add to steps of TensorFlow and Keras."""
    python = os.environ.get("HVD_TEST_PYTHON", sys.executable)
    found = subprocess.run([python, "-c", "import tensorflow"], capture_output=True, check=False)
    if found.returncode != 0:
        print(f"-- TensorFlow step: {python} has no tensorflow: HVD_TEST_PYTHON names one that has")
        return
    program = [python, str(HERE / "tensorflow_step.py"), _LISTS[0]]
    got = outcome("TensorFlow step", [[bench.hvdrun, "-np", "2", *program]])
    print(f"\n{'ms, 2 ranks':28} {'median':>9} {'least':>9}")
    for case, milliseconds in got.items():
        if not case.endswith("_least"):
            print(f"{case:28} {milliseconds:9.3f} {got[f'{case}_least']:9.3f}")


def start_lines(bench: Bench) -> None:
    """What starting costs, and doing nothing."""
    idle = bench.ours(["idle"])
    first = bench.ours(["start"])
    many = bench.ours(["start"], 64)
    print(f"\nidle after init: {idle.get('idle_percent', float('nan')):.2f} % of a core per rank")
    print(f"init to first allreduce: {first.get('first_allreduce_ms', float('nan')):.1f} ms")
    for ranks, values in ((2, first), (64, many)):
        memory = values.get("memory_mb", float("nan"))
        print(f"memory per rank after init, {ranks} ranks: {memory:.1f} MB (proportional set size)")
    print(f"hvdrun -np 4 true: {start_ms([bench.hvdrun, '-np', '4', 'true']):.1f} ms (0: failed)")


_TABLES: dict[str, Callable[[Bench], list[Measured]]] = {
    "allreduce": allreduce_tables,
    "operations": operations_tables,
    "lists": lists_tables,
    "oversubscribed": oversubscribed_tables,
    "tcp": tcp_tables,
    "nodes": nodes_tables,
    "mpi": mpi_tables,
}
_LINES: dict[str, Callable[[Bench], None]] = {
    "step": step_lines,
    "hooks": hooks_lines,
    "tensorflow": tensorflow_lines,
    "start": start_lines,
}


def machine() -> str:
    """Where and when."""
    model = "an unknown processor"
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            model = line.partition(":")[2].strip()
            break
    load = pathlib.Path("/proc/loadavg").read_text().split()[0]
    day = datetime.datetime.now(datetime.timezone.utc).date().isoformat()
    return f"{os.cpu_count()} CPUs ({model}), load {load} before, {day}"


def main() -> None:
    names = [*_TABLES, *_LINES]
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("tables", nargs="*", metavar="TABLE", help=", ".join(names))
    parser.add_argument("--rounds", type=int, default=2, help="turns of each library (default: 2)")
    parser.add_argument("--json", type=pathlib.Path, metavar="FILE", help="file of all figures")
    options = parser.parse_intermixed_args()
    unknown = [name for name in options.tables if name not in names]
    if unknown:
        sys.exit(f"compare.py: no table '{unknown[0]}'; there are: {', '.join(names)}")
    bench = Bench(options.build.resolve(), options.folder.resolve())
    where = machine()
    done: list[Measured] = []
    for name in options.tables or names:
        if name in _LINES:
            _LINES[name](bench)
            continue
        for table in _TABLES[name](bench):
            done.append(table.take_turns(options.rounds))
            print(text_table(done[-1]), flush=True)
        if options.json:
            facts = {"machine": where, "tables": [one.facts() for one in done]}
            options.json.write_text(json.dumps(facts, indent=1) + "\n")


if __name__ == "__main__":
    main()
