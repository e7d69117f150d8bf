# SPDX-License-Identifier: Apache-2.0
"""Runs clang-tidy over many files in a fraction of the time: most of it goes into headers that all of them include.

Files of one target are joined to one source, which is the main file of its run, so that every check sees them as it
sees a single one. Where such a run finds anything, its files are run one by one, and only what that finds counts:
names of two files that clash once they are joined cost time, no more.
"""

import argparse
import concurrent.futures
import dataclasses
import json
import os
import pathlib
import shlex
import subprocess
import sys
import time

_NOISE = (" warning generated.", " warnings generated.", "Suppressed ", "Use -header-filter")


@dataclasses.dataclass(frozen=True)
class Unit:
    """One run of clang-tidy: a source, and the files that are in it."""

    source: pathlib.Path
    files: tuple[pathlib.Path, ...]


def options(entry: dict) -> list[str]:
    """A compile command's options: no compiler, no input, no output."""
    words = shlex.split(entry["command"])
    first = next(i for i, word in enumerate(words) if word.startswith("-"))
    left, rest = [], iter(words[first:])
    for word in rest:
        if word in ("-o", "-c", "-MF", "-MQ"):
            next(rest)
        elif word != "-MD":
            left.append(word)
    return left


def neighbour(file: pathlib.Path, known: dict[pathlib.Path, dict]) -> pathlib.Path:
    """The built file that shares most folders with this one."""
    return max(sorted(known), key=lambda other: len(os.path.commonpath([file, other]).split("/")))


def join(build: pathlib.Path, files: list[pathlib.Path], size: int) -> list[Unit]:
    """Writes the joined sources, and a compile database of theirs, below BUILD/tidy."""
    database = json.loads((build / "compile_commands.json").read_text())
    known: dict[pathlib.Path, dict] = {}
    for entry in database:
        known.setdefault(pathlib.Path(entry["directory"], entry["file"]).resolve(), entry)
    groups: dict[tuple[bool, tuple[str, ...]], list[pathlib.Path]] = {}
    for file in files:
        # What another configuration builds, in the place of a neighbour: as that neighbour, but not joined to it.
        entry = known.get(file) or known[neighbour(file, known)]
        groups.setdefault((file in known, tuple(options(entry))), []).append(file)
    room = build / "tidy"
    room.mkdir(exist_ok=True)
    units: list[Unit] = []
    commands = []
    for (_, flags), members in groups.items():
        count = -(-len(members) // size)
        bounds = [len(members) * i // count for i in range(count + 1)]
        for part in (members[a:b] for a, b in zip(bounds, bounds[1:])):
            source = room / f"joined_{len(units)}.cc"
            source.write_text("".join(file.read_text() + "\n" for file in part))
            beside = [f"-iquote{folder}" for folder in sorted({file.parent for file in part})]
            arguments = ["clang++-14", *flags, *map(str, beside), "-c", str(source)]
            commands.append({"directory": str(build), "file": str(source), "arguments": arguments})
            units.append(Unit(source, tuple(part)))
    (room / "compile_commands.json").write_text(json.dumps(commands))
    return units


def tidy(database: pathlib.Path, file: pathlib.Path) -> str:
    """What clang-tidy says of one file; nothing when it is content."""
    command = ["clang-tidy-14", "-p", str(database), "--quiet", str(file)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    except subprocess.TimeoutExpired:
        return f"{file}: clang-tidy did not end within 600 s"
    if done.returncode == 0:
        return ""
    lines = (done.stdout + done.stderr).splitlines()
    told = [line for line in lines if not any(noise in line for noise in _NOISE)]
    if not told or done.returncode < 0:  # killed, as for want of memory
        told.append(f"{file}: clang-tidy ended with code {done.returncode}")
    return "\n".join(told)


def check(build: pathlib.Path, unit: Unit) -> tuple[dict[pathlib.Path, str], str]:
    """The findings of each file, and a line about the run."""
    start = time.monotonic()
    joined = tidy(build / "tidy", unit.source)
    found = {}
    if joined:
        found = {file: text for file in unit.files if (text := tidy(build, file))}
    names = f"{unit.files[0].parent.name}/{unit.files[0].name} and {len(unit.files) - 1} more"
    why = f", one by one: {joined.splitlines()[0]}" if joined and not found else ""
    return found, f"{time.monotonic() - start:6.1f} s  {names}{why}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("build", type=pathlib.Path, help="a tree with compile_commands.json")
    parser.add_argument("files", nargs="+", type=pathlib.Path)
    parser.add_argument("--size", type=int, default=12, help="files joined at most (default 12)")
    given = parser.parse_args()
    build = given.build.resolve()
    units = join(build, [file.resolve() for file in given.files], given.size)
    bad = []
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for found, line in pool.map(lambda unit: check(build, unit), units):
            print(line, flush=True)
            for file, text in found.items():
                bad.append(file)
                print(text, flush=True)
    if bad:
        print(f"clang-tidy found something in {len(bad)} of {len(given.files)} files:")
        print(*sorted(map(str, bad)), sep="\n")
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
