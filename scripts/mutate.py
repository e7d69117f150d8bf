# SPDX-License-Identifier: Apache-2.0
"""Changes one line of the product at a time and looks whether a test notices.

usage: mutate.py TREE [--folder FOLDER]... [--count N] [--seed N] [--results FILE] [--again FILE]

TREE is a build tree of this checkout, which must be a clean copy: files are changed in place and put
back. A mutant that does not compile is drawn again; one that a test program of its folder fails, or
hangs in, is killed, else those of whole worlds of ranks (of the launcher: its other programs) judge
it. Survivors are printed with their line: cover them, or say why they do no harm. --again judges the
survivors in FILE, which --results has written, once more.
"""

from __future__ import annotations

import argparse
import collections
import dataclasses
import json
import os
import pathlib
import random
import re
import resource
import shlex
import subprocess
import sys
import tokenize
from typing import Any

ROOT = pathlib.Path(__file__).resolve().parent.parent
# Of a test program. A mutant that loops must neither take hours nor all memory. Meson has limits of
# its own, and ends its tests when it comes to them, which it cannot once it is killed.
LIMIT_S = 120
LIMIT_BYTES = 4 << 30
# Before the name of a test that Meson runs, with its variables and ranks; and of a whole suite.
BY_MESON = "test:"
SUITE = "suite:"

# Folder of the product -> test programs that are to notice: targets of ninja, below the tree, and their arguments.
PROGRAMS = {
    "runtime/base": ["tests/unit_base"],
    "runtime/topology": ["tests/unit_topology"],
    "runtime/transport": ["tests/unit_transport"],
    "runtime/bootstrap": ["tests/unit_bootstrap"],
    "runtime/collective": ["tests/unit_collective"],
    "runtime/backends": ["tests/unit_backends"],
    "runtime/engine": [
        "tests/unit_engine",
        "tests/unit_engine_models",
        "tests/world/world collectives loss",
    ],
    "runtime/optim": ["tests/unit_optim"],
    "runtime/c": ["tests/unit_c"],
    "launcher/lint": ["tests/unit_lint"],
    "launcher/plan": ["tests/unit_plan"],
    "launcher/node": ["tests/unit_node"],
    "launcher/site": ["tests/unit_site"],
    "launcher/job": ["tests/unit_job"],
    "launcher/run": ["tests/unit_run"],
    "runtime/python/hvd": [SUITE + "python"],
    "runtime/python/hvd/keras": [SUITE + "tensorflow"],
    "runtime/python/hvd/tensorflow": [SUITE + "tensorflow"],
}


def listed_tests(tree: pathlib.Path, *options: str) -> str:
    """Meson's list of tests: lines that end with the name."""
    command = ["meson", "test", "-C", str(tree), "--list", *options]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def wider(tree: pathlib.Path, folder: str) -> list[str]:
    """The programs that judge what those of the folder let pass."""
    if folder.startswith("runtime/python"):
        return []
    if folder.startswith("launcher"):
        folders = ("options", "site", "plan", "run", "job", "env", "check", "lint", "cluster")
        of_jobs = ["supervision", "follow", "binding"] if folder != "launcher/lint" else []
        return [f"tests/unit_{name}" for name in folders] + [BY_MESON + name for name in of_jobs]
    if folder in ("runtime/c", "runtime/optim"):
        wanted = [
            "operations_oracle_3_ranks_1_nodes",
            "optimizer_checks_3_ranks",
            "failure_bad_input",
            "python_collectives_3",
            "python_optimizer_3",
            "python_sets_2",
            "python_compression_2",
            "python_in_flight_1",
            "python_failure_0",
            "python_traps_3",
        ]
        known = listed_tests(tree)
        return [BY_MESON + name for name in wanted if re.search(rf"(?m) {name}$", known)]
    tests = json.loads((tree / "meson-info/intro-tests.json").read_text())
    worlds = [one for one in tests if "hvdrun:world" in one["suite"]]
    # Those of the GPU plane need the variables of their doubles, which Meson sets.
    of_gpus = [BY_MESON + one["name"] for one in worlds if one["cmd"][0].endswith("world_gpu")]
    plain = [
        shlex.join([str(pathlib.Path(program).relative_to(tree)), *arguments])
        for program, *arguments in (one["cmd"] for one in worlds)
        if not program.endswith("world_gpu")
    ]
    # Pages made from the table of settings.
    pages = ["tests/unit_lint"] if folder == "runtime/base" else []
    return pages + plain + (of_gpus if folder in ("runtime/backends", "runtime/collective") else [])


