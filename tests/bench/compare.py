# SPDX-License-Identifier: Apache-2.0
"""Runs our benchmarks and those of the peers one after another, and prints one table with ratios.

compare.py BUILD FOLDER: BUILD holds hvdrun and allreduce_bench, FOLDER the peers that could be compiled.
"""

import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

_HERE = pathlib.Path(__file__).resolve().parent
_SHAPES = str(_HERE / "shapes_resnet50.txt")
_CASES = ["allreduce_8B", "allreduce_1MB", "allreduce_100MB", "resnet50_list"]
_RANKS = 2


def figures(text: str) -> dict:
    """`name value` lines -> {name: value}; a line that is none of these is left out."""
    found = {}
    for line in text.splitlines():
        # hvdrun puts a rank before each line.
        words = line.split()
        if len(words) >= 2 and words[-2].isidentifier():
            try:
                found[words[-2]] = float(words[-1])
            except ValueError:
                continue
    return found


def outcome(label: str, commands: list, seconds: float = 300) -> dict:
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


def print_table(ours: dict, ours_torch: dict, peers: dict) -> None:
    columns = [("hvd C++", ours), ("hvd torch", ours_torch), *peers.items()]
    print(
        f"\n{_RANKS} ranks, fresh buffers, microseconds (in brackets: time of hvd C++ / time of the peer)"
    )
    print(f"{'':16}" + "".join(f"{name:>20}" for name, _ in columns))
    for case in _CASES:
        row = f"{case:16}"
        for name, values in columns:
            if case not in values:
                row += f"{'-':>20}"
            elif name.startswith("hvd") or case not in ours:
                row += f"{values[case]:20.1f}"
            else:
                row += f"{values[case]:12.1f} ({ours[case] / values[case]:5.2f})"
        print(row)


def main() -> None:
    build, folder = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    hvdrun = str(build / "launcher" / "hvdrun")
    bench = str(build / "tests" / "bench" / "allreduce_bench")
    python = sys.executable
    launch = [hvdrun, "-np", str(_RANKS)]

    ours = outcome("hvd C++", [[*launch, bench, _SHAPES]])
    peers = {
        "Open MPI": outcome(
            "Open MPI", [["mpirun.openmpi", "-np", str(_RANKS), f"{folder}/mpi_openmpi", _SHAPES]]
        ),
        "MPICH": outcome(
            "MPICH", [["mpiexec.mpich", "-np", str(_RANKS), f"{folder}/mpi_mpich", _SHAPES]]
        ),
    }
    with tempfile.TemporaryDirectory() as meeting:
        ranks = [
            [f"{folder}/gloo_peer", _SHAPES, str(r), str(_RANKS), meeting] for r in range(_RANKS)
        ]
        peers["Gloo"] = outcome("Gloo", ranks)
    with tempfile.TemporaryDirectory() as meeting:
        ddp = [python, str(_HERE / "torch_ddp.py"), _SHAPES]
        peers["DDP over Gloo"] = outcome(
            "DDP over Gloo", [[*ddp, str(r), str(_RANKS), meeting] for r in range(_RANKS)]
        )
    ours_torch = outcome("hvd torch", [[*launch, python, str(_HERE / "torch_hvd.py"), _SHAPES]])
    idle = outcome("hvd idle", [[*launch, bench, "idle"]])
    first = outcome("hvd start", [[*launch, bench, "start"]])

    print_table(ours, ours_torch, peers)
    print(f"\nidle after init: {idle.get('idle_percent', float('nan')):.2f} % of a core per rank")
    print(f"init to first allreduce: {first.get('first_allreduce_ms', float('nan')):.1f} ms")
    print(f"hvdrun -np 4 true: {start_ms([hvdrun, '-np', '4', 'true']):.1f} ms (0: failed)")


if __name__ == "__main__":
    main()
