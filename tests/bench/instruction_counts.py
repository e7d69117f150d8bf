#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Count the instructions of one allreduce under callgrind, and compare them with the record.

    instruction_counts.py COUNT_BENCH            print; exit 1 where a count exceeds its record
    instruction_counts.py COUNT_BENCH --record   write the record instead

Each count is the difference between two runs that do n and 2n operations, so start and end of the
program do not count. For "plane" and "wire" it is the sum over both ranks. No clock is involved:
load cannot move the counts. Compilers and C libraries can, by less than MARGIN. A thread that wakes
in between adds a little; so a count that is too high is taken again.
"""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

RECORD = pathlib.Path(__file__).with_name("instruction_counts.json")
MARGIN = 1.3
SKIPPED = 77

# A copy by "rep movsb" counts one instruction per byte.
TUNABLES = "glibc.cpu.hwcaps=-ERMS"

# What, bytes, operations of the shorter run.
WORK = (
    ("engine", 8, 200),
    ("engine", 1 << 20, 4),
    ("rows", 8, 200),
    ("plane", 8, 200),
    ("plane", 1 << 20, 4),
    ("wire", 8, 200),
    ("wire", 1 << 20, 4),
)


def total_count(bench: str, what: str, size: int, operations: int) -> int:
    """Run the program under callgrind; the instructions of all its threads."""
    with tempfile.TemporaryDirectory() as folder:
        command = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={folder}/out"]
        command += [bench, what, str(size), str(operations)]
        run = subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
            env=os.environ | {"GLIBC_TUNABLES": TUNABLES},
        )
    found = re.search(r"Collected : (\d+)", run.stderr)
    if run.returncode != 0 or not found:
        sys.exit(f"{' '.join(command)}: exit {run.returncode}\n{run.stderr}")
    return int(found.group(1))


def count(bench: str, what: str, size: int, operations: int) -> int:
    """Instructions of one operation."""
    short = total_count(bench, what, size, operations)
    return (total_count(bench, what, size, 2 * operations) - short) // operations


def least_count(limit: float, *work: object) -> int:
    """The least of three counts, or the first that is within the limit."""
    least = count(*work)
    for _ in range(2):
        if least > limit:
            least = min(least, count(*work))
    return least


def why_not() -> str:
    """Why the counts cannot be compared here; empty where they can."""
    if shutil.which("valgrind") is None:
        return "valgrind is not installed"
    if " avx2 " not in pathlib.Path("/proc/cpuinfo").read_text(encoding="ascii"):
        return "the record is of a processor with AVX2"
    return ""


def main() -> int:
    bench, record = sys.argv[1], "--record" in sys.argv[2:]
    if reason := why_not():
        print(f"skipped: {reason}")
        return SKIPPED
    known = json.loads(RECORD.read_text(encoding="ascii")) if RECORD.exists() else {}
    found = {}
    grown = []
    for what, size, operations in WORK:
        name = f"{what} {size} B"
        limit = 0 if record else known.get(name, 0) * MARGIN
        found[name] = least_count(limit, bench, what, size, operations)
        print(f"{name:16} {found[name]:10} instructions, record {known.get(name, 0)}", flush=True)
        if found[name] > limit:
            grown.append(name)
    if record:
        RECORD.write_text(json.dumps(found, indent=2) + "\n", encoding="ascii")
        return 0
    for name in grown:
        print(f"{name}: more than {MARGIN} times the record; make it cheaper, or record it anew")
    return 1 if grown else 0


if __name__ == "__main__":
    sys.exit(main())
