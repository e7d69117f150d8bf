# SPDX-License-Identifier: Apache-2.0
"""Runs our benchmarks and those of the peers one after another, and prints tables with ratios.

compare.py BUILD FOLDER [TABLE...]: BUILD holds hvdrun and hvd_peer, FOLDER the peers that could be compiled. Tables:
allreduce, operations, lists, oversubscribed, tcp, nodes, mpi, step, hooks, tensorflow, start; all of them
where none is named.
"""

import contextlib
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

_HERE = pathlib.Path(__file__).resolve().parent
_LISTS = [str(_HERE / f"shapes_{name}.txt") for name in ("resnet50", "vgg16", "bert_base")]


def figures(text: str) -> dict:
    """`name value` lines -> {name: value}; a line that is none of these is left out."""
    found = {}
    for line in text.splitlines():
        # hvdrun puts a rank before each line.
        words = line.split()
        if len(words) >= 2 and words[-2].isidentifier():
            with contextlib.suppress(ValueError):
                found[words[-2]] = float(words[-1])
    return found


def outcome(label: str, commands: list, seconds: float = 600) -> dict:
    """Runs the commands side by side (one per rank, or one that starts the ranks)."""
    missing = [c[0] for c in commands if not _is_there(c[0])]
    if missing:
        print(f"-- {label}: missing ({missing[0]})", flush=True)
        return {}
    running = [
        subprocess.Popen(
            c, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
        )
        for c in commands
    ]
    texts = []
    for process in running:
        try:
            texts.append(process.communicate(timeout=seconds)[0])
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, 9)
            texts.append(process.communicate()[0] + f"\nended: not done after {seconds} s")
    got = figures("\n".join(texts))
    if any(p.returncode for p in running) or not got:
        print(f"-- {label}: failed: {texts[0].strip()[-400:]}", flush=True)
    else:
        print(f"-- {label}: done", flush=True)
    return got


def _is_there(program: str) -> bool:
    folders = os.environ["PATH"].split(":")
    return any((pathlib.Path(folder) / program).exists() for folder in folders) or os.path.exists(
        program
    )


def start_ms(command: list, rounds: int = 9) -> float:
    """Median milliseconds from start to end of a command; 0 if it fails."""
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        if subprocess.run(command, capture_output=True, timeout=60, check=False).returncode != 0:
            return 0.0
        times.append(1e3 * (time.perf_counter() - start))
    return statistics.median(times)


class Bench:
    """The programs of one build and its peers."""

    def __init__(self, build: pathlib.Path, folder: pathlib.Path):
        self.hvdrun = str(build / "launcher" / "hvdrun")
        self._ours = str(build / "tests" / "bench" / "hvd_peer")
        self._folder = folder

    def ours(self, suites: list, ranks: int = 2, options: tuple = ()) -> dict:
        launch = [self.hvdrun, "-np", str(ranks), *options]
        return outcome(f"hvd C++ {' '.join(options)}", [[*launch, self._ours, *suites]])

    def ours_torch(self, suites: list) -> dict:
        program = [sys.executable, str(_HERE / "torch_hvd.py"), *suites]
        return outcome("hvd torch", [[self.hvdrun, "-np", "2", *program]])

    def open_mpi(self, suites: list, ranks: int = 2, options: tuple = ()) -> dict:
        launch = ["mpirun.openmpi", "--oversubscribe", *options, "-np", str(ranks)]
        return outcome("Open MPI", [[*launch, f"{self._folder}/mpi_openmpi", *suites]])

    def mpich(self, suites: list, ranks: int = 2) -> dict:
        program = [f"{self._folder}/mpi_mpich", *suites]
        return outcome("MPICH", [["mpiexec.mpich", "-np", str(ranks), *program]], 300)

    def ours_over_mpi(self, launch: list, suites: list) -> dict:
        """Two nodes of one rank, between which the MPI of that launcher carries our data."""
        ranks = [
            ["-np", "1", "env", f"HVD_VIRTUAL_NODE={node}", "HVD_BACKEND=mpi", self._ours, *suites]
            for node in (0, 1)
        ]
        return outcome(f"hvd over {launch[0]}", [[*launch, *ranks[0], ":", *ranks[1]]], 300)

    def limit(self, suites: list) -> dict:
        """Two threads that do the least work, as a yardstick."""
        return outcome("least work", [[f"{self._folder}/limit_peer", *suites]])

    def gloo(self, suites: list, ranks: int = 2) -> dict:
        with tempfile.TemporaryDirectory() as meeting:
            program = f"{self._folder}/gloo_peer"
            commands = [[program, str(r), str(ranks), meeting, *suites] for r in range(ranks)]
            return outcome("Gloo", commands)

    def ddp(self, suites: list) -> dict:
        with tempfile.TemporaryDirectory() as meeting:
            ddp = [sys.executable, str(_HERE / "torch_ddp.py")]
            commands = [[*ddp, str(r), "2", meeting, *suites] for r in range(2)]
            return outcome("DDP over Gloo", commands)

    def ours_ddp(self, suites: list) -> dict:
        program = [sys.executable, str(_HERE / "torch_ddp.py"), "--backend", "hvd", *suites]
        return outcome("DDP over hvd", [[self.hvdrun, "-np", "2", *program]])


