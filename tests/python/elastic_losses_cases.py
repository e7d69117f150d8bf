# SPDX-License-Identifier: Apache-2.0
"""Ranks that are killed in training, and spares in their place: the losses are the same bits."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from hvd import launch

PROGRAM = Path(__file__).with_name("elastic_training.py")
ROOT = PROGRAM.parents[2] / "runtime"
RANKS = 3


class Notes:
    """What the processes of a job noted."""

    def __init__(self, folder: Path) -> None:
        self.losses: dict[int, set[str]] = {}
        self.sizes: dict[int, int] = {}
        self.times: list[float] = []
        self.deaths: list[float] = []
        self.ends: list[list[str]] = []
        for file in sorted(folder.glob("process-*")):
            for line in file.read_text().splitlines():
                what, *words = line.split()
                if what == "dies":
                    self.deaths.append(float(words[0]))
                elif what == "ends":
                    self.ends.append(words)
                else:
                    self.losses.setdefault(int(words[0]), set()).add(words[2])
                    self.sizes[int(words[0])] = int(words[1])
                    self.times.append(float(words[3]))

    def seconds_lost(self) -> list[float]:
        """From each death to the next step that a rank has finished."""
        return [min(t for t in self.times if t > death) - death for death in self.deaths]


class Losses(unittest.TestCase):
    def train(self, *options: str, victims: str = "", names: str = "hvd") -> Notes:
        with tempfile.TemporaryDirectory(prefix="hvd-test-") as folder:
            job = subprocess.run(
                [
                    launch.hvdrun_path(),
                    "-np",
                    str(RANKS),
                    *options,
                    sys.executable,
                    PROGRAM,
                    folder,
                ],
                env=launch.rank_environment(
                    os.environ,
                    {
                        "VICTIMS": victims,
                        "NAMES": names,
                        "OMP_NUM_THREADS": "1",
                        "PYTHONPATH": f"{ROOT}/python:{ROOT}/horovod",
                    },
                ),
                capture_output=True,
                text=True,
                timeout=200,
            )
            self.assertEqual(job.returncode, 0, job.stdout + job.stderr)
            return Notes(Path(folder))

    _undisturbed: Notes | None = None

    def undisturbed(self) -> Notes:
        """Trained once: each start of PyTorch takes seconds."""
        if Losses._undisturbed is None:
            Losses._undisturbed = self.train("--min-np", str(RANKS))
        return Losses._undisturbed

    def test_the_losses_of_a_disturbed_run_are_those_of_an_undisturbed_one(self) -> None:
        expected = self.undisturbed()
        self.assertEqual(len(expected.losses), 24)
        self.assertTrue(all(len(values) == 1 for values in expected.losses.values()))
        # One rank, rank 0, a spare that has become a rank, two at once.
        disturbed = self.train("--spares", "5", victims="1:3 0:8 3:13 2:19 4:19")
        self.assertEqual(len(disturbed.deaths), 5)
        self.assertEqual(disturbed.losses, expected.losses)
        self.assertEqual(len(disturbed.ends), RANKS)
        for end in disturbed.ends:  # Weights, and the rate that the scheduler has come to.
            self.assertEqual(end[2:], expected.ends[0][2:])
        lost = statistics.median(disturbed.seconds_lost())
        print(f"from a kill to the next finished step: median {lost * 1000:.0f} ms")

    def test_so_are_those_of_a_program_for_horovod(self) -> None:
        expected = self.undisturbed()
        disturbed = self.train("--restarts", "2", victims="1:3 0:15", names="horovod")
        self.assertEqual(len(disturbed.deaths), 2)
        self.assertEqual(disturbed.losses, expected.losses)

    def test_so_does_a_program_with_ddp_go_on(self) -> None:
        disturbed = self.train("--spares", "1", victims="0:15", names="ddp")
        self.assertEqual(len(disturbed.deaths), 1)
        self.assertEqual(sorted(disturbed.losses), list(range(1, 25)))
        self.assertEqual(set(disturbed.sizes.values()), {RANKS})
        self.assertEqual({tuple(end[2:]) for end in disturbed.ends}, {tuple(disturbed.ends[0][2:])})

    def test_fewer_ranks_finish_the_epochs_with_every_sample_once(self) -> None:
        shrunk = self.train("--min-np", "1", victims="0:3 2:9")
        self.assertEqual(shrunk.ends[0][:2], ["0", "1"])
        # 144 samples in batches of 4 for each rank: 3 x 12, then 2 x 12, and one alone.
        samples = sum(shrunk.sizes[step] * 4 for step in shrunk.sizes)
        self.assertEqual(samples, 2 * 144)


if __name__ == "__main__":
    unittest.main(verbosity=2)
