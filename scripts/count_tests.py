# SPDX-License-Identifier: Apache-2.0
"""Counts test cases in Meson's JSON logs: passed, failed, skipped, and names what did not pass.

One program holds many cases: gtest and unittest print their own totals, which are used where they are found.
"""

import json
import pathlib
import re
import sys


def _sum(pattern: str, text: str) -> int:
    return sum(int(number) for number in re.findall(pattern, text))


def count(record: dict) -> tuple[int, int, int]:
    """Cases passed, failed and skipped of one test program."""
    result = record["result"]
    if result == "SKIP":
        return 0, 0, 1
    text = (record.get("stdout") or "") + (record.get("stderr") or "")
    passed = _sum(r"\[  PASSED  \] (\d+) tests?", text)
    # A program that passed may have had a process of its own that was meant to fail.
    failed = _sum(r"\[  FAILED  \] (\d+) tests?, listed", text) if result != "OK" else 0
    skipped = _sum(r"\[  SKIPPED \] (\d+) tests?, listed", text)
    ran = _sum(r"\nRan (\d+) tests? in", text) if "\nRan " in text else 0
    if ran:
        lost = _sum(r"failures=(\d+)", text) + _sum(r"errors=(\d+)", text)
        omitted = _sum(r"skipped=(\d+)", text)
        passed, failed, skipped = passed + ran - lost - omitted, failed + lost, skipped + omitted
    if result not in ("OK", "EXPECTEDFAIL"):
        failed = max(failed, 1)
    elif passed + skipped == 0:
        passed = 1
    return passed, failed, skipped


def main() -> None:
    totals = [0, 0, 0]
    for path in map(pathlib.Path, sys.argv[1:]):
        for line in path.read_text().splitlines():
            record = json.loads(line)
            cases = count(record)
            totals = [a + b for a, b in zip(totals, cases)]
            if cases[1]:
                print(f"failed: {record['name']} ({record['result']})", file=sys.stderr)
            if record["result"] == "SKIP":
                text = ((record.get("stdout") or "") + (record.get("stderr") or "")).strip()
                reason = text.splitlines()[-1] if text else "no reason given"
                print(f"skipped: {record['name']}: {reason}", file=sys.stderr)
    print(*totals)


if __name__ == "__main__":
    main()
