# SPDX-License-Identifier: Apache-2.0
"""Compiles every file by itself, without making code of it.

Other builds of the checks join files, and a file that lacks an include finds it in the one before.
A plain `meson setup` joins none.
"""

import argparse
import concurrent.futures
import json
import os
import pathlib
import subprocess
import sys

from tidy import options

LIMIT_S = 300


def complaint(entry: dict) -> str:
    """What the compiler says of one file; nothing when it is content."""
    command = ["clang++-14", *options(entry), "-fsyntax-only", entry["file"]]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=LIMIT_S, cwd=entry["directory"]
        )
    except subprocess.TimeoutExpired:
        return f"{entry['file']}: the compiler did not end within {LIMIT_S} s"
    return "" if done.returncode == 0 else done.stderr


def commands_of(build: pathlib.Path) -> list[tuple[pathlib.Path, dict]]:
    """Each file that the tree compiles, and how."""
    entries = json.loads((build / "compile_commands.json").read_text())
    return [(pathlib.Path(one["directory"], one["file"]).resolve(), one) for one in entries]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "build", type=pathlib.Path, help="a tree of clang with compile_commands.json"
    )
    parser.add_argument("folders", nargs="+", type=pathlib.Path, help="whose files are compiled")
    given = parser.parse_args()
    folders = [folder.resolve() for folder in given.folders]
    wanted: dict[pathlib.Path, dict] = {}
    for file, entry in commands_of(given.build):
        if file.suffix == ".cc" and any(file.is_relative_to(folder) for folder in folders):
            wanted.setdefault(file, entry)
    if not wanted:
        sys.exit(f"{given.build} compiles no file of {', '.join(map(str, folders))}")
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        told = [text for text in pool.map(complaint, wanted.values()) if text]
    print(*told, sep="\n")
    print(f"{len(wanted)} files compiled, {len(told)} with errors")
    sys.exit(1 if told else 0)


if __name__ == "__main__":
    main()
