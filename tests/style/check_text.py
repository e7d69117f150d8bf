# SPDX-License-Identifier: Apache-2.0
"""What a machine can see of the style guide: licence line, lengths, words that have no place here."""

import pathlib
import re
import sys

import sources

_CODE = (".cc", ".c", ".h", ".hpp", ".py", ".sh", ".cu")
_CPP = (".cc", ".h", ".hpp")
_LICENSED = (*_CODE, ".build", ".sbatch")
_MAX_FILE_LINES = 500
_MAX_FUNCTION_LINES = 60
_LICENCE = "SPDX-License-Identifier: Apache-2.0"
# One letter of each in brackets, so that this file does not find itself.
_FORBIDDEN = re.compile(
    "|".join(
        [
            r"(?<![\w.$}])/(wor[k]|far[m])/[a-z]",  # a path of the machine it was written on
            r"\bTOD[O]\b(?!\(#\d+\))",
            r"\bFIXM[E]\b",
            r"\bXX[X]\b",
            r"raise NotImplementedErro[r]",
            r"not (yet )?i[m]plemented",
        ]
    )
)
_WAITING_BY_SLEEP = re.compile(
    r"this_thread::sleep|\b(usleep|nanosleep)\s*\(|std::atomic.*\.wait\("
)


def licence_complaint(path: pathlib.Path, lines: list) -> str:
    head = lines[:3] if lines and lines[0].startswith(("#!", "# shellcheck")) else lines[:1]
    return "" if any(_LICENCE in line for line in head) else f"{path}:1: no SPDX line first"


def long_functions(path: pathlib.Path, lines: list) -> list[str]:
    """Too long functions of a formatted C++ file: a body closes in the column where it opened."""
    found, start, indent = [], 0, ""
    for number, line in enumerate(lines, 1):
        if start == 0 and re.match(r"^( {0,4})[\w~:<].*\).*\{$", line):
            if re.match(
                r"^\s*(namespace|class|struct|enum|union|extern|if|for|while|switch|else)\b", line
            ):
                continue
            start, indent = number, re.match(r"^ *", line).group()
            if line.startswith(indent + ": "):
                indent = indent[4:]  # initialisers stand deeper than the body's end
        elif start and line.startswith(indent + "}") and not line.startswith(indent + "} else"):
            if number - start + 1 > _MAX_FUNCTION_LINES:
                found.append(f"{path}:{start}: function of {number - start + 1} lines")
            start = 0
    return found


def complaints(path: pathlib.Path, text: str) -> list[str]:
    """Every complaint about one file."""
    lines = text.splitlines()
    found = []
    if path.suffix in _LICENSED:
        found.append(licence_complaint(path, lines))
    if path.suffix in _CODE and len(lines) > _MAX_FILE_LINES:
        found.append(f"{path}: {len(lines)} lines, more than {_MAX_FILE_LINES}")
    if path.suffix in _CPP and path.parts[0] != "tests":  # a table of cases may be long
        found += long_functions(path, lines)
    if path.suffix in (".h", ".hpp") and path.name != "hvd.h" and "#pragma once" not in text:
        found.append(f"{path}: no #pragma once")
    for number, line in enumerate(lines, 1):
        if _FORBIDDEN.search(line):
            found.append(f"{path}:{number}: {line.strip()[:100]}")
        if path.suffix in _CPP and path.parts[0] == "runtime" and _WAITING_BY_SLEEP.search(line):
            found.append(f"{path}:{number}: waits by sleeping: {line.strip()[:100]}")
    return [one for one in found if one]


def _self_test() -> None:
    body = "".join("  f();\n" for _ in range(_MAX_FUNCTION_LINES))
    planted = {
        "no licence": ("a.cc", "int f() { return 1; }\n"),
        "long function": ("a.cc", f"// {_LICENCE}\nvoid g() {{\n{body}}}\n"),
        "open end": ("a.py", f"# {_LICENCE}\n# TO{'DO'} later\n"),
        "machine path": ("docs/a.md", f"see /{'work'}/main/x\n"),
        "long file": ("a.py", f"# {_LICENCE}\n" + "a = 1\n" * _MAX_FILE_LINES),
        "sleep": ("runtime/a.cc", f"// {_LICENCE}\nvoid f() {{ usleep(3); }}\n"),
    }
    for what, (name, text) in planted.items():
        if len(complaints(pathlib.Path(name), text)) != 1:
            sys.exit(f"planted fault not found: {what}: {complaints(pathlib.Path(name), text)}")


def main() -> None:
    _self_test()
    found = []
    for path in sources.tracked():
        try:
            text = (sources.ROOT / path).read_text()
        except UnicodeDecodeError:
            continue
        if path.name != "LICENSE":
            found += complaints(path, text)
    sources.finish(found)


if __name__ == "__main__":
    main()
