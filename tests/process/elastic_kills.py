# SPDX-License-Identifier: Apache-2.0
"""Kills ranks of one elastic job at random moments, and says how long each kill cost.

By hand: elastic_kills.py HVDRUN LIBHVD [KILLS [RANKS [SEED]]]; jobs of EACH kills one after another. Of every step all
ranks must say the same value, and the same as in the other jobs.
"""

from __future__ import annotations

import os
import random
import re
import signal
import sys
import tempfile
import threading
import time

import jobs
from elastic_program import TRAINING

EACH = 8  # Kills of one job.
PAUSE_S = (0.2, 1.0)  # Between one kill and the next, from the first step after it.
# A step takes a moment, so that kills come everywhere in it.
PROGRAM = (
    jobs.PROLOGUE
    + 'import random as chance\nsay("PID", os.getpid())\n'
    + """
def last_step():
    try:
        return int(open(SCRATCH + "/last").read())
    except FileNotFoundError:
        return 10**9

"""
    + TRAINING.replace(
        "        one.wait()\n", "        time.sleep(chance.random() * 0.01)\n        one.wait()\n"
    ).replace("while state.step < STEPS:", "while state.step < last_step():")
)


class Job:
    """One run of the program; reads what it says as it comes."""

    def __init__(self, scratch: str, options: list[str]):
        self.scratch = scratch
        self.process = jobs.start(
            ["--prefix", *options], [sys.executable, "-c", PROGRAM], HVD_TEST_SCRATCH=scratch
        )
        self.pids: dict[int, int] = {}
        self.last_step: dict[int, float] = {}  # By process.
        self.values: dict[int, str] = {}
        self.wrong: list[str] = []
        self.steps: list[float] = []  # When each was first said.
        self.errors: list[str] = []
        self.readers = [
            threading.Thread(target=read, daemon=True)
            for read in (self._read_output, self._read_errors)
        ]
        for reader in self.readers:
            reader.start()

    def _read_output(self) -> None:
        for line in self.process.stdout or ():
            found = re.match(r"\[(\d+)\] (PID|STEP) (\S+)(?: (\S+) (\S+))?$", line.strip())
            if not found:
                continue
            process, what, first, value, when = found.groups()
            if what == "PID":
                self.pids[int(process)] = int(first)
                continue
            if self.values.setdefault(int(first), value) != value:
                self.wrong.append(line)
            self.steps.append(float(when))
            self.last_step[int(process)] = float(when)

    def _read_errors(self) -> None:
        self.errors.extend(self.process.stderr or ())

    def next_step(self, after: float, limit: float) -> float:
        """When a step ended that began after that moment."""
        deadline = time.monotonic() + limit
        while time.monotonic() < deadline and self.process.poll() is None:
            later = [step for step in self.steps[-50:] if step > after]
            if later:
                return min(later)
            time.sleep(0.002)
        raise AssertionError(f"no step within {limit} s\n" + "".join(self.errors[-40:]))

    def finish(self) -> int:
        # All see it before they are there.
        with open(f"{self.scratch}/new", "w") as file:
            file.write(str(max(self.values) + 200))
        os.rename(f"{self.scratch}/new", f"{self.scratch}/last")
        code = self.process.wait(60)
        for reader in self.readers:
            reader.join()
        return code


def memberships(job: Job) -> int:
    return sum("hvdrun: membership" in line for line in job.errors)


def kill_and_wait(job: Job, rng: random.Random) -> float:
    """Seconds from a kill to the end of the first step of the membership that followed."""
    began = memberships(job)
    now = time.monotonic()
    ranks = [process for process, when in job.last_step.items() if now - when < 0.2]
    victim = rng.choice(ranks)
    killed = time.monotonic()
    os.kill(job.pids[victim], signal.SIGKILL)
    del job.last_step[victim]
    limit = time.monotonic() + 30
    while memberships(job) == began:
        if time.monotonic() > limit or job.process.poll() is not None:
            raise AssertionError("no membership after a kill\n" + "".join(job.errors[-40:]))
        time.sleep(0.001)
    return job.next_step(time.monotonic() - 0.001, 30) - killed


def run(kills: int, ranks: int, rng: random.Random) -> tuple[list[float], dict[int, str]]:
    """One job: what each kill cost, and the values of its steps."""
    with tempfile.TemporaryDirectory(prefix="hvd-kills-") as scratch:
        job = Job(scratch, ["-np", str(ranks), "--spares", str(kills)])
        try:
            job.next_step(0.0, 60)
            lost = []
            for _ in range(kills):
                time.sleep(rng.uniform(*PAUSE_S))
                lost.append(kill_and_wait(job, rng))
            code = job.finish()
        finally:
            job.process.kill()
    if code != 0 or job.wrong:
        raise AssertionError(f"exit code {code}; {job.wrong[:5]}\n" + "".join(job.errors[-40:]))
    return lost, job.values


def histogram(seconds: list[float]) -> str:
    """How many are below each bound."""
    bounds = [0.05, 0.1, 0.2, 0.3, 0.5, 1.0, 2.0, 5.0, 30.0]
    rows = []
    for low, high in zip([0.0, *bounds], bounds):
        count = sum(low <= value < high for value in seconds)
        rows.append(f"{low:5.2f} to {high:5.2f} s {count:4} {'#' * count}".rstrip())
    return "\n".join(rows)


def main() -> None:
    kills, ranks, seed = (
        int(sys.argv[at]) if len(sys.argv) > at else value
        for at, value in ((3, EACH), (4, 3), (5, 1))
    )
    rng = random.Random(seed)
    lost: list[float] = []
    values: dict[int, str] = {}
    while len(lost) < kills:
        more, found = run(min(EACH, kills - len(lost)), ranks, rng)
        lost += more
        wrong = {step for step, value in found.items() if values.setdefault(step, value) != value}
        if wrong:
            sys.exit(f"wrong values of the steps {sorted(wrong)[:10]}")
    print(histogram(lost))
    middle, most = sorted(lost)[len(lost) // 2], max(lost)
    print(f"{len(lost)} kills, {ranks} ranks: median {middle:.3f} s, most {most:.3f} s")


if __name__ == "__main__":
    main()
