# SPDX-License-Identifier: Apache-2.0
"""Ranks of Keras and TensorFlow that are killed, and spares in their place: the same weights."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from hvd import launch

PROGRAM = Path(__file__).with_name("elastic_training.py")
ROOT = PROGRAM.parents[2] / "runtime"
RANKS = 2


class Weights(unittest.TestCase):
    def train(self, way: str, *victims: str) -> tuple[dict[int, set[str]], int, int]:
        """What the weights were after each epoch, how many processes died, how many ended."""
        with tempfile.TemporaryDirectory(prefix="hvd-test-") as folder:
            spares = ("--spares", str(len(victims))) if victims else ("--min-np", str(RANKS))
            rank = [sys.executable, str(PROGRAM), folder, way, *victims]
            job = subprocess.run(
                [launch.hvdrun_path(), "-np", str(RANKS), *spares, *rank],
                env=launch.rank_environment(os.environ, {"PYTHONPATH": f"{ROOT}/python"}),
                capture_output=True,
                text=True,
                timeout=150,
            )
            self.assertEqual(job.returncode, 0, job.stdout + job.stderr)
            weights: dict[int, set[str]] = {}
            deaths = ends = 0
            for file in Path(folder).glob("process-*"):
                for line in file.read_text().splitlines():
                    what, *words = line.split()
                    deaths += what == "dies"
                    ends += what == "ends"
                    if what == "epoch":
                        weights.setdefault(int(words[0]), set()).add(words[1])
            return weights, deaths, ends

    def check(self, way: str) -> None:
        undisturbed, deaths, ends = self.train(way)
        self.assertEqual(([*map(len, undisturbed.values())], deaths, ends), ([1] * 5, 0, RANKS))
        # A rank, and rank 0.
        self.assertEqual(self.train(way, "1:1", "0:3"), (undisturbed, 2, RANKS))

    def test_of_fit_are_those_of_an_undisturbed_run(self) -> None:
        self.check("keras")

    def test_of_a_loop_are_those_of_an_undisturbed_run(self) -> None:
        self.check("loop")


if __name__ == "__main__":
    unittest.main(verbosity=2)
