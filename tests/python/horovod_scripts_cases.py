# SPDX-License-Identifier: Apache-2.0
"""Scripts as Horovod's users write them run on two ranks, unchanged."""

from __future__ import annotations

import runpy
import sys
import unittest
from pathlib import Path

import horovod.torch as hvd
import torch

SCRIPTS = Path(__file__).resolve().parent / "horovod_scripts"

RUNS = (
    "digits_like.py",
    "digits_like.py --fp16-allreduce",
    "digits_like.py --use-adasum",
    "digits_like.py --gradient-predivide-factor 2",
    "synthetic_benchmark.py",
    "elastic_training.py",
    "resume.py",
    "clipping.py",
    "accumulate.py",
    "process_sets.py",
    "uneven.py",
    "collectives.py",
    "async_loader.py",
    "batch_norm.py",
    "embeddings.py",
    "exchange.py",
    "strategy.py",
    "transformer.py",
)
# Started otherwise: horovod_launch_cases.py.
APART = {"interactive.py"}


class Scripts(unittest.TestCase):
    def test_each_runs(self) -> None:
        torch.set_num_threads(1)
        for line in RUNS:
            with self.subTest(script=line):
                # One job after the other, so that torch is imported once.
                name, *arguments = line.split()
                sys.argv = [name, *arguments]
                try:
                    runpy.run_path(str(SCRIPTS / name), run_name="__main__")
                finally:
                    hvd.shutdown()

    def test_all_are_listed(self) -> None:
        there = {path.name for path in SCRIPTS.glob("*.py")}
        self.assertEqual(there, {line.split()[0] for line in RUNS} | APART)


if __name__ == "__main__":
    unittest.main(verbosity=2)
