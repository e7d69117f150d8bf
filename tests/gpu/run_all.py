# SPDX-License-Identifier: Apache-2.0
"""All that there is to run on GPUs, the most telling first, and a table of what came of it.

    python3 tests/gpu/run_all.py BUILD [--only NAME]... [--ranks 2] [--within 540] [--logs FOLDER]

BUILD is a build folder, or what collect.py made of one. Ranks share a GPU where there are more of
them. A part that lacks something (torch, NCCL, compute-sanitizer) is skipped, and says what. Found
by themselves, unless these variables name them: HVD_CUDA_LIBRARY, HVD_NCCL_LIBRARY, HVD_TEST_PYTHON
(whose torch finds a GPU), COMPUTE_SANITIZER. Rows of figures are for docs/reference/performance.md.
Exit code 77 where nothing could be run, without a GPU for one; 1 where something failed, or where
a part that --only named found no time.
"""

from __future__ import annotations

import argparse
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from found import Found, first_gpu, look_around

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
SKIPPED = 77
WITHIN_S = 540  # less than meson.build lets a test take
LISTS = [
    ROOT / "tests" / "bench" / f"shapes_{name}.txt" for name in ("resnet50", "vgg16", "bert_base")
]


class Part(NamedTuple):
    """One program, as so many ranks."""

    name: str
    command: list[str]
    limit_s: float
    ranks: int = 0  # 0: starts them itself, at most 3, or is none
    environment: dict[str, str] = {}
    wants: str = ""  # what the output must match
    needs: tuple[str, ...] = ()  # of "nccl", "torch", "sanitizer"


class Outcome(NamedTuple):
    """What came of a part."""

    name: str
    result: str  # passed, failed, skipped, left out
    seconds: float
    remark: str


def table_parts(build: Path, ranks: int, sizes: list[str]) -> list[Part]:
    """Operation x type x size in GPU memory, over every way there is."""
    program = str(build / "tests" / "gpu" / "gpu_table_rank")
    nccl, staged = [program, "nccl", *sizes], [program, "staged", *sizes]
    fine = r"\bFINE\b"
    return [
        Part("table", nccl, 120, ranks, wants=fine, needs=("nccl",)),
        Part("table-3-ranks", nccl, 120, 3, wants=fine, needs=("nccl",)),
        Part("table-graphs", nccl, 120, ranks, {"HVD_GPU_GRAPHS": "1"}, fine, ("nccl",)),
        Part("table-staged", staged, 120, ranks, {"HVD_BACKEND": "staged"}, fine),
    ]


def step_parts(build: Path, ranks: int, counts: Path, steps: str, most_bytes: str) -> list[Part]:
    """Steps of a model with right values, graphs, waits and times; and beside plain NCCL."""
    bench = str(build / "tests" / "gpu" / "gpu_bench")
    run = [bench, "steps", str(counts), steps]
    waits = {"HVD_CUDA_LIBRARY": str(build / "tests" / "gpu" / "libgpu_waits.so")}
    graphs = {"HVD_GPU_GRAPHS": "1", "HVD_LOG": "nccl"}
    right, replayed = "steps are right", r"[1-9]\d* replayed"
    return [
        Part("steps", run, 90, ranks, wants=right, needs=("nccl",)),
        Part("steps-graphs", run, 90, ranks, graphs, replayed, ("nccl",)),
        Part("steps-waits", run, 90, ranks, waits, r"program's thread.*\| 0\.0 \|", ("nccl",)),
        Part("allreduce", [bench, "allreduce", most_bytes], 120, ranks, needs=("nccl",)),
    ]


def kernel_parts(build: Path, lists: list[Path], bench: list[str]) -> list[Part]:
    """The kernels by themselves."""
    tests = [str(build / "tests" / "unit" / "device" / "kernels_test"), "--need-gpu"]
    pack = str(build / "tests" / "gpu" / "pack_bench")
    parts = [Part("kernels", tests, 120)]
    for mib in "25", "128":
        command = [pack, "--bucket-mib", mib, *bench, *map(str, lists)]
        parts.append(Part(f"packing-{mib}", command, 60))
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
        parts.append(Part(f"{tool}-kernels", [*under, *tests], 150, needs=needs))
        parts.append(
            Part(
                f"{tool}-world", [*under, *table], 150, ranks, wants="FINE", needs=(*needs, "nccl")
            )
        )
    return parts