# What to look for, and what it becomes; the first group is what is replaced.
COMMON = [
    (r"(?<![<>=!\-])(<=)(?!>)", "<"),
    (r"(?<=[\w)\] ])( < )(?=[\w(])", " <= "),
    (r"(?<![<>=!\-])(>=)", ">"),
    (r"(?<=[\w)\] ])( > )(?=[\w(])", " >= "),
    (r"(==)", "!="),
    (r"(!=)", "=="),
    (r"(?<=[\w)\]])( \+ )(?=[\w(])", " - "),
    (r"(?<=[\w)\]])( - )(?=[\w(])", " + "),
    (r"(?<![\w.])(0)(?![\w.])", "1"),
    (r"(?<![\w.])(1)(?![\w.])", "2"),
]
IN_CPP = [
    *COMMON,
    (r"(&&)", "||"),
    (r"(\|\|)", "&&"),
    (r"\b(true)\b", "false"),
    (r"\b(false)\b", "true"),
    (r"(?<=[( ])(!)(?=[\w(])", ""),
    (r"^\s*([a-z_]+(?:(?:\.|->)[a-z_]+)*\(.*\);)$", ";"),
    (r"^\s*(continue;|break;)$", ";"),
]
IN_PYTHON = [
    *COMMON,
    (r"\b(and)\b", "or"),
    (r"\b(or)\b", "and"),
    (r"\b(True)\b", "False"),
    (r"\b(False)\b", "True"),
    (r"\b(not )(?!in\b)", ""),
    (r"( is )(?!not\b)", " is not "),
    (r"^\s*([a-z_]+(?:\.[a-z_]+)*\(.*\))$", "pass"),
    (r"^\s*(continue|break)$", "pass"),
]
_SKIPPED = re.compile(
    r"^\s*(?://|#|@|\*|namespace|using|template|static_assert|HVD_CHECK|import|from)|\""
)


@dataclasses.dataclass
class Mutant:
    """One changed line."""

    path: pathlib.Path
    number: int
    before: str
    after: str

    @classmethod
    def of(cls, facts: dict[str, Any]) -> Mutant:
        """As facts() told it; its line may have moved since."""
        path = ROOT / facts["path"]
        lines = path.read_text().split("\n")
        if facts["before"] not in lines:
            raise SystemExit(f"{facts['path']} has no line any more that reads {facts['before']!r}")
        places = [number for number, line in enumerate(lines) if line == facts["before"]]
        nearest = min(places, key=lambda number: abs(number - facts["number"]))
        return cls(path, nearest, facts["before"], facts["after"])

    def facts(self) -> dict[str, Any]:
        """For a file of results."""
        path = str(self.path.relative_to(ROOT))
        return {"path": path, "number": self.number, "before": self.before, "after": self.after}

    def apply(self) -> None:
        """Writes the changed file."""
        self._write(self.after)

    def undo(self) -> None:
        """Puts the line back."""
        self._write(self.before)

    def _write(self, line: str) -> None:
        lines = self.path.read_text().split("\n")
        lines[self.number] = line
        self.path.write_text("\n".join(lines))

    def __str__(self) -> str:
        place = f"{self.path.relative_to(ROOT)}:{self.number + 1}"
        return f"{place}\n    - {self.before.strip()}\n    + {self.after.strip()}"


def lines_of_strings(path: pathlib.Path) -> set[int]:
    """The lines, from 0, that a string of a Python file covers."""
    lines: set[int] = set()
    with path.open("rb") as source:
        for token in tokenize.tokenize(source.readline):
            if token.type == tokenize.STRING:
                lines.update(range(token.start[0] - 1, token.end[0]))
    return lines


def mutants_of(path: pathlib.Path) -> list[Mutant]:
    """Every mutant of a file, at most one for each operator and line."""
    found = []
    is_python = path.suffix == ".py"
    strings = lines_of_strings(path) if is_python else set()
    for number, line in enumerate(path.read_text().split("\n")):
        if number in strings or _SKIPPED.search(line):
            continue
        code = line.split("#" if is_python else "//")[0].rstrip()
        for pattern, replacement in IN_PYTHON if is_python else IN_CPP:
            match = re.search(pattern, code)
            if match:
                after = line[: match.start(1)] + replacement + line[match.end(1) :]
                found.append(Mutant(path, number, line, after))
    return found


def is_of(path: str, folder: str) -> bool:
    """True for a file below the folder, unless one inside of it has programs of its own."""
    inner = [other for other in PROGRAMS if other.startswith(folder + "/")]
    return path.startswith(folder + "/") and not any(is_of(path, other) for other in inner)


