# SPDX-License-Identifier: Apache-2.0
"""Copies what run_all.py needs of a build into one folder, for a machine that cannot build.

    python3 tests/gpu/collect.py BUILD FOLDER [--nccl [FILE]]

A node with GPUs often has no compiler and no network. The folder has the programs, at their
places, and in lib/ the libraries of theirs that such a machine may lack. NCCL is not among
them, as it is large and comes with a torch; --nccl adds FILE, or that of scripts/gpu_packages.sh.
There: tests/gpu/run.sh FOLDER, with the sources beside it.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
from pathlib import Path

from found import ROOT

PROGRAMS = (
    "launcher/hvdrun",
    "runtime/c/libhvd.so",
    "tests/gpu/gpu_bench",
    "tests/gpu/gpu_table_rank",
    "tests/gpu/libgpu_waits.so",
    "tests/gpu/pack_bench",
    "tests/unit/device/kernels_test",
)
# Of the system, on every machine that has PyTorch, whose libraries may want newer ones; the driver's.
EVERYWHERE = (
    "ld-linux",
    "libc.so",
    "libcuda",
    "libdl",
    "libgcc_s",
    "libm.so",
    "libpthread",
    "librt",
)
EVERYWHERE += ("libstdc++", "linux-vdso")
NCCL = ROOT / "build-tools" / "gpu" / "nvidia" / "nccl" / "lib" / "libnccl.so.2"


def libraries_of(program: Path) -> list[Path]:
    """Those that a program needs, as the loader finds them here."""
    said = subprocess.run(["ldd", str(program)], capture_output=True, text=True, check=True)
    found = []
    for line in said.stdout.splitlines():
        name, _, rest = line.strip().partition(" => ")
        if rest.startswith("/") and not name.startswith(EVERYWHERE):
            found.append(Path(rest.split()[0]))
    return found


def main() -> int:
    """Copies; says how much that is."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("build", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument(
        "--nccl", nargs="?", type=Path, const=NCCL, metavar="FILE", help="NCCL, too (250 to 400 MB)"
    )
    options = parser.parse_args()
    if options.nccl and not options.nccl.is_file():
        print(f"no NCCL at {options.nccl}: scripts/gpu_packages.sh brings it, or --nccl names one")
        return 1
    build = options.build.resolve()
    (options.folder / "lib").mkdir(parents=True, exist_ok=True)
    for program in PROGRAMS:
        source, target = build / program, options.folder / program
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(source.resolve(), target)
        subprocess.run(["strip", "--strip-debug", str(target)], check=True)  # stacks have names
        for library in libraries_of(source):
            if build not in library.resolve().parents:
                shutil.copy2(library.resolve(), options.folder / "lib" / library.name)
    if options.nccl:
        shutil.copy2(options.nccl, options.folder / "lib" / NCCL.name)
    megabytes = (
        sum(file.stat().st_size for file in options.folder.rglob("*") if file.is_file()) / 1e6
    )
    print(f"{options.folder}: {megabytes:.0f} MB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
