# SPDX-License-Identifier: Apache-2.0
"""What a program prints that ends by an error of hvd: the user's lines, and the sentence once."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import ranks

import hvd
from hvd._core import tracebacks

# The user's part is in functions of its own, so that their frames are told from ours.
NUMPY = """
import sys, threading
import numpy
import hvd.numpy as hvd
def train():
    hvd.allreduce(numpy.ones(hvd.rank() + 1), name="odd")
hvd.init()
"""
TORCH = """
import threading
import torch
import hvd.torch as hvd
def train():
    hvd.allreduce(torch.ones(hvd.rank() + 1), name="odd")
hvd.init()
"""


class Programs(unittest.TestCase):
    def shown(self, program: str, **variables: str) -> str:
        """What rank 0 of two prints."""
        with tempfile.TemporaryDirectory() as folder:
            script = Path(folder, "users_script.py")
            script.write_text(program, "utf-8")
            before = {name: os.environ.get(name) for name in variables}
            os.environ.update(variables)
            try:
                outcomes = ranks.run_ranks([sys.executable, str(script)], 2, 120)
            finally:
                for name, value in before.items():
                    os.environ.pop(name, None)
                    if value is not None:
                        os.environ[name] = value
        return outcomes[0].text

    def check_short(self, text: str) -> None:
        self.assertIn("users_script.py", text)
        self.assertIn("in train", text)
        self.assertEqual(text.count("tensor 'odd'"), 1, text)
        self.assertNotIn(f"{os.sep}hvd{os.sep}", text)

    def test_show_the_lines_of_the_user_alone(self) -> None:
        for framework in (NUMPY, TORCH):
            text = self.shown(framework + "train()\n")
            self.check_short(text)
            self.assertIn("MismatchError", text.splitlines()[-1])

    def test_show_them_in_threads_too(self) -> None:
        program = "thread = threading.Thread(target=train)\nthread.start()\nthread.join()\n"
        self.check_short(self.shown(NUMPY + program))

    def test_show_every_frame_where_that_is_wanted(self) -> None:
        text = self.shown(NUMPY + "train()\n", HVD_FULL_TRACEBACK="1")
        self.assertIn(f"{os.sep}hvd{os.sep}numpy.py", text)

    def test_keep_the_hook_that_was_there_and_the_whole_traceback(self) -> None:
        hook = """
def deepest(kind, error, trace):
    names = []
    while trace is not None:
        names.append(trace.tb_frame.f_globals["__name__"])
        trace = trace.tb_next
    print("HOOK", *names, flush=True)
def last(kind, error, trace):
    ours(kind, error, trace)
    deepest(kind, error, error.__traceback__)
"""
        program = "import sys\n" + hook + "sys.excepthook = deepest\n" + NUMPY
        program += "ours, sys.excepthook = sys.excepthook, last\ntrain()\n"
        lines = [line for line in self.shown(program).splitlines() if line.startswith("HOOK")]
        self.assertEqual(lines[0], "HOOK __main__ __main__")
        self.assertIn(" hvd.numpy", lines[1])


class Cut(unittest.TestCase):
    def modules_of(self, error: BaseException) -> list[str]:
        names = []
        trace = error.__traceback__
        while trace is not None:
            names.append(trace.tb_frame.f_globals["__name__"])
            trace = trace.tb_next
        return names

    def raised(self, error: BaseException, cause: BaseException | None = None) -> BaseException:
        """The error, after it has come through a function of hvd and one of the user's."""
        ours = {"__name__": "hvd.somewhere", "error": error, "cause": cause}
        exec(
            "def fail():\n"
            "  try:\n"
            "    if cause: raise cause\n"
            "  except Exception as first: raise error from first\n"
            "  raise error\n",
            ours,
        )
        user = {"__name__": "user", "fail": ours["fail"]}
        exec("def call(): fail()", user)
        try:
            user["call"]()
        except type(error) as caught:
            return caught
        raise AssertionError

    def test_leaves_out_our_frames_of_our_errors_and_what_caused_them(self) -> None:
        error = self.raised(hvd.InvalidArgumentError("wrong"), OSError("first"))
        whole = self.modules_of(error)
        with tracebacks.cut(error):
            self.assertEqual(self.modules_of(error), [__name__, "user"])
            self.assertIsNone(error.__cause__.__traceback__)
        self.assertEqual(self.modules_of(error), whole)
        self.assertEqual(whole, [__name__, "user", "hvd.somewhere"])

    def test_leaves_other_errors_and_our_defects_alone(self) -> None:
        for error in (hvd.InternalError("a defect"), ValueError("the user's")):
            caught = self.raised(error)
            with tracebacks.cut(caught):
                self.assertIn("hvd.somewhere", self.modules_of(caught))


class Notebooks(unittest.TestCase):
    def test_show_the_lines_of_the_user_alone(self) -> None:
        cells = """
import sys
from IPython.core.interactiveshell import InteractiveShell
shell = InteractiveShell.instance(colors="NoColor")
shell.run_cell("import hvd")
shell.run_cell("def train():\\n    hvd.rank()\\ntrain()")
"""
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run(
                [sys.executable, "-c", cells],
                capture_output=True,
                text=True,
                timeout=120,
                env={**os.environ, "PYTHONPATH": ranks.PACKAGES, "IPYTHONDIR": folder},
                check=False,
            )
        if "No module named 'IPython'" in done.stderr:
            self.skipTest("this Python has no IPython")
        self.assertIn("NotInitializedError", done.stdout, done.stderr)
        self.assertIn("train()", done.stdout)
        self.assertNotIn(f"hvd{os.sep}api.py", done.stdout)


if __name__ == "__main__":
    unittest.main()
