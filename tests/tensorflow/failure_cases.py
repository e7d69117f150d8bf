# SPDX-License-Identifier: Apache-2.0
"""Ranks that die in a training with TensorFlow: the others learn it soon, and why."""

from __future__ import annotations

import json
import os
import re
import socket
import sys
import unittest
from pathlib import Path
from typing import Any

import ranks

PROGRAM = str(Path(__file__).with_name("doomed_ranks.py"))
# Who learns of a death later than this did not learn of it by itself.
MOST_SECONDS = 10.0
HOST = socket.gethostname()
# What a rank is told that waits for one that has ended well.
LEFT = ("AbortedError", "UnknownError")


class Deaths(unittest.TestCase):
    def run_doomed(self, training: str, death: str, count: int = 2) -> list[ranks.Outcome]:
        outcomes = ranks.run_ranks([sys.executable, PROGRAM, training, death], count, 120)
        named = [name for name in os.listdir("/dev/shm") if "hvd" in name]
        self.assertEqual(named, [], "nothing may ever be named in /dev/shm")
        return outcomes

    def check_survivor(
        self, training: str, outcome: ranks.Outcome, lost: bool = True
    ) -> dict[str, Any]:
        """It got the error of the library in the shape of TensorFlow's, and lived on."""
        self.assertEqual(outcome.code, 0, outcome.text)
        self.assertNotIn("Traceback", outcome.text)
        lines = [line for line in outcome.text.splitlines() if line.startswith("{")]
        self.assertEqual(len(lines), 1, outcome.text)
        report = json.loads(lines[0])
        print(f"{training}: known after {report['after']:.3f} s: {report['text']}", flush=True)
        self.assertLess(report["after"], MOST_SECONDS)
        ours, theirs = ("PeerLostError", "InternalError") if lost else LEFT
        self.assertEqual(report["ours"], ours)
        self.assertTrue(report["is_op_error"], report)
        payload = {"type.hvd/status": "PEER_LOST" if lost else "ABORTED"}
        self.assertEqual(report["our_payload"], payload)
        if training != "session":  # which takes it off
            self.assertEqual(report["payload"], payload)
        # What is eager is translated at once.
        self.assertEqual(report["class"], ours if training == "eager" else theirs)
        self.assertEqual(report["is_hvd_error"], training == "eager")
        self.assertRegex(report["text"], "^[^\\n]*rank 1 on host " + re.escape(HOST) + "[^\\n]*$")
        self.assertIn(report["again"], ("PeerLostError", "AbortedError"))
        self.assertEqual(report["squares"], [0.0, 1.0, 4.0, 9.0])
        self.assertEqual(report["left"], [])
        return report

    def test_killed_in_fit(self) -> None:
        outcomes = self.run_doomed("fit", "kill", 3)
        self.assertEqual(outcomes[1].code, -9, outcomes[1].text)
        self.check_survivor("fit", outcomes[0])
        # A program that knows of no failure ends with the sentence.
        self.assertEqual(outcomes[2].code, 1, outcomes[2].text)
        self.assertRegex(outcomes[2].text, "InternalError.*(?s:.*)PEER_LOST: .*rank 1")

    def test_killed_in_other_loops(self) -> None:
        for training in ("loop", "eager", "session"):
            with self.subTest(training):
                outcomes = self.run_doomed(training, "kill")
                self.assertEqual(outcomes[1].code, -9, outcomes[1].text)
                self.check_survivor(training, outcomes[0])

    def test_raised_in_fit(self) -> None:
        outcomes = self.run_doomed("fit", "raise")
        self.assertEqual(outcomes[1].code, 1, outcomes[1].text)
        self.assertIn("ZeroDivisionError", outcomes[1].text)
        report = self.check_survivor("fit", outcomes[0])
        self.assertIn("its program ended with ZeroDivisionError: on purpose", report["text"])

    def test_left_fit(self) -> None:
        outcomes = self.run_doomed("fit", "leave")
        self.assertEqual(outcomes[1].code, 0, outcomes[1].text)
        report = self.check_survivor("fit", outcomes[0], lost=False)
        self.assertIn("left the job", report["text"])


if __name__ == "__main__":
    unittest.main(verbosity=2)
