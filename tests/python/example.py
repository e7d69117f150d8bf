# SPDX-License-Identifier: Apache-2.0
"""Runs one example as a user would, with small data, and looks for what it must print.

    example.py HVDRUN RANKS PATTERN FILE [ARGUMENTS...]      RANKS 0: without hvdrun

Files that it draws go into a folder of this run, must not be empty, and are removed.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import ranks

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
LIMIT_S = 150
NEEDS = {"pytorch": "torch", "tensorflow": "tensorflow", "keras": "tensorflow"}  # by folder


def main() -> int:
    """0 when the example ended well and printed the pattern."""
    hvdrun, count, pattern, name, *arguments = sys.argv[1:]
    module = NEEDS[Path(name).parts[0]]
    python = ranks.interpreter_with(module)
    if python is None:
        print(f"skipped: no Python here has {module} ({ranks.remedy(module)})")
        return ranks.SKIPPED
    launcher = [] if count == "0" else [hvdrun, "-np", count]
    environment = {
        **os.environ,
        **ranks.TENSORFLOW_VARIABLES,
        "PYTHONPATH": str(ranks.PACKAGES),
        "PATH": os.pathsep.join([str(Path(hvdrun).parent), os.environ.get("PATH", "")]),
        "OMP_NUM_THREADS": "1",
    }
    with tempfile.TemporaryDirectory(prefix="hvd-example-") as folder:
        ended = subprocess.run(
            [*launcher, python, str(EXAMPLES / name), *arguments],
            cwd=folder,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=LIMIT_S,
            check=False,
        )
        empty = [path.name for path in Path(folder).rglob("*") if path.stat().st_size == 0]
        print(ended.stdout)
        drawn = re.search(r"drawn: (\S+)", ended.stdout)
        if drawn and not (Path(folder) / drawn.group(1)).exists():
            empty.append(drawn.group(1))
    if ended.returncode != 0 or empty or not re.search(pattern, ended.stdout, re.S):
        print(f"{name}: exit code {ended.returncode}; {pattern!r} expected; empty files: {empty}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
