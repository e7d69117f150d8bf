# SPDX-License-Identifier: Apache-2.0
"""Runs a test as several ranks on this machine, with a deadline for all of them.

    ranks.py --ranks 3 collectives_cases.py     every rank runs the unittest cases of the file
    ranks.py header_cases.py                    one process that is not a rank
    ranks.py ../tensorflow/NAME_cases.py        a file of tests/tensorflow

Exit code 77, and a sentence, when a framework the file needs is missing.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).resolve().parent
TENSORFLOW = HERE.parent / "tensorflow"
RUNTIME = HERE.parent.parent / "runtime"
TELLER = HERE / "told_cases.py"
FORKER = HERE / "forked_ranks.py"
# hvd, then horovod, then what tests import, then what came by the variable: a torch, maybe.
OURS = os.pathsep.join(map(str, (RUNTIME / "python", RUNTIME / "horovod", HERE, TENSORFLOW)))
PACKAGES = os.pathsep.join(filter(None, (OURS, os.environ.get("PYTHONPATH"))))
# Whether the driver of GPUs is the double of tests/doubles; the variable may name a real one, too.
ON_DOUBLE = "double" in Path(os.environ.get("HVD_CUDA_LIBRARY", "")).name
SKIPPED = 77
# Ranks share the cores; and TensorFlow tells at its start what it was built with.
TENSORFLOW_VARIABLES = {
    "TF_NUM_INTRAOP_THREADS": "1",
    "TF_NUM_INTEROP_THREADS": "1",
    "TF_CPP_MIN_LOG_LEVEL": "2",
}


class Outcome(NamedTuple):
    """How a rank ended; a negative code is the signal that killed it."""

    code: int
    text: str


def rank_environments(count: int, folder: str) -> list[dict[str, str]]:
    """The environment of each rank, with the variables that torchrun users set."""
    job = uuid.uuid4().hex
    environments = []
    for rank in range(count):
        environment = {
            **os.environ,
            **TENSORFLOW_VARIABLES,
            "RANK": str(rank),
            "WORLD_SIZE": str(count),
            "LOCAL_RANK": str(rank),
            "LOCAL_WORLD_SIZE": str(count),
            "MASTER_ADDR": "localhost",
            "MASTER_PORT": job,
            "HVD_RENDEZVOUS_DIR": folder,
            "HVD_START_TIMEOUT_SECONDS": "60",
            "OMP_NUM_THREADS": "1",
            "PYTHONUNBUFFERED": "1",
            "PYTHONFAULTHANDLER": "1",
            "PYTHONPATH": PACKAGES,
            "HVD_TEST_CASES": f"{folder}/cases",
        }
        if environment.get("HVD_SHARE_GPU") == "1":  # NCCL refuses two ranks of a host on one GPU
            environment["NCCL_HOSTID"] = f"{job}-{rank}"
        environments.append(environment)
    return environments


def start_ranks(command: list[str], count: int, folder: str) -> list[subprocess.Popen]:
    """Starts the command once per rank."""
    processes = []
    for rank, environment in enumerate(rank_environments(count, folder)):
        output = open(f"{folder}/out.{rank}", "w+b")  # noqa: SIM115 (closed in finish)
        processes.append(
            subprocess.Popen(
                command,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        )
        output.close()
    return processes


def tell_where(processes: list[subprocess.Popen]) -> None:
    """Has Python print the stacks of all threads of processes that hang (PYTHONFAULTHANDLER)."""
    for process in processes:
        process.send_signal(signal.SIGABRT)
    for process in processes:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(5)


def tell_cases(path: Path) -> None:
    """Says how the cases ended: one that some ranks skip and others pass has passed, once."""
    ends: dict[str, dict[str, str]] = {}
    for line in path.read_text().splitlines() if path.exists() else ():
        told = json.loads(line)
        ends.setdefault(told["case"], {})[told["end"]] = told["why"]
    failed = [case for case, found in ends.items() if "failed" in found]
    skipped = {case: found["skipped"] for case, found in ends.items() if [*found] == ["skipped"]}
    for case, why in skipped.items():
        print(f"skipped case: {case}: {why}")
    passed = len(ends) - len(failed) - len(skipped)
    print(f"cases: {passed} passed, {len(failed)} failed, {len(skipped)} skipped")


def run_ranks(command: list[str], count: int, seconds: float = 120) -> list[Outcome]:
    """The outcome of every rank; who is left at the deadline is killed and tells where it was.

    Says at the end how the cases of a file that told_cases.py runs have ended.
    """
    deadline = time.monotonic() + seconds
    with tempfile.TemporaryDirectory(prefix="hvd-test-") as folder:
        processes = start_ranks(command, count, folder)
        try:
            for process in processes:
                process.wait(max(deadline - time.monotonic(), 0.01))
        except subprocess.TimeoutExpired:
            tell_where([process for process in processes if process.poll() is None])
        finally:
            for process in processes:
                if process.poll() is None:
                    process.kill()
        outcomes = [
            Outcome(process.wait(), Path(f"{folder}/out.{rank}").read_text(errors="replace"))
            for rank, process in enumerate(processes)
        ]
        if str(TELLER) in command:
            tell_cases(Path(folder) / "cases")
        return outcomes


def read_line(fd: int, deadline: float) -> str:
    """A line of a pipe, without more; empty when the deadline passes, or at its end."""
    line = b""
    while select.select([fd], [], [], max(deadline - time.monotonic(), 0.01))[0]:
        byte = os.read(fd, 1)
        if byte in (b"", b"\n"):
            return line.decode()
        line += byte
    return ""


class ForkedRanks:
    """The ranks that forked_ranks.py has started from a process with their framework."""

    def __init__(self, forker: subprocess.Popen, deadline: float) -> None:
        assert forker.stdout is not None
        self._told = forker.stdout.fileno()
        self.pids: list[int] = json.loads(read_line(self._told, deadline) or "[]")
        self.codes: dict[int, int] = {}

    def wait(self, deadline: float) -> None:
        """Takes the exit codes of those that end until then."""
        while len(self.codes) < len(self.pids) and (line := read_line(self._told, deadline)):
            rank, code = json.loads(line)
            self.codes[rank] = code

    def end(self, sent: signal.Signals) -> None:
        """Sends the signal to those that run, and waits a little."""
        for rank, pid in enumerate(self.pids):
            if rank not in self.codes:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, sent)
        self.wait(time.monotonic() + 5)


def run_forked(start: list[str], count: int, seconds: float) -> list[Outcome]:
    """As `run_ranks`, but `start`, a command with forked_ranks.py, starts them all."""
    deadline = time.monotonic() + seconds
    with tempfile.TemporaryDirectory(prefix="hvd-test-") as folder:
        environments = rank_environments(count, folder)
        outputs = [Path(f"{folder}/out.{rank}") for rank in range(count)]
        for environment, output in zip(environments, outputs):
            environment["HVD_TEST_OUTPUT"] = str(output)
        with subprocess.Popen(
            start, env=environments[0], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        ) as forker:
            assert forker.stdin is not None
            forker.stdin.write(json.dumps(environments).encode() + b"\n")
            forker.stdin.close()
            ranks = ForkedRanks(forker, deadline)
            ranks.wait(deadline)
            ranks.end(signal.SIGABRT)  # Python prints the stacks of all threads
            ranks.end(signal.SIGKILL)
            if not ranks.pids:
                forker.kill()
        tell_cases(Path(folder) / "cases")
        return [
            Outcome(
                ranks.codes.get(rank, -signal.SIGKILL),
                output.read_text(errors="replace") if output.exists() else "never started",
            )
            for rank, output in enumerate(outputs)
        ]


def interpreter_with(modules: list[str]) -> str | None:
    """A Python that can import the modules: HVD_TEST_PYTHON, this one, or the system's."""
    given = os.environ.get("HVD_TEST_PYTHON")
    for path in [given] if given else [sys.executable, "/usr/bin/python3"]:
        found = subprocess.run(
            [path, "-c", f"import importlib.util as u; exit(None in map(u.find_spec, {modules}))"],
            check=False,
        )
        if found.returncode == 0:
            return path
    return None


