# SPDX-License-Identifier: Apache-2.0
"""Starts ranks as forks of one process, which has loaded their framework: seconds of each rank's start.

    forked_ranks.py MODULE,MODULE FILE argument...

Reads a line of JSON, a list of environments, one for each rank; `HVD_TEST_OUTPUT` is the file for
what the rank writes. Writes a line of JSON with the processes, then a line with rank and exit
status for each rank that has ended. A rank runs told_cases.py, and ends as any program of Python.
"""

from __future__ import annotations

import importlib
import json
import os
import runpy
import sys
from pathlib import Path


def become_rank(environment: dict[str, str]) -> None:
    """Takes over the environment, and the file for what is written."""
    output = os.open(environment.pop("HVD_TEST_OUTPUT"), os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.close(output)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.environ.clear()
    os.environ.update(environment)
    if "numpy" in sys.modules:  # as in a process that has just loaded it; Python does so itself
        sys.modules["numpy"].random.seed()


def fork_ranks(environments: list[dict[str, str]]) -> list[int] | None:
    """The processes; None: this is one of them."""
    pids = []
    for environment in environments:
        pid = os.fork()
        if pid == 0:
            become_rank(environment)
            return None
        pids.append(pid)
    return pids


def tell_ends(pids: list[int]) -> None:
    """Waits for all, and writes how each has ended."""
    print(json.dumps(pids), flush=True)
    for _ in pids:
        pid, status = os.wait()
        print(json.dumps([pids.index(pid), os.waitstatus_to_exitcode(status)]), flush=True)


if __name__ == "__main__":
    for module in sys.argv[1].split(","):
        importlib.import_module(module)
    started = fork_ranks(json.loads(sys.stdin.readline()))
    if started is None:
        sys.argv[:2] = [str(Path(__file__).with_name("told_cases.py"))]
        runpy.run_path(sys.argv[0], run_name="__main__")
    else:
        tell_ends(started)
