# SPDX-License-Identifier: Apache-2.0
"""All that there is to run on GPUs, the most telling first, and a table of what came of it.

    python3 tests/gpu/run_all.py BUILD [--only NAME]... [--ranks 2] [--within 480] [--logs FOLDER]
        [--results FILE]

BUILD is a build folder, or what collect.py made of one. Ranks share a GPU where there are more of
them. A part that lacks something (torch, NCCL, compute-sanitizer, MPS) is skipped, and says what.
Found by themselves, unless these variables name them: HVD_CUDA_LIBRARY, HVD_NCCL_LIBRARY,
HVD_TEST_PYTHON (whose torch finds a GPU), COMPUTE_SANITIZER, MPS_CONTROL, DEBUGGER (for the stacks
of what does not end). What is printed stands in FILE, too, as it comes, with more of what failed.
Rows of figures are for docs/reference/performance.md. Exit code 77 where nothing could be run,
without a GPU for one; 1 where something failed, or where a part that --only named found no time.
"""

from __future__ import annotations

import argparse
import contextlib
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
from parts import Part, parts_of
from stacks import abort_pythons, stacks_below

HERE = Path(__file__).resolve().parent
SKIPPED = 77
WITHIN_S = 480  # with what ends a part, less than meson.build lets a test take
STACKS_S = 25
MOST_STACKS = 2  # parts whose stacks are looked at
# Unless they are set: NCCL tells why it fails; ranks meet on the loopback, and no NVLink is between
# hosts that are one; what hangs is told early.
DEFAULTS = {
    "NCCL_DEBUG": "WARN",
    "NCCL_SOCKET_IFNAME": "lo",
    "NCCL_MNNVL_ENABLE": "0",
    "HVD_STALL_CHECK_TIME_SECONDS": "20",
    "PYTHONFAULTHANDLER": "1",
}


class Outcome(NamedTuple):
    """What came of a part."""

    name: str
    result: str  # passed, failed, skipped, left out
    seconds: float
    remark: str


class Report:
    """What is printed, in a file as well: a run that is cut short leaves what it had."""

    def __init__(self, file: Path) -> None:
        self._file = file.open("w")

    def say(self, text: str) -> None:
        """To both."""
        print(text, flush=True)
        self.keep(text)

    def keep(self, text: str) -> None:
        """To the file alone."""
        print(text, file=self._file, flush=True)


def started_by(build: Path, part: Part, mps: str) -> list[str]:
    """The command of a part, by way of hvdrun where it needs ranks."""
    if part.ranks == 0:
        return part.command
    # A host of its own for each rank: NCCL takes ranks of one host on one GPU for a mistake.
    own_host = '[ "$HVD_SHARE_GPU" != 1 ] || export NCCL_HOSTID="gpu-tests-$HVD_RANK"; exec "$@"'
    hvdrun = [str(build / "launcher" / "hvdrun"), "-np", str(part.ranks), "--"]
    service = ["bash", str(HERE / "with_mps.sh"), mps] if "mps" in part.needs else []
    return [*service, *hvdrun, "sh", "-c", own_host, "sh", *part.command]


def environment_of(part: Part, found: Found) -> dict[str, str]:
    """What a part sees."""
    environment = {**DEFAULTS, **os.environ, **found.environment, **part.environment}
    if (part.ranks or 3) > found.gpus:
        environment["HVD_SHARE_GPU"] = "1"
    if "torch" in part.needs and not found.is_double:
        environment.pop("HVD_NCCL_LIBRARY", None)  # torch brings its own
    return environment


def end(process: subprocess.Popen[bytes]) -> None:
    """With all that it has started."""
    os.killpg(process.pid, signal.SIGTERM)
    try:
        process.wait(15)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def run_part(
    command: list[str], environment: dict[str, str], log: Path, seconds: float, debugger: str
) -> tuple[int, str]:
    """Runs it to its end, or to its limit; exit code (124: the limit) and output, with stacks."""
    stacks = ""
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
            stacks = stacks_below(process.pid, debugger, STACKS_S)
            abort_pythons(process.pid, 5)
        finally:
            if process.poll() is None:
                end(process)
    return code, log.read_text(errors="replace") + stacks


