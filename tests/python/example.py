# SPDX-License-Identifier: Apache-2.0
"""Runs one example as a user would, with small data, and looks for what it must print.

    example.py HVDRUN RANKS PATTERN FILE [ARGUMENTS...] [then ARGUMENTS...]      RANKS 0: without hvdrun

FILE is in examples/, or a page docs/NAME.md whose first block of Python is taken as a user would.
After `then` it is run once more, in the same folder: what the last run prints counts. Files that it
draws go into a folder of this test, must not be empty, and are removed.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import ranks

ROOT = Path(__file__).resolve().parents[2]
LIMIT_S = 150
# By folder; the pages that are tested are those on TensorFlow.
NEEDS = {
    "pytorch": "torch",
    "tensorflow": "tensorflow",
    "keras": "tensorflow",
    "docs": "tensorflow",
}


def main() -> int:
    """0 when the example ended well and printed the pattern."""
    hvdrun, count, pattern, name, *arguments = sys.argv[1:]
    module = NEEDS[Path(name).parts[0]]
    python = ranks.interpreter_with([module])
    if python is None:
        print(f"skipped: no Python here has {module} ({ranks.remedy([module])})")
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
        code, text = 0, ""
        for one in runs(arguments):
            if code == 0:
                command = [*launcher, python, str(program(name, Path(folder))), *one]
                code, text = run(command, folder, environment)
        empty = [path.name for path in Path(folder).rglob("*") if path.stat().st_size == 0]
        drawn = re.search(r"drawn: (\S+)", text)
        if drawn and not (Path(folder) / drawn.group(1)).exists():
            empty.append(drawn.group(1))
    if code != 0 or empty or not re.search(pattern, text, re.S):
        print(f"{name}: exit code {code}; {pattern!r} expected; empty files: {empty}")
        return 1
    return 0


def program(name: str, folder: Path) -> Path:
    """The script; that of a page is written into the folder, where the page expects examples/."""
    if not name.startswith("docs/"):
        return ROOT / "examples" / name
    block = re.search(r"^```python\n(.*?)^```", (ROOT / name).read_text(), re.S | re.M)
    assert block is not None, f"{name} has no block of Python"
    (folder / "examples").symlink_to(ROOT / "examples")
    (folder / "train.py").write_text(block.group(1))
    return folder / "train.py"


def runs(arguments: list[str]) -> list[list[str]]:
    """The arguments of each run."""
    found: list[list[str]] = [[]]
    for word in arguments:
        if word == "then":
            found.append([])
        else:
            found[-1].append(word)
    return found


def run(command: list[str], folder: str, environment: dict[str, str]) -> tuple[int, str]:
    """Exit code and output."""
    ended = subprocess.run(
        command,
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    print(ended.stdout)
    return ended.returncode, ended.stdout


if __name__ == "__main__":
    sys.exit(main())