def draw(folder: str, chance: random.Random) -> list[Mutant]:
    """The mutants of a folder, in random order."""
    drawn = []
    for path in sorted((ROOT / folder).rglob("*")):
        if path.suffix in (".cc", ".py") and is_of(str(path.relative_to(ROOT)), folder):
            drawn += mutants_of(path)
    chance.shuffle(drawn)
    return drawn


def build(tree: pathlib.Path, programs: list[str]) -> bool:
    """True when the programs compile."""
    by_meson = any(name.startswith((BY_MESON, SUITE)) for name in programs)
    targets = {shlex.split(program)[0] for program in programs}
    command = ["ninja", "-C", str(tree), *([] if by_meson else targets)]  # none: everything
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def limit_memory() -> None:
    """Of the process that becomes the program."""
    resource.setrlimit(resource.RLIMIT_DATA, (LIMIT_BYTES, LIMIT_BYTES))


def killed_by(tree: pathlib.Path, programs: list[str]) -> str:
    """The first program that fails or hangs; empty: the mutant survives."""
    for program in programs:
        name, *arguments = shlex.split(program)
        command = [str(tree / name), *arguments, "--gtest_brief=1", "--gtest_fail_fast"]
        by_meson = ["meson", "test", "-C", str(tree), "--no-rebuild", "--maxfail=1"]
        if program.startswith(BY_MESON):
            command = [*by_meson, program.removeprefix(BY_MESON)]
        if program.startswith(SUITE):
            command = [*by_meson, "--suite", program.removeprefix(SUITE)]
        try:
            ended = subprocess.run(
                command,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                timeout=None if program.startswith((BY_MESON, SUITE)) else LIMIT_S,
                check=False,
                preexec_fn=limit_memory,
            )
        except subprocess.TimeoutExpired:
            return f"{program} (hangs)"
        if ended.returncode:
            return program
    return ""


def judge(tree: pathlib.Path, mutant: Mutant, tiers: list[list[str]]) -> str | None:
    """Who kills it; empty: nobody. None: it does not compile."""
    mutant.apply()
    try:
        for programs in tiers:
            if not build(tree, programs):
                return None
            killer = killed_by(tree, programs)
            if killer:
                return killer
        return ""
    finally:
        mutant.undo()


def main() -> int:
    """Judges mutants folder by folder, and prints the score of each."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("tree", type=pathlib.Path)
    parser.add_argument("--folder", action="append", choices=sorted(PROGRAMS))
    parser.add_argument("--count", type=int, default=15, help="mutants for each folder")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--again", type=pathlib.Path, help="results whose survivors are judged")
    parser.add_argument("--results", type=pathlib.Path, help="JSON of every mutant and its end")
    options = parser.parse_args()
    tree = options.tree.resolve()
    chance = random.Random(options.seed)
    before = json.loads(options.again.read_text()) if options.again else []
    os.environ["PYTHONDONTWRITEBYTECODE"] = "1"  # Python tells files apart by size and second only
    score: dict[str, collections.Counter[str]] = {}
    results = []
    for folder in options.folder or PROGRAMS:
        tiers = [PROGRAMS[folder], wider(tree, folder)]
        mutants = [
            Mutant.of(one) for one in before if not one["killed_by"] and is_of(one["path"], folder)
        ]
        if options.again and not mutants:
            continue
        for suite in [name.removeprefix(SUITE) for name in tiers[0] if name.startswith(SUITE)]:
            if not listed_tests(tree, "--suite", suite).strip():
                parser.error(f"{folder} needs the suite {suite}, which this tree has not")
        for programs in tiers:
            if not build(tree, programs) or killed_by(tree, programs):
                print(f"{folder}: its tests do not pass as it is", file=sys.stderr)
                return 1
        ends = score[folder] = collections.Counter()
        for mutant in mutants or draw(folder, chance):
            if sum(ends.values()) == options.count:
                break
            end = judge(tree, mutant, tiers)
            if end is None:
                continue
            ends["killed" if end else "survived"] += 1
            results.append({**mutant.facts(), "killed_by": end})
            if not end:
                print(f"survived: {mutant}", flush=True)
            judged = sum(ends.values())
            print(f"{folder}: {judged} judged, {ends['killed']} killed", file=sys.stderr)
            if options.results:
                options.results.write_text(json.dumps(results, indent=1))
        build(tree, PROGRAMS[folder])
        print(f"{folder}: {ends['killed']} of {sum(ends.values())} killed", flush=True)
    killed, total = sum(one["killed"] for one in score.values()), len(results)
    print(f"score: {killed} of {total} killed ({100 * killed / max(total, 1):.0f} %)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