def remark_on(text: str) -> str:
    """What a table has room for: the last line that says something."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    skipped = [line for line in lines if "skipped: " in line]
    return (skipped or lines or [""])[-1][:90]


def judge(part: Part, code: int, text: str, seconds: float, limit: float) -> Outcome:
    """What an exit code and an output mean; where it had less time than it may take, not its end."""
    if code == SKIPPED:
        return Outcome(part.name, "skipped", seconds, remark_on(text))
    if code == 124 and limit < part.limit_s:
        return Outcome(part.name, "left out", seconds, f"cut short, of {part.limit_s:.0f} s")
    if code == 124:
        return Outcome(part.name, "failed", seconds, f"not done within {seconds:.0f} s")
    if code != 0:
        return Outcome(part.name, "failed", seconds, f"exit code {code}: {remark_on(text)}")
    if part.wants and not re.search(part.wants, text):
        return Outcome(part.name, "failed", seconds, f"its output has no {part.wants}")
    return Outcome(part.name, "passed", seconds, remark_on(text))


class Runner:
    """Runs parts one after the other, in the time that there is, and reports."""

    def __init__(self, options: argparse.Namespace, found: Found, report: Report) -> None:
        self._options = options
        self._found = found
        self._report = report
        self._deadline = options.began + options.within
        self._hung = 0
        self.outcomes: list[Outcome] = []

    def run(self, part: Part) -> None:
        """One part, and with what may help where it fails."""
        if self._run_once(part) != "failed":
            return
        for number, remedy in enumerate(part.remedies, start=2):
            environment = {**part.environment, **remedy}
            again = part._replace(
                name=f"{part.name}-{number}", environment=environment, limit_s=part.limit_s / 2
            )
            said = " ".join(f"{name}={value}" for name, value in remedy.items())
            self._report.say(f"again with {said}")
            if self._run_once(again) == "passed":
                self._report.say(f"from here on all parts have {said}")
                self._found.environment.update(remedy)
                return

    def _run_once(self, part: Part) -> str:
        outcome = self._without_a_run(part) or self._outcome_of(part)
        self.outcomes.append(outcome)
        return outcome.result

    def _without_a_run(self, part: Part) -> Outcome | None:
        reasons = self._found.reasons
        lacks = [reasons[need] for need in part.needs if need in reasons]
        if lacks:
            return Outcome(part.name, "skipped", 0, lacks[0][:90])
        if self._deadline - time.monotonic() < 5:
            return Outcome(part.name, "left out", 0, f"--within {self._options.within:.0f}")
        return None

    def _outcome_of(self, part: Part) -> Outcome:
        command = started_by(self._options.build, part, self._found.mps)
        self._report.say(f"== {part.name}: {' '.join(part.command)}")
        began = time.monotonic()
        log = self._options.logs / f"{part.name}.log"
        limit = min(part.limit_s, self._deadline - began)
        debugger = self._found.debugger if self._hung < MOST_STACKS else ""
        environment = environment_of(part, self._found)
        code, text = run_part(command, environment, log, limit, debugger)
        outcome = judge(part, code, text, time.monotonic() - began, limit)
        self._hung += code == 124
        lines = text.splitlines()
        if outcome.result == "failed":
            self._report.keep("\n".join(lines[-400:-40]))
            self._report.say("\n".join(lines[-40:]))
        elif part.name.startswith("packing"):
            self._report.say(text.rstrip())
        else:
            rows = [line for line in lines if " | " in line or "raised" in line]
            self._report.say("\n".join(rows) or outcome.remark)
        self._report.keep(f"-- {outcome.result} after {outcome.seconds:.1f} s: {outcome.remark}")
        return outcome


def hold_gpus() -> list[int]:
    """Open files: a driver without persistence takes seconds to start a GPU that nobody has open."""
    held = []
    for path in Path("/dev").glob("nvidia[0-9]*"):
        with contextlib.suppress(OSError):
            held.append(os.open(path, os.O_RDWR | os.O_CLOEXEC))
    return held


def exit_code(outcomes: list[Outcome], named: bool) -> int:
    """Of a run whose parts were named one by one, or of one of everything."""
    results = {outcome.result for outcome in outcomes}
    if "failed" in results or (named and "left out" in results):
        return 1
    return 0 if "passed" in results else SKIPPED


def arguments() -> argparse.Namespace:
    """Of the command line, with folders made."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("build", type=Path, help="build folder, or a folder made by collect.py")
    parser.add_argument("--only", action="append", metavar="NAME", help="this part alone (again)")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--within", type=float, default=WITHIN_S, metavar="SECONDS")
    parser.add_argument("--logs", type=Path, help="folder of the outputs (default: a new one)")
    parser.add_argument("--results", type=Path, help="file of the report (default: in the logs)")
    parser.add_argument("--quick", action="store_true", help="little data: that all works")
    parser.add_argument("--list", action="store_true", help="the names of the parts")
    options = parser.parse_args()
    options.build = options.build.resolve()
    options.logs = options.logs or Path(tempfile.mkdtemp(prefix="hvd-gpu-"))
    options.logs.mkdir(parents=True, exist_ok=True)
    options.results = options.results or options.logs / "results.txt"
    return options


def main() -> int:
    """Runs everything; the table comes last."""
    began = time.monotonic()
    options = arguments()
    options.began = began
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # what runs is ended, too
    gpu = first_gpu()
    if gpu.count == 0 and not options.list:
        print(f"skipped: {gpu.reason}")
        return SKIPPED
    held = hold_gpus()
    found = look_around(options.build, gpu)
    parts = parts_of(options, found, options.logs)
    names = [part.name for part in parts]
    unknown = set(options.only or ()) - set(names)
    if unknown or options.list:
        print("parts:", " ".join(names))
        return 2 if unknown else 0
    report = Report(options.results)
    report.say(f"{found.machine}\noutputs in {options.logs}")
    runner = Runner(options, found, report)
    for part in parts:
        if part.name in (options.only or names):
            runner.run(part)
    outcomes = runner.outcomes
    report.say(f"\n{found.machine}\n{'part':18} {'result':8} {'s':>6}  remark")
    for outcome in outcomes:
        report.say(f"{outcome.name:18} {outcome.result:8} {outcome.seconds:6.1f}  {outcome.remark}")
    failed = sum(outcome.result == "failed" for outcome in outcomes)
    passed = sum(outcome.result == "passed" for outcome in outcomes)
    report.say(f"{passed} passed, {failed} failed, {len(outcomes) - passed - failed} not run")
    for file in held:
        os.close(file)
    return exit_code(outcomes, bool(options.only))


if __name__ == "__main__":
    sys.exit(main())