def print_table(title: str, ours: dict, peers: dict, others_of_ours: dict | None = None) -> None:
    """One row a case, one column a library; in brackets: time of hvd C++ / time of the peer."""
    columns = [("hvd C++", ours), *(others_of_ours or {}).items(), *peers.items()]
    cases = list(dict.fromkeys(case for _, values in columns for case in values))
    print(f"\n{title}; fresh buffers, microseconds (time of hvd C++ / time of the peer)")
    print(f"{'':22}" + "".join(f"{name:>22}" for name, _ in columns))
    for case in cases:
        row = f"{case:22}"
        for name, values in columns:
            if case not in values:
                row += f"{'-':>22}"
            elif name.startswith("hvd") or case not in ours:
                row += f"{values[case]:22.1f}"
            else:
                row += f"{values[case]:14.1f} ({ours[case] / values[case]:5.2f})"
        print(row)
    sys.stdout.flush()


def allreduce_table(bench: Bench) -> None:
    suites = ["sizes"]
    print_table(
        "allreduce, 2 ranks, shared memory",
        bench.ours(suites),
        {
            "Open MPI": bench.open_mpi(suites),
            "MPICH": bench.mpich(suites),
            "Gloo": bench.gloo(suites),
            "least work": bench.limit(suites),
        },
        {"hvd shared": bench.ours(["shared", *suites]), "hvd torch": bench.ours_torch(suites)},
    )


def operations_table(bench: Bench) -> None:
    suites = ["operations"]
    print_table(
        "the other collectives, 2 ranks, shared memory",
        bench.ours(suites),
        {
            "Open MPI": bench.open_mpi(suites),
            "MPICH": bench.mpich(suites),
            "Gloo": bench.gloo(suites),
            "least work": bench.limit(suites),
        },
        {"hvd, its memory": bench.ours(["library", *suites])},
    )


def lists_table(bench: Bench) -> None:
    print_table(
        "gradient lists, 2 ranks, shared memory",
        bench.ours(_LISTS),
        {
            "Open MPI": bench.open_mpi(_LISTS),
            "MPICH": bench.mpich(_LISTS),
            "DDP over Gloo": bench.ddp(_LISTS),
            "least work": bench.limit(_LISTS),
        },
        {
            "hvd shared": bench.ours(["shared", *_LISTS]),
            "hvd torch": bench.ours_torch(_LISTS[:1]),
            "hvd, DDP": bench.ours_ddp(_LISTS),
        },
    )


def oversubscribed_table(bench: Bench) -> None:
    """More ranks than cores: nothing may collapse."""
    suite = _LISTS[:1]
    for ranks in (4, 8, 16):
        peers = {"Open MPI": bench.open_mpi(suite, ranks)} if ranks == 4 else {}
        print_table(f"{ranks} ranks on {os.cpu_count()} CPUs", bench.ours(suite, ranks), peers)


def tcp_table(bench: Bench) -> None:
    suites = ["sizes"]
    loopback = ("--mca", "btl", "self,tcp", "--mca", "btl_tcp_if_include", "lo")
    print_table(
        "allreduce, 2 nodes of 1 rank (TCP on the loopback)",
        bench.ours(suites, 2, ("--nodes", "2")),
        {"Gloo": bench.gloo(suites), "Open MPI over TCP": bench.open_mpi(suites, 2, loopback)},
    )