def torch_parts(python: str, ranks: int, quick: list[str]) -> list[Part]:
    """hvd.torch: its cases, a killed rank, and figures beside torch.distributed."""
    start = [python, str(ROOT / "tests" / "python" / "ranks.py")]
    cases = [*start, "--ranks", str(ranks), "--timeout", "180", "gpu_cases.py"]
    bench = [python, str(HERE / "torch_bench.py")]
    needs = ("torch",)
    return [
        Part("torch-cases", cases, 200, needs=needs),
        Part("killed-rank", [*start, "gpu_failure_cases.py"], 90, needs=needs),
        *[
            Part(f"torch-{table}", [*bench, table, *quick], 120, ranks, needs=needs)
            for table in ("hooks", "step", "allreduce")
        ],
    ]


def parts_of(options: argparse.Namespace, found: Found, scratch: Path) -> list[Part]:
    """Everything, in the order in which it is worth most."""
    build, ranks = options.build, options.ranks
    counts, sizes, steps, most, bench = LISTS[0], [], "60", str(1 << 30), []
    lists = LISTS
    if options.quick:
        counts = scratch / "counts.txt"
        counts.write_text("".join(f"{64 + i}\n" for i in range(161)))
        sizes, steps, most, bench, lists = ["3"], "3", "16384", ["--repeats", "1"], [counts]
    tables = table_parts(build, ranks, sizes)
    step = step_parts(build, ranks, counts, steps, most)
    kernels = kernel_parts(build, lists, bench)
    sanitized = sanitizer_parts(build, ranks, found.sanitizer)
    torch = torch_parts(found.python, ranks, ["--quick"] if options.quick else [])
    return [
        kernels[0], tables[0], *torch[:2], *step, *torch[2:], *kernels[1:], *tables[1:], *sanitized
    ]  # fmt: skip


def started_by(build: Path, part: Part) -> list[str]:
    """The command of a part, by way of hvdrun where it needs ranks."""
    if part.ranks == 0:
        return part.command
    # A host of its own for each rank: NCCL takes ranks of one host on one GPU for a mistake.
    own_host = '[ "$HVD_SHARE_GPU" != 1 ] || export NCCL_HOSTID="gpu-tests-$HVD_RANK"; exec "$@"'
    hvdrun = [str(build / "launcher" / "hvdrun"), "-np", str(part.ranks), "--"]
    return [*hvdrun, "sh", "-c", own_host, "sh", *part.command]


def environment_of(part: Part, found: Found) -> dict[str, str]:
    """What a part sees."""
    environment = {**os.environ, **found.environment, **part.environment}
    if (part.ranks or 3) > found.gpus:
        environment["HVD_SHARE_GPU"] = "1"
    if "torch" in part.needs and not found.is_double:
        environment.pop("HVD_NCCL_LIBRARY", None)  # torch brings its own
    return environment