def remedy(modules: list[str]) -> str:
    """How to get modules that no Python here has together."""
    if {"tensorflow", "keras"}.intersection(modules):  # no Debian 12 package has them
        named = " ".join(modules)
        return f"pip install {named} into an environment, and start this with its Python"
    return "apt-get install " + " ".join(f"python3-{module}" for module in modules)


def report(outcomes: list[Outcome]) -> int:
    """Prints what the ranks wrote; 0 when every one passed."""
    for rank, outcome in enumerate(outcomes):
        print(f"--- rank {rank}: exit code {outcome.code}\n{outcome.text}")
    if all(outcome.code == SKIPPED for outcome in outcomes):
        return SKIPPED
    return 0 if all(outcome.code == 0 for outcome in outcomes) else 1


def main() -> int:
    """0 when every rank passed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ranks", type=int, default=0)
    parser.add_argument("--timeout", type=float, default=200)
    parser.add_argument(
        "--needs", help="modules, as keras,torch; default: tensorflow for its files, else torch"
    )
    parser.add_argument("program", nargs="+")
    options = parser.parse_args()
    if options.program[0].endswith(".py"):
        file = (HERE / options.program[0]).resolve()
        needs = options.needs or ("tensorflow" if file.parent == TENSORFLOW else "torch")
        modules = needs.split(",")
        python = interpreter_with(modules)
        if python is None:
            print(f"skipped: no Python here has {' and '.join(modules)} ({remedy(modules)})")
            return SKIPPED
        if options.ranks > 1:
            start = [python, str(FORKER), needs, str(file), *options.program[1:]]
            return report(run_forked(start, options.ranks, options.timeout))
        options.program = [python, str(TELLER), str(file), *options.program[1:]]
    if options.ranks == 0:
        os.environ.update(TENSORFLOW_VARIABLES, PYTHONPATH=PACKAGES)
        with tempfile.TemporaryDirectory(prefix="hvd-test-") as folder:
            environment = {**os.environ, "HVD_TEST_CASES": f"{folder}/cases"}
            ended = subprocess.run(
                options.program, env=environment, timeout=options.timeout, check=False
            )
            tell_cases(Path(folder) / "cases")
        return ended.returncode
    return report(run_ranks(options.program, options.ranks, options.timeout))


if __name__ == "__main__":
    sys.exit(main())
