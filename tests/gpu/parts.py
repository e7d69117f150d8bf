# SPDX-License-Identifier: Apache-2.0
"""What run_all.py runs on GPUs: programs, how long each may take, what it needs, and in which order."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import NamedTuple

from found import ROOT, Found

HERE = Path(__file__).resolve().parent
LISTS = [
    ROOT / "tests" / "bench" / f"shapes_{name}.txt" for name in ("resnet50", "vgg16", "bert_base")
]
# What may help where NCCL does not work at all: for the machine, so that the rest tells something.
REMEDIES = (
    {"HVD_NCCL_REGISTER": "0"},
    {"HVD_NCCL_REGISTER": "0", "NCCL_CUMEM_ENABLE": "0", "NCCL_NVLS_ENABLE": "0"},
)


class Part(NamedTuple):
    """One program, as so many ranks."""

    name: str
    command: list[str]
    limit_s: float
    ranks: int = 0  # 0: starts them itself, at most 3, or is none
    environment: dict[str, str] = {}
    wants: str = ""  # what the output must match
    needs: tuple[str, ...] = ()  # of "nccl", "torch", "sanitizer", "mps"
    remedies: tuple[dict[str, str], ...] = ()  # tried where it fails; what helps stays for the rest


def table_parts(build: Path, ranks: int, sizes: list[str]) -> list[Part]:
    """Operation x type x size in GPU memory, over every way there is; first whether NCCL works."""
    program = str(build / "tests" / "gpu" / "gpu_table_rank")
    nccl, staged = [program, "nccl", *sizes], [program, "staged", *sizes]
    fine = r"\bFINE\b"
    first = [program, "nccl", "3"]
    return [
        Part("nccl", first, 60, ranks, wants=fine, needs=("nccl",), remedies=REMEDIES),
        Part("table", nccl, 90, ranks, wants=fine, needs=("nccl",)),
        Part("table-staged", staged, 60, ranks, {"HVD_BACKEND": "staged"}, fine),
        Part("table-3-ranks", nccl, 100, 3, wants=fine, needs=("nccl",)),
        Part("table-graphs", nccl, 90, ranks, {"HVD_GPU_GRAPHS": "1"}, fine, ("nccl",)),
    ]


def step_parts(build: Path, ranks: int, counts: Path, steps: str, most_bytes: str) -> list[Part]:
    """Steps of a model with right values, graphs, waits and times; and beside plain NCCL."""
    bench = str(build / "tests" / "gpu" / "gpu_bench")
    run = [bench, "steps", str(counts), steps]
    waits = {"HVD_CUDA_LIBRARY": str(build / "tests" / "gpu" / "libgpu_waits.so")}
    graphs = {"HVD_GPU_GRAPHS": "1", "HVD_LOG": "nccl"}
    right, replayed = "steps are right", r"[1-9]\d* replayed"
    return [
        Part("steps", run, 60, ranks, wants=right, needs=("nccl",)),
        Part("allreduce", [bench, "allreduce", most_bytes], 90, ranks, needs=("nccl",)),
        Part("costs", [bench, "costs"], 60, ranks, needs=("nccl",)),
        Part("steps-waits", run, 60, ranks, waits, r"program's thread.*\| 0\.0 \|", ("nccl",)),
        Part("steps-graphs", run, 60, ranks, graphs, replayed, ("nccl",)),
    ]


def kernel_parts(build: Path, lists: list[Path], bench: list[str]) -> list[Part]:
    """The kernels by themselves."""
    tests = [str(build / "tests" / "unit" / "device" / "kernels_test"), "--need-gpu"]
    pack = str(build / "tests" / "gpu" / "pack_bench")
    parts = [Part("kernels", tests, 90)]
    for mib in "25", "128":
        command = [pack, "--bucket-mib", mib, *bench, *map(str, lists)]
        parts.append(Part(f"packing-{mib}", command, 40))
    return parts


def sanitizer_parts(build: Path, ranks: int, sanitizer: list[str]) -> list[Part]:
    """The kernels, and one world of ranks, under compute-sanitizer."""
    # Racecheck looks at shared memory, which these kernels do not use; it is for those that may come.
    tests = [str(build / "tests" / "unit" / "device" / "kernels_test"), "--need-gpu"]
    table = [str(build / "tests" / "gpu" / "gpu_table_rank"), "nccl", "3"]
    needs = ("sanitizer",)
    parts = []
    for tool in "memcheck", "racecheck":
        under = [*sanitizer, "--tool", tool, "--error-exitcode", "1"]
        if tool == "memcheck":  # calls of what a driver may lack fail by design
            under += ["--report-api-errors", "no"]
        parts.append(Part(f"{tool}-kernels", [*under, *tests], 120, needs=needs))
        parts.append(
            Part(
                f"{tool}-world", [*under, *table], 120, ranks, wants="FINE", needs=(*needs, "nccl")
            )
        )
    return parts


def torch_parts(python: str, ranks: int, quick: list[str]) -> list[Part]:
    """hvd.torch: figures beside torch.distributed, a killed rank, and its cases."""
    start = [python, str(ROOT / "tests" / "python" / "ranks.py")]
    cases = [*start, "--ranks", str(ranks), "--timeout", "140", "gpu_cases.py"]
    loops = [*start, "--ranks", str(ranks), "--timeout", "140", "gpu_loops_cases.py"]
    alone = [*start, "--ranks", "1", "--timeout", "140", "gpu_loops_cases.py"]
    segments = {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"}
    bench = [python, str(HERE / "torch_bench.py")]
    needs = ("torch",)
    return [
        *[
            Part(f"torch-{table}", [*bench, table, *quick], limit, ranks, needs=needs)
            for table, limit in (("hooks", 60), ("step", 100), ("phases", 110), ("allreduce", 90))
        ],
        Part("killed-rank", [*start, "gpu_failure_cases.py"], 90, needs=needs),
        Part("torch-cases", cases, 150, needs=needs),
        Part("torch-loops", loops, 150, needs=needs),
        Part("torch-loops-segments", [*loops, "Streams", "Graphs"], 90, 0, segments, needs=needs),
        Part("torch-loops-alone", alone, 90, needs=needs),
    ]


def concurrent(part: Part) -> Part:
    """The same under CUDA's Multi-Process Service (MPS): a GPU that is shared without it runs one
    rank at a time, for milliseconds, and a small allreduce takes as long."""
    return part._replace(name=f"{part.name}-mps", needs=(*part.needs, "mps"))


def parts_of(options: argparse.Namespace, found: Found, scratch: Path) -> list[Part]:
    """Everything, in the order in which it is worth most."""
    build, ranks = options.build, options.ranks
    counts, sizes, steps, most, bench = LISTS[0], [], "60", str(1 << 30), []
    lists = LISTS
    if options.quick:
        counts = scratch / "counts.txt"
        counts.write_text("".join(f"{64 + i}\n" for i in range(161)))
        sizes, steps, most, bench, lists = ["3"], "3", "16384", ["--repeats", "1"], [counts]
    steps_of = step_parts(build, ranks, counts, steps, most)
    nccl, table, staged, three, table_graphs = table_parts(build, ranks, sizes)
    step, allreduce, costs, *waits_and_graphs = steps_of
    memcheck, memcheck_world, *racecheck = sanitizer_parts(build, ranks, found.sanitizer)
    torch = torch_parts(found.python, ranks, ["--quick"] if options.quick else [])
    hooks, torch_step, phases, torch_allreduce, killed, cases, loops, *more_loops = torch
    return [
        *kernel_parts(build, lists, bench),
        *(nccl, table, step, allreduce, hooks, torch_step, killed, cases, loops),
        *(
            *more_loops,
            costs,
            *waits_and_graphs,
            staged,
            concurrent(costs),
            concurrent(allreduce),
            concurrent(torch_step),
            concurrent(phases),
            memcheck,
        ),
        *(
            torch_allreduce,
            concurrent(torch_allreduce),
            phases,
            three,
            table_graphs,
            memcheck_world,
            concurrent(step),
            *racecheck,
        ),
    ]
