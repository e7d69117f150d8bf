# SPDX-License-Identifier: Apache-2.0
"""The PyTorch scripts of the pages that hvd was made for train as printed; others: ../tensorflow."""

from __future__ import annotations

import contextlib
import io
import os
import runpy
import tempfile
import unittest
from pathlib import Path
from typing import Any

import horovod.torch as hvd
import torch

from hvd import objects

SCRIPTS = Path(__file__).resolve().parent / "founding"


class Scripts(unittest.TestCase):
    def setUp(self) -> None:
        torch.set_num_threads(1)
        self.addCleanup(hvd.shutdown)
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.addCleanup(os.chdir, os.getcwd())
        os.chdir(folder.name)

    def trained(self, name: str) -> dict[str, Any]:
        """The names of the script, when it has ended with a smaller loss and the same weights."""
        found = runpy.run_path(str(SCRIPTS / name), run_name="__main__")
        self.assertLess(found["losses"][-1], found["losses"][0] / 2)
        every = objects.allgather_object([one.tolist() for one in found["weights"]])
        self.assertEqual(every, every[:1] * hvd.size())
        return found

    def test_introduction(self) -> None:
        said = io.StringIO()
        with contextlib.redirect_stderr(said):
            found = self.trained("introduction.py")
        told = "horovod: Horovod has no AdaSum: it is Adasum\n" if hvd.rank() == 0 else ""
        self.assertEqual(said.getvalue(), told)
        self.assertEqual([len(one) for one in found["results"]], [2, 4, 2, 1, 2])

    def test_ml_space(self) -> None:
        self.trained("ml_space.py")
        self.assertEqual(os.path.exists("ml-space.pt"), hvd.rank() == 0)

    def test_names_that_horovod_lacks_too(self) -> None:
        with self.assertRaisesRegex(AttributeError, "horovod.torch.*has no attribute 'AdaMax'"):
            hvd.AdaMax  # noqa: B018 (asking is the test)


if __name__ == "__main__":
    unittest.main(verbosity=2)