def nodes_table(bench: Bench) -> None:
    """Two levels: shared memory in a node, TCP between nodes."""
    suite = _LISTS[:1]
    loopback = ("--mca", "btl", "self,tcp", "--mca", "btl_tcp_if_include", "lo")
    print_table(
        "ResNet-50 gradients, 4 virtual nodes of 2 ranks (Open MPI: 8 ranks over TCP)",
        bench.ours(suite, 8, ("--nodes", "4")),
        {"Open MPI over TCP": bench.open_mpi(suite, 8, loopback)},
    )


def mpi_table(bench: Bench) -> None:
    """MPI knows nothing of the two nodes: on both sides it moves bytes through shared memory."""
    suites = ["sizes"]
    for name, launch, theirs in (
        ("Open MPI", ["mpirun.openmpi", "--oversubscribe"], bench.open_mpi),
        ("MPICH", ["mpiexec.mpich"], bench.mpich),
    ):
        print_table(
            f"allreduce, 2 nodes of 1 rank over {name}, and {name}'s own",
            bench.ours_over_mpi(launch, suites),
            {name: theirs(suites)},
        )


def step_table(bench: Bench) -> None:
    """What the runtime adds to a training step: nothing while idle, little with the optimizer."""
    program = [sys.executable, str(_HERE / "torch_step.py")]
    got = outcome("training step", [[bench.hvdrun, "-np", "2", *program]])
    print()
    for case, milliseconds in got.items():
        local = got[case.rsplit("_", 1)[0] + "_local"]
        print(f"{case:28} {milliseconds:9.3f} ms ({milliseconds / local:4.2f} x the local step)")
    sys.stdout.flush()


def hooks_table(bench: Bench) -> None:
    """What DistributedOptimizer adds to a backward pass that only fills gradients."""
    program = [sys.executable, str(_HERE / "torch_hooks.py"), str(_HERE / "shapes_resnet50.txt")]
    got = outcome("gradient hooks", [[bench.hvdrun, "-np", "2", *program]])
    print()
    for case, milliseconds in got.items():
        print(f"{case:28} {milliseconds:9.3f} ms")
    sys.stdout.flush()


def tensorflow_table(bench: Bench) -> None:
    """What reductions add to steps of TensorFlow and Keras."""
    python = os.environ.get("HVD_TEST_PYTHON", sys.executable)
    found = subprocess.run([python, "-c", "import tensorflow"], capture_output=True, check=False)
    if found.returncode != 0:
        print(f"-- TensorFlow step: {python} has no tensorflow: HVD_TEST_PYTHON names one that has")
        return
    program = [python, str(_HERE / "tensorflow_step.py"), _LISTS[0]]
    got = outcome("TensorFlow step", [[bench.hvdrun, "-np", "2", *program]])
    print(f"\n{'ms, 2 ranks':28} {'median':>9} {'least':>9}")
    for case, milliseconds in got.items():
        if not case.endswith("_least"):
            print(f"{case:28} {milliseconds:9.3f} {got[f'{case}_least']:9.3f}")
    sys.stdout.flush()


def start_table(bench: Bench) -> None:
    idle = bench.ours(["idle"])
    first = bench.ours(["start"])
    many = bench.ours(["start"], 64)
    print(f"\nidle after init: {idle.get('idle_percent', float('nan')):.2f} % of a core per rank")
    print(f"init to first allreduce: {first.get('first_allreduce_ms', float('nan')):.1f} ms")
    for ranks, values in ((2, first), (64, many)):
        memory = values.get("memory_mb", float("nan"))
        print(f"memory per rank after init, {ranks} ranks: {memory:.1f} MB (proportional set size)")
    print(f"hvdrun -np 4 true: {start_ms([bench.hvdrun, '-np', '4', 'true']):.1f} ms (0: failed)")


_TABLES = {
    "allreduce": allreduce_table,
    "operations": operations_table,
    "lists": lists_table,
    "oversubscribed": oversubscribed_table,
    "tcp": tcp_table,
    "nodes": nodes_table,
    "mpi": mpi_table,
    "step": step_table,
    "hooks": hooks_table,
    "tensorflow": tensorflow_table,
    "start": start_table,
}


def main() -> None:
    bench = Bench(pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]))
    wanted = sys.argv[3:] or list(_TABLES)
    unknown = [name for name in wanted if name not in _TABLES]
    if unknown:
        sys.exit(f"compare.py: no table '{unknown[0]}'; there are: {', '.join(_TABLES)}")
    for name in wanted:
        _TABLES[name](bench)


if __name__ == "__main__":
    main()
