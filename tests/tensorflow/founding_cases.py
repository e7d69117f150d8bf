# SPDX-License-Identifier: Apache-2.0
"""The scripts of the pages that hvd was made for train as they are printed, with Keras 3 and with Keras 2.

What a page leaves out, and data, are in `founding/stand_ins.py`; no other line is changed.
"""

from __future__ import annotations

import os
import runpy
import sys
import tempfile
import unittest
from pathlib import Path
from typing import Any

import horovod.tensorflow as hvd
import numpy as np
import tensorflow as tf

from hvd import objects

SCRIPTS = Path(__file__).resolve().parent / "founding"
STAND_INS = {"stand_ins.py", "idr_tf.py"}
sys.path.insert(0, str(SCRIPTS))


class Scripts(unittest.TestCase):
    """Those of TensorFlow 1 last: from there on TensorFlow is not eager any more."""

    ran: set[str] = set()

    def setUp(self) -> None:
        hvd.init()
        self.addCleanup(hvd.shutdown)
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        before = os.getcwd()
        os.chdir(folder.name)
        self.addCleanup(os.chdir, before)

    def run_script(self, name: str) -> dict[str, Any]:
        """The names of the script when it has ended."""
        self.ran.add(name)
        return runpy.run_path(str(SCRIPTS / name), run_name="__main__")

    def assert_same_on_ranks(self, weights: Any) -> None:
        mine = [np.asarray(one).tolist() for one in weights]
        every = objects.allgather_object(mine)
        self.assertEqual(every, every[:1] * hvd.size())

    def test_1_jean_zay_fit(self) -> None:
        found = self.run_script("jean_zay_fit.py")
        self.assert_same_on_ranks(found["model"].get_weights())
        history = found["model"].history.history
        self.assertEqual(len(history["loss"]), 24)
        self.assertGreater(history["accuracy"][-1], 0.9)
        if hvd.rank() == 0:
            self.assertEqual(
                sorted(os.listdir(".")), sorted(f"checkpoint-{n}.h5" for n in range(1, 25))
            )
            again = tf.keras.models.load_model("checkpoint-24.h5")
            for one, other in zip(again.get_weights(), found["model"].get_weights()):
                np.testing.assert_array_equal(one, other)

    def test_1_jean_zay_validation(self) -> None:
        from stand_ins import write_records

        os.makedirs("imagenet")
        write_records("imagenet")
        os.environ["DSDIR"] = self.folder
        self.addCleanup(os.environ.pop, "DSDIR")
        found = self.run_script("jean_zay_validation.py")
        everywhere = objects.allgather_object(float(found["val_loss"].result()))
        self.assertAlmostEqual(float(found["val_loss_dist"]), float(np.mean(everywhere)), places=5)
        self.assertGreater(everywhere[0], 0.0)

    def test_1_piz_daint_keras(self) -> None:
        found = self.run_script("piz_daint_keras.py")
        self.assert_same_on_ranks(found["model"].get_weights())
        self.assertEqual(os.path.exists("piz-daint.h5"), hvd.rank() == 0)

    def test_1_adaltas(self) -> None:
        found = self.run_script("adaltas.py")
        self.assert_same_on_ranks(found["model"].get_weights())

    def test_2_sessions(self) -> None:
        for name in ("piz_daint_session.py", "piz_daint_estimator.py", "ml_space_session.py"):
            with self.subTest(name):
                found = self.run_script(name)
                self.assert_same_on_ranks(found["weights"])
                self.assertLess(found["losses"][-1], found["losses"][0])

    def test_3_all_ran(self) -> None:
        there = {path.name for path in SCRIPTS.glob("*.py")} - STAND_INS
        self.assertEqual(there, self.ran)


if __name__ == "__main__":
    unittest.main(verbosity=2)
