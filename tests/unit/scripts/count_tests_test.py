# SPDX-License-Identifier: Apache-2.0
"""What scripts/count_tests.py tells of Meson's logs.   count_tests_test.py COUNT_TESTS_PY"""

import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

SCRIPT = sys.argv.pop(1)

GTEST = """[ RUN      ] Star.Joins
[       OK ] Star.Joins (0 ms)
[ RUN      ] Star.Tells
star_test.cc:91: Failure
Value of: last_error()
[  FAILED  ] Star.Tells (5 ms)
[  PASSED  ] 1 test.
[  FAILED  ] 1 test, listed below:
[  FAILED  ] Star.Tells
"""
UNITTEST = f"""--- rank 0: exit code 1
.F
{"=" * 70}
FAIL: test_sums (__main__.Sums)
{"-" * 70}
Traceback (most recent call last):
  File "sums_cases.py", line 7, in test_sums
AssertionError: 4 != 5

{"-" * 70}
Ran 2 tests in 0.003s

FAILED (failures=1)
"""
STACK = "".join(f'  File "/home/me/hvd/place_{i}.py", line {i} in run\n' for i in range(9))
HUNG = f"""--- rank 0: exit code 0
OK
--- rank 1: exit code -6
Fatal Python error: Aborted

Current thread 0x00007fc3c5de72c0 (most recent call first):
{STACK}
Extension modules: torch._C, numpy.random
"""


def record(name: str, result: str, text: str) -> str:
    """A line of Meson's log."""
    return json.dumps({"name": name, "result": result, "stdout": text, "duration": 7.2})


class CountTests(unittest.TestCase):
    """Totals, and what is told of a failure."""

    def told(self, *arguments: str, records: list[str]) -> str:
        """What the script prints of a log."""
        with tempfile.TemporaryDirectory() as folder:
            log = pathlib.Path(folder, "testlog.json")
            log.write_text("\n".join(records))
            command = [sys.executable, "-B", SCRIPT, *arguments, str(log)]
            return subprocess.run(command, check=True, capture_output=True, text=True).stdout

    def test_totals(self) -> None:
        records = [record("a", "FAIL", GTEST), record("b", "FAIL", UNITTEST), record("c", "OK", "")]
        self.assertEqual(self.told(records=records), "3 2 0\n")

    def test_a_case_of_several_ranks_counts_once(self) -> None:
        told = UNITTEST + UNITTEST + "cases: 1 passed, 1 failed, 3 skipped\n"
        self.assertEqual(self.told(records=[record("a", "FAIL", told)]), "1 1 3\n")
        parted = "cases: 2 passed, 0 failed, 0 skipped\n"
        self.assertEqual(self.told(records=[record("a", "FAIL", parted)]), "2 1 0\n")

    def test_skips_for_reasons_that_are_not_listed(self) -> None:
        gtest = "[ RUN      ] A.B\n/x/b_test.cc:7: Skipped\nno huge pages here\n[  SKIPPED ] A.B\n"
        records = [
            record("a", "SKIP", "building\nskipped: this machine has no GPU\n"),
            record("b", "OK", gtest),
            record("c", "OK", "test_x (m.C) ... skipped 'one CPU'\ntest_y (m.C) ... ok\n"),
            record("d", "OK", "skipped case: m.C.test_z: needs three ranks\n"),
        ]
        with tempfile.TemporaryDirectory() as folder:
            log, allowed = pathlib.Path(folder, "log"), pathlib.Path(folder, "allowed")
            log.write_text("\n".join(records))
            command = [sys.executable, "-B", SCRIPT, "--skips", str(allowed), str(log)]
            allowed.write_text("# of the tests\nno GPU$  # of CI\none CPU\n")
            done = subprocess.run(command, check=False, capture_output=True, text=True)
            self.assertEqual(done.stdout, "  b: no huge pages here\n  d: needs three ranks\n")
            self.assertEqual(done.returncode, 1)
            allowed.write_text(".  # anything\n")
            self.assertEqual(subprocess.run(command, check=False).returncode, 0)

    def test_names_the_cases_and_what_they_said(self) -> None:
        records = [record("a", "FAIL", GTEST), record("b", "FAIL", UNITTEST), record("c", "OK", "")]
        told = self.told("--failed", records=records)
        self.assertIn("  a (FAIL, 7 s)\n    Star.Tells\n    star_test.cc:91: Failure\n", told)
        self.assertIn("  b (FAIL, 7 s)\n    FAIL: test_sums (__main__.Sums)\n", told)
        self.assertIn("    AssertionError: 4 != 5\n", told)
        self.assertNotIn("  c (", told)

    def test_of_ranks_that_hung_the_codes_and_the_places(self) -> None:
        told = self.told("--failed", records=[record("d", "FAIL", HUNG)])
        self.assertIn("--- rank 1: exit code -6\n", told)
        self.assertIn('  File "place_0.py", line 0 in run\n', told)
        self.assertLess(len(told.splitlines()), 8)

    def test_of_another_program_the_last_words(self) -> None:
        told = self.told("--failed", records=[record("d", "TIMEOUT", "waits\n" * 50)])
        self.assertEqual(told.count("waits"), 12)


if __name__ == "__main__":
    unittest.main()