def run_part(
    command: list[str], environment: dict[str, str], log: Path, seconds: float
) -> tuple[int, str]:
    """Runs it to its end, or to its limit; exit code (124: the limit) and output."""
    with log.open("w+b") as output:
        process = subprocess.Popen(
            command,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            code = process.wait(seconds)
        except subprocess.TimeoutExpired:
            code = 124
            os.killpg(process.pid, signal.SIGTERM)
            try:
                process.wait(15)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
    return code, log.read_text(errors="replace")


def remark_on(text: str) -> str:
    """What a table has room for: the last line that says something."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    skipped = [line for line in lines if "skipped: " in line]
    return (skipped or lines or [""])[-1][:90]


def judge(part: Part, code: int, text: str, seconds: float) -> Outcome:
    """What an exit code and an output mean."""
    if code == SKIPPED:
        return Outcome(part.name, "skipped", seconds, remark_on(text))
    if code == 124:
        return Outcome(part.name, "failed", seconds, f"not done within {seconds:.0f} s")
    if code != 0:
        return Outcome(part.name, "failed", seconds, f"exit code {code}: {remark_on(text)}")
    if part.wants and not re.search(part.wants, text):
        return Outcome(part.name, "failed", seconds, f"its output has no {part.wants}")
    return Outcome(part.name, "passed", seconds, remark_on(text))


def run_parts(parts: list[Part], options: argparse.Namespace, found: Found) -> list[Outcome]:
    """Runs what can be run in time; prints the output of what failed, and every figure."""
    deadline = time.monotonic() + options.within
    outcomes = []
    for part in parts:
        lacks = [found.reasons[need] for need in part.needs if need in found.reasons]
        left = deadline - time.monotonic()
        if lacks:
            outcomes.append(Outcome(part.name, "skipped", 0, lacks[0][:90]))
            continue
        if left < 5:
            outcomes.append(Outcome(part.name, "left out", 0, f"--within {options.within:.0f}"))
            continue
        command = started_by(options.build, part)
        print(f"== {part.name}: {' '.join(part.command)}", flush=True)
        began = time.monotonic()
        log = options.logs / f"{part.name}.log"
        environment = environment_of(part, found)
        code, text = run_part(command, environment, log, min(part.limit_s, left))
        outcome = judge(part, code, text, time.monotonic() - began)
        rows = [line for line in text.splitlines() if " | " in line or "GB/s" in line]
        shown = text.splitlines()[-40:] if outcome.result == "failed" else rows
        if part.name.startswith("packing"):
            shown = text.splitlines()
        if shown:
            print("\n".join(shown), flush=True)
        outcomes.append(outcome)
    return outcomes


def exit_code(outcomes: list[Outcome], named: bool) -> int:
    """Of a run whose parts were named one by one, or of one of everything."""
    results = {outcome.result for outcome in outcomes}
    if "failed" in results or (named and "left out" in results):
        return 1
    return 0 if "passed" in results else SKIPPED


def main() -> int:
    """Runs everything; the table comes last."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("build", type=Path, help="build folder, or a folder made by collect.py")
    parser.add_argument("--only", action="append", metavar="NAME", help="this part alone (again)")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--within", type=float, default=WITHIN_S, metavar="SECONDS")
    parser.add_argument("--logs", type=Path, help="folder of the outputs (default: a new one)")
    parser.add_argument("--quick", action="store_true", help="little data: that all works")
    parser.add_argument("--list", action="store_true", help="the names of the parts")
    options = parser.parse_args()
    options.build = options.build.resolve()
    options.logs = options.logs or Path(tempfile.mkdtemp(prefix="hvd-gpu-"))
    options.logs.mkdir(parents=True, exist_ok=True)
    gpu = first_gpu()
    if gpu.count == 0 and not options.list:
        print(f"skipped: {gpu.reason}")
        return SKIPPED
    found = look_around(options.build, gpu)
    parts = parts_of(options, found, options.logs)
    names = [part.name for part in parts]
    unknown = set(options.only or ()) - set(names)
    if unknown or options.list:
        print("parts:", " ".join(names))
        return 2 if unknown else 0
    parts = [part for part in parts if part.name in (options.only or names)]
    print(f"{gpu.count} GPUs; {found.describe()}; outputs in {options.logs}", flush=True)
    outcomes = run_parts(parts, options, found)
    print(f"\n{'part':16} {'result':8} {'s':>6}  remark")
    for outcome in outcomes:
        print(f"{outcome.name:16} {outcome.result:8} {outcome.seconds:6.1f}  {outcome.remark}")
    failed = sum(outcome.result == "failed" for outcome in outcomes)
    passed = sum(outcome.result == "passed" for outcome in outcomes)
    print(f"{passed} passed, {failed} failed, {len(outcomes) - passed - failed} not run")
    return exit_code(outcomes, bool(options.only))


if __name__ == "__main__":
    sys.exit(main())
