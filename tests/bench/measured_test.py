# SPDX-License-Identifier: Apache-2.0
"""What the comparison says of figures: measured.py and figures_page.py."""

from __future__ import annotations

import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

from measured import LIMIT, OURS, PEER, Column, Measured, number, text_table

HERE = pathlib.Path(__file__).resolve().parent


def example(rounds: int = 2) -> tuple[Measured, list[str]]:
    """Two of ours, two peers and a limit that have taken turns; and who ran when."""
    ran: list[str] = []

    def column(name: str, kind: str, *turns: dict[str, float]) -> Column:
        left = list(turns)

        def run() -> dict[str, float]:
            ran.append(name)
            return left.pop(0)

        return Column(name, kind, run)

    columns = [
        column(
            "hvd",
            OURS,
            {"allreduce_8B": 4.0, "allreduce_1MB": 50.0},
            {"allreduce_8B": 2.0, "allreduce_1MB": 70.0},
        ),
        column(
            "hvd torch", OURS, {"allreduce_8B": 9.0}, {"allreduce_8B": 9.0, "allreduce_1MB": -5.0}
        ),
        column(
            "quick",
            PEER,
            {"allreduce_8B": 1.0, "allreduce_1MB": 99.0},
            {"allreduce_8B": 2.0, "allreduce_1MB": 101.0},
        ),
        column("broken", PEER, {}),
        column("least", LIMIT, {"allreduce_1MB": 30.0}, {"allreduce_1MB": 30.0}),
    ]
    return Measured("allreduce, 2 ranks", "allreduce", columns).take_turns(rounds), ran


class TestMeasured(unittest.TestCase):
    def test_libraries_take_turns_forwards_and_backwards(self) -> None:
        measured, ran = example()
        forwards = ["hvd", "hvd torch", "quick", "broken", "least"]
        self.assertEqual(ran, [*forwards, "least", "quick", "hvd torch", "hvd"])
        self.assertNotIn("broken", [column.name for column in measured.columns])

    def test_ratios_are_of_medians(self) -> None:
        measured, _ = example()
        self.assertEqual(measured.ratio("allreduce_8B", PEER), 3.0 / 1.5)
        self.assertEqual(measured.ratio("allreduce_1MB", PEER), 60.0 / 100.0)
        self.assertEqual(measured.ratio("allreduce_1MB", LIMIT), 2.0)
        self.assertIsNone(measured.ratio("allreduce_8B", LIMIT))
        self.assertEqual(measured.lost(), ["allreduce_8B"])

    def test_a_case_that_is_lost_is_marked(self) -> None:
        text = text_table(example()[0])
        self.assertRegex(text, r"allreduce_8B +3 \(2\).* 2\.00 \* +-")
        self.assertRegex(text, r"allreduce_1MB +60 \(50\).* 0\.60 +2\.00")
        self.assertIn("no peer is faster in 1 of 2 cases; * one is in: allreduce_8B", text)

    def test_numbers_have_three_digits(self) -> None:
        shown = [number(value) for value in (0.25, 3.14159, 42.195, 123.4, 45255.7, None)]
        self.assertEqual(shown, ["0.25", "3.14", "42.2", "123", "45,256", ""])

    def test_a_page_has_what_was_measured(self) -> None:
        measured, _ = example()
        for column in measured.columns:
            if column.name in ("hvd", "quick"):
                column.values["gather_1KB"] = [7.0]
        with tempfile.TemporaryDirectory() as folder:
            source, page = pathlib.Path(folder, "facts.json"), pathlib.Path(folder, "page.md")
            facts = {"machine": "2 CPUs", "tables": [measured.facts()]}
            source.write_text(json.dumps(facts))
            command = [sys.executable, "-B", str(HERE / "figures_page.py"), str(source), str(page)]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if "No module named 'matplotlib'" in done.stderr:
                self.skipTest("no matplotlib here")
            self.assertEqual(done.returncode, 0, done.stderr)
            text = page.read_text()
            plot = pathlib.Path(folder, "figures", "allreduce_allreduce.svg").read_text()
            other = pathlib.Path(folder, "figures", "allreduce_gather.svg").read_text()
        self.assertIn("from one run: 2 CPUs.", text)
        self.assertIn("| allreduce 8B | 3 | 9 | 1.5 |  | **2.00** |  |", text)
        self.assertIn("| allreduce 1MB | 60 |  | 100 | 30 | 0.60 | 2.00 |", text)
        self.assertIn("(figures/allreduce_allreduce.svg)", text)
        self.assertIn("hvd torch", plot)
        self.assertIn("quick", other)
        self.assertNotIn("hvd torch", other, "which has no gather")


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], "-v"])
