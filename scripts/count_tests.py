# SPDX-License-Identifier: Apache-2.0
"""Counts test cases in Meson's JSON logs: passed, failed, skipped, and names what did not pass.

One program holds many cases: gtest and unittest print their own totals, which are used where they are found.

    count_tests.py LOG...                  the totals
    count_tests.py --failed LOG...         each program that failed, its cases and what they said, in few lines
    count_tests.py --skips ALLOWED LOG...  what was skipped for a reason that no line of ALLOWED matches (regular
                                           expressions; # begins a comment); exit code 1: there is such a one
"""

import json
import pathlib
import re
import sys

LINE = 160  # characters of a line of a report
REPORT = 900


def _sum(pattern: str, text: str) -> int:
    return sum(int(number) for number in re.findall(pattern, text))


def count(record: dict) -> tuple[int, int, int]:
    """Cases passed, failed and skipped of one test program."""
    result = record["result"]
    if result == "SKIP":
        return 0, 0, 1
    text = (record.get("stdout") or "") + (record.get("stderr") or "")
    told = re.findall(r"(?m)^cases: (\d+) passed, (\d+) failed, (\d+) skipped$", text)
    if told:  # by tests/python/ranks.py, where several ranks run each case
        passed, failed, skipped = map(int, told[-1])
        return passed, max(failed, int(result != "OK")), skipped
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


def skips(record: dict) -> list[str]:
    """Why the program, or cases of it, were skipped."""
    text = ((record.get("stdout") or "") + (record.get("stderr") or "")).strip()
    if record["result"] == "SKIP":
        return [text.splitlines()[-1] if text else "no reason given"]
    told = re.findall(r"(?m)^skipped case: \S+: (.*)$", text)
    by_gtest = re.findall(r"(?m)^\S+:\d+: Skipped\n(.*)$", text)
    by_unittest = re.findall(r"(?m)skipped (?:'(.*)'|\"(.*)\")$", text)
    return told or [*by_gtest, *("".join(pair) for pair in by_unittest)]


def _case_reports(text: str) -> list[str]:
    """Of each case that failed its name and what it said, as gtest and unittest print them."""
    found = re.findall(r"(?ms)^\[ RUN      \] (\S+)\n((?:(?!^\[ ).)*?)^\[  FAILED  \] \1", text)
    reports = [f"{name}\n{said}" for name, said in found]
    reports += re.findall(r"(?ms)^={70}\n((?:FAIL|ERROR): .*?)(?=^={70}\n|^-{70}\nRan )", text)
    return reports


def _shorten(report: str, lines: int) -> str:
    """The first line and the last ones: a name, and where a traceback ends."""
    told = [line[:LINE] for line in report.splitlines() if line.strip("-= ")]
    return "\n".join(f"    {line}" for line in told[:1] + told[1:][1 - lines :])


def report_failure(record: dict) -> str:
    """A program that failed, in at most REPORT characters."""
    text = (record.get("stdout") or "") + (record.get("stderr") or "")
    reports = [_shorten(report, 7) for report in _case_reports(text)]
    # Ranks that hung tell no case: which those were, and where.
    hung = re.findall(r"(?m)^--- rank .*|(?<=call first\):\n)(?:  File .*\n){1,3}", text)
    if not reports and hung:
        reports = ["\n".join(hung).replace("\n\n", "\n")]
    told = re.sub('File ".*/', 'File "', "\n".join(reports or [_shorten(text, 12)]))
    return f"  {record['name']} ({record['result']}, {record['duration']:.0f} s)\n{told[:REPORT]}"


def main() -> None:
    if sys.argv[1] == "--failed":
        for path in map(pathlib.Path, sys.argv[2:]):
            for record in map(json.loads, path.read_text().splitlines()):
                if count(record)[1]:
                    print(report_failure(record))
        return
    if sys.argv[1] == "--skips":
        lines = pathlib.Path(sys.argv[2]).read_text().splitlines()
        allowed = [line.split("  #")[0].strip() for line in lines if line[:1] not in ("", "#")]
        found = set()
        for path in map(pathlib.Path, sys.argv[3:]):
            for record in map(json.loads, path.read_text().splitlines()):
                found |= {(record["name"], why) for why in skips(record)}
        unlisted = [one for one in sorted(found) if not any(re.search(a, one[1]) for a in allowed)]
        for name, why in unlisted:
            print(f"  {name}: {why}")
        sys.exit(1 if unlisted else 0)
    totals = [0, 0, 0]
    for path in map(pathlib.Path, sys.argv[1:]):
        for line in path.read_text().splitlines():
            record = json.loads(line)
            cases = count(record)
            totals = [a + b for a, b in zip(totals, cases)]
            if cases[1]:
                print(f"failed: {record['name']} ({record['result']})", file=sys.stderr)
            if record["result"] == "SKIP":
                print(f"skipped: {record['name']}: {skips(record)[0]}", file=sys.stderr)
    print(*totals)


if __name__ == "__main__":
    main()
