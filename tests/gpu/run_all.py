# SPDX-License-Identifier: Apache-2.0
"""All that hvd.torch does on real GPUs: the cases, a killed rank, and the figures as one table.

    python3 tests/gpu/run_all.py BUILD [--ranks 2] [--no-tables]

Several ranks share a GPU where there are more of them, each with an NCCL_HOSTID of its own. The table
is for docs/reference/performance.md. HVD_TEST_PYTHON names another Python. Exit code 77 where its
torch finds no GPU; 1 where something failed.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
PYTHON_TESTS = HERE.parent / "python"
RUNTIME = HERE.parents[1] / "runtime"
PYTHON = os.environ.get("HVD_TEST_PYTHON", sys.executable)
LIMIT_S = 900
TABLES = ("hooks", "step", "allreduce")
# Each rank of a shared GPU needs a name of its host that no other has.
OWN_HOST = 'export NCCL_HOSTID="bench-$HVD_RANK"; exec "$@"'


def gpus_here() -> int:
    """How many GPUs torch sees; asked elsewhere, so that this process holds none."""
    ask = "import torch; print(torch.cuda.device_count() if torch.cuda.is_available() else 0)"
    ended = subprocess.run([PYTHON, "-c", ask], capture_output=True, text=True, check=False)
    return int(ended.stdout) if ended.returncode == 0 else 0


def runs(build: Path, count: int) -> dict[str, list[str]]:
    """The commands, by what they are for."""
    ranks = [PYTHON, str(PYTHON_TESTS / "ranks.py")]
    hvdrun = [str(build / "launcher" / "hvdrun"), "-np", str(count), "--"]
    bench = [*hvdrun, "sh", "-c", OWN_HOST, "sh", PYTHON, str(HERE / "torch_bench.py")]
    return {
        "cases": [*ranks, "--ranks", str(count), "gpu_cases.py"],
        "a killed rank": [*ranks, "gpu_failure_cases.py"],
        **{table: [*bench, table] for table in TABLES},
    }


def main() -> int:
    """Runs everything; says at the end what failed."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("build", type=Path, help="build folder")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--no-tables", action="store_true", help="no figures")
    options = parser.parse_args()
    gpus = gpus_here()
    if gpus == 0:
        print(f"skipped: the torch of {PYTHON} finds no GPU")
        return 77
    build = options.build.resolve()
    environment = {
        **os.environ,
        "HVD_LIBRARY": str(build / "runtime" / "c" / "libhvd.so"),
        "HVD_TEST_PYTHON": PYTHON,
        "PYTHONPATH": str(RUNTIME / "python"),
    }
    # The killed rank is one of three.
    if max(options.ranks, 3) > gpus:
        environment["HVD_SHARE_GPU"] = "1"
    failed = []
    for name, command in runs(build, options.ranks).items():
        if options.no_tables and name in TABLES:
            continue
        print(f"== {name}: {' '.join(command)}", flush=True)
        ended = subprocess.run(command, env=environment, timeout=LIMIT_S, check=False)
        if ended.returncode != 0:
            failed.append(name)
    print(f"failed: {', '.join(failed)}" if failed else "all passed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
