# SPDX-License-Identifier: Apache-2.0
"""Prints the targets that some suites need, for ninja; the options are those of `meson test`."""

import argparse
import json
import pathlib


def programs(build: pathlib.Path, suites: set[str], without: set[str]) -> list[str]:
    """Files to build, relative to the build tree."""
    info = build / "meson-info"
    needed: set[str] = set()
    for test in json.loads((info / "intro-tests.json").read_text()):
        names = {suite.split(":")[-1] for suite in test["suite"]}
        if names & suites and not names & without:
            needed.update(test["depends"])
    return sorted(
        str(pathlib.Path(name).relative_to(build))
        for target in json.loads((info / "intro-targets.json").read_text())
        if target["id"] in needed
        for name in target["filename"]
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--suite", action="append", default=[])
    parser.add_argument("--no-suite", action="append", default=[])
    options = parser.parse_args()
    print(*programs(options.build.resolve(), set(options.suite), set(options.no_suite)), sep="\n")


if __name__ == "__main__":
    main()
