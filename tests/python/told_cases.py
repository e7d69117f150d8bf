# SPDX-License-Identifier: Apache-2.0
"""Runs a file of unittest cases, and writes how each ended to the file that HVD_TEST_CASES names.

    told_cases.py FILE argument...      as python FILE argument...

One line of JSON for each case: its name, "passed", "failed" or "skipped", and why.
"""

from __future__ import annotations

import json
import os
import runpy
import sys
import unittest
from typing import Any


class ToldResult(unittest.TextTestResult):
    """The usual result, which also tells."""

    def _tell(self, test: Any, end: str, why: str = "") -> None:
        with open(os.environ["HVD_TEST_CASES"], "a") as told:
            told.write(json.dumps({"case": test.id(), "end": end, "why": why}) + "\n")

    def addSuccess(self, test: Any) -> None:  # noqa: N802 (unittest's name)
        """See unittest."""
        super().addSuccess(test)
        self._tell(test, "passed")

    def addFailure(self, test: Any, err: Any) -> None:  # noqa: N802
        """See unittest."""
        super().addFailure(test, err)
        self._tell(test, "failed")

    def addError(self, test: Any, err: Any) -> None:  # noqa: N802
        """See unittest."""
        super().addError(test, err)
        self._tell(test, "failed")

    def addSubTest(self, test: Any, subtest: Any, err: Any) -> None:  # noqa: N802
        """See unittest."""
        super().addSubTest(test, subtest, err)
        if err is not None:
            self._tell(test, "failed")

    def addSkip(self, test: Any, reason: str) -> None:  # noqa: N802
        """See unittest."""
        super().addSkip(test, reason)
        self._tell(test, "skipped", reason)


if __name__ == "__main__":
    unittest.TextTestRunner.resultclass = ToldResult
    del sys.argv[0]
    sys.path[0] = os.path.dirname(os.path.abspath(sys.argv[0]))
    runpy.run_path(sys.argv[0], run_name="__main__")
