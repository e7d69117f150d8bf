# SPDX-License-Identifier: Apache-2.0
"""Where the processes of a job stand that does not end: stacks of threads, by a debugger or Python."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from pathlib import Path

STARTERS = ("hvdrun", "sh", "bash", "timeout")
FRAMES = 16


def descendants(ancestor: int) -> tuple[list[int], list[int]]:
    """All processes below one, the eldest first; and those of them that have started none."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
        except (OSError, IndexError, ValueError):  # no process, or one that has ended
            continue
        children.setdefault(parent, []).append(int(entry.name))
    found = [ancestor]
    for process in found:
        found += sorted(children.get(process, []))
    return found, [process for process in found if process not in children]


def name_of(process: int) -> str:
    """ "" where it has ended."""
    try:
        return Path(f"/proc/{process}/comm").read_text().strip()
    except OSError:
        return ""


def stacks_below(ancestor: int, debugger: str, seconds: float) -> str:
    """The stacks of the first processes that fit into the time; of none without a debugger."""
    deadline = time.monotonic() + seconds
    text = []
    for process in descendants(ancestor)[0] if debugger else []:
        left = deadline - time.monotonic()
        name = name_of(process)
        if left <= 0 or not name or name.startswith(STARTERS):
            continue
        command = [debugger, "-p", str(process), "-batch", "-ex", f"thread apply all bt {FRAMES}"]
        text.append(f"-- stacks of {name}, process {process}")
        try:
            asked = subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=left,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as failure:
            text.append(str(failure))
            continue
        lines = (asked.stdout + asked.stderr).splitlines()
        text += [line for line in lines if line.startswith(("Thread ", "#"))] or lines[-5:]
    return "\n".join(text)


def abort_pythons(ancestor: int, seconds: float) -> None:
    """With PYTHONFAULTHANDLER they print their stacks as they go; they have a while for it."""
    deadline = time.monotonic() + seconds
    pythons = [one for one in descendants(ancestor)[1] if name_of(one).startswith("python")]
    for process in pythons:
        with contextlib.suppress(OSError):
            os.kill(process, signal.SIGABRT)
    while time.monotonic() < deadline and any(map(name_of, pythons)):
        time.sleep(0.1)
