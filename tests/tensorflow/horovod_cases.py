# SPDX-License-Identifier: Apache-2.0
"""Scripts as Horovod's users write them for TensorFlow and Keras run on several ranks."""

from __future__ import annotations

import logging
import runpy
import sys
import unittest
from pathlib import Path

import horovod.tensorflow as hvd
import horovod.tensorflow.keras
import tensorflow as tf
from horovod.common.exceptions import HorovodInternalError

SCRIPTS = Path(__file__).resolve().parent / "horovod_scripts"

# Sessions last: from there on TensorFlow is not eager any more.
RUNS = (
    "collectives.py",
    "custom_loop.py",
    "custom_loop.py --fp16-allreduce --groups 2",
    "custom_loop.py --gradient-predivide-factor 2",
    "custom_loop.py --use-adasum",
    "keras_fit.py",
    "keras_fit.py 2",
    "keras_resume.py",
    "partial.py",
    "elastic_loop.py",
    "elastic_keras.py",
    "sessions.py",
    "sessions.py 2",
    "sessions.py 1 --use-adasum",
)


class Errors(unittest.TestCase):
    """What ranks that disagree raise; before the scripts, in the order of the names."""

    def setUp(self) -> None:
        hvd.init()

    def tearDown(self) -> None:
        hvd.shutdown()

    def test_ranks_that_disagree(self) -> None:
        different = tf.ones([2 + hvd.rank()])
        for call in (
            lambda: hvd.allreduce(different, name="eager"),
            lambda: horovod.tensorflow.keras.allreduce(different.numpy(), name="value"),
            lambda: hvd.broadcast(different, root_rank=0, name="eager"),
        ):
            with self.assertRaisesRegex(HorovodInternalError, r"shape.*rank"):
                call()
        with self.assertRaisesRegex(tf.errors.FailedPreconditionError, r"shape.*rank"):
            tf.function(lambda: hvd.allreduce(different, name="graph"))()
        self.assertEqual(float(hvd.allreduce(tf.constant(2.0), name="eager")), 2.0)

    def test_after_shutdown(self) -> None:
        hvd.shutdown()
        with self.assertRaisesRegex((HorovodInternalError, ValueError), "init"):
            hvd.allreduce(tf.ones(1))

    def test_a_name_in_flight_is_used_again(self) -> None:
        function = tf.function(lambda x: [hvd.allreduce(x, name="twice") for _ in range(2)])
        self.assertEqual([float(one) for one in function(tf.constant(3.0))], [3.0, 3.0])


class Scripts(unittest.TestCase):
    def test_each_runs(self) -> None:
        logging.getLogger("hvd.elastic").setLevel(logging.ERROR)
        for line in RUNS:
            with self.subTest(script=line):
                # One job after the other, so that TensorFlow is imported once.
                name, *arguments = line.split()
                sys.argv = [name, *arguments]
                try:
                    runpy.run_path(str(SCRIPTS / name), run_name="__main__")
                finally:
                    hvd.shutdown()

    def test_all_are_listed(self) -> None:
        there = {path.name for path in SCRIPTS.glob("*.py")}
        self.assertEqual(there, {line.split()[0] for line in RUNS})


if __name__ == "__main__":
    unittest.main(verbosity=2)
