# SPDX-License-Identifier: Apache-2.0
"""The files under version control, for the style checks; and how a check ends."""

import os
import pathlib
import shutil
import subprocess
import sys
import typing

ROOT = pathlib.Path(os.environ.get("HVD_SOURCE_DIR", pathlib.Path(__file__).resolve().parents[2]))
BUILD = pathlib.Path(os.environ.get("HVD_BUILD_DIR", ROOT / "build"))


def tracked(*patterns: str) -> list[pathlib.Path]:
    """Files that git knows or would add, relative to the root, that match any of the glob patterns."""
    listing = subprocess.run(
        [
            "git",
            "-c",
            "safe.directory=*",
            "ls-files",
            "-z",
            "-c",
            "-o",
            "--exclude-standard",
            *patterns,
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if listing.returncode != 0:
        skip(f"git cannot list the files: {listing.stderr.strip()}")
    names = (name for name in listing.stdout.split("\0") if name)
    return [pathlib.Path(name) for name in names if (ROOT / name).is_file()]


def tool(*names: str) -> str:
    """The first of these programs that is installed; skips the check if there is none."""
    for name in names:
        if shutil.which(name):
            return name
    skip(f"{names[0]} is not installed")
    raise AssertionError("unreachable")


def skip(reason: str) -> None:
    print(f"skipped: {reason}")
    sys.exit(77)


def finish(complaints: typing.Iterable[str]) -> None:
    """Ends the check: prints each complaint, exit code 1 if there is any."""
    complaints = list(complaints)
    print(*complaints, sep="\n")
    print(f"{len(complaints)} complaints")
    sys.exit(1 if complaints else 0)


def run_tool(command: list, files: list) -> None:
    """Ends the check with the outcome of an outside tool over the files."""
    if not files:
        skip("no file of this kind yet")
    finished = subprocess.run([*command, *map(str, files)], cwd=ROOT, check=False, timeout=240)
    sys.exit(1 if finished.returncode else 0)
