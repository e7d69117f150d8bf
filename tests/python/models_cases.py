# SPDX-License-Identifier: Apache-2.0
"""The models of the examples are what they are called; every example says what it shows."""

from __future__ import annotations

import ast
import sys
import unittest
from pathlib import Path

import torch

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples" / "pytorch"
sys.path.insert(0, str(EXAMPLES))

from bert_base import BertBase  # noqa: E402
from resnet50 import ResNet50  # noqa: E402


def shapes(name: str) -> list[int]:
    """Elements of each gradient, as the benchmarks have them."""
    text = (ROOT / "tests" / "bench" / f"shapes_{name}.txt").read_text()
    return [int(line) for line in text.splitlines()]


def counts(model: torch.nn.Module) -> list[int]:
    return [parameter.numel() for parameter in model.parameters()]


class Models(unittest.TestCase):
    def test_resnet50(self) -> None:
        model = ResNet50()
        self.assertEqual(counts(model), shapes("resnet50"))
        self.assertEqual(sum(counts(model)), 25_557_032)
        self.assertEqual(model(torch.randn(2, 3, 64, 64)).shape, (2, 1000))
        features = model.blocks(model.stem(torch.randn(1, 3, 64, 64)))
        self.assertEqual(features.shape, (1, 2048, 2, 2))

    def test_bert_base(self) -> None:
        # Twelve layers would be half a gigabyte: counted from one and two.
        one, two = BertBase(1), BertBase(2)
        layer = counts(one.layers)
        self.assertEqual(counts(two.layers), layer * 2)
        head, rest = counts(one)[:5], counts(one)[5 + len(layer) :]
        self.assertEqual(head + 12 * layer + rest, shapes("bert_base"))
        self.assertEqual(sum(head) + 12 * sum(layer) + sum(rest), 109_482_240)
        tokens = torch.randint(30522, (2, 7))
        with torch.no_grad():
            one.eval()
            pooled = one(tokens)
            self.assertEqual(pooled.shape, (2, 768))
            # Each word sees all others, in both directions.
            tokens[:, 6] = (tokens[:, 6] + 1) % 30522
            self.assertGreater((one(tokens) - pooled).abs().max().item(), 0)


class Examples(unittest.TestCase):
    def test_every_script_says_what_it_shows_and_how_to_start_it(self) -> None:
        readme = (EXAMPLES.parent / "README.md").read_text()
        scripts = [path for path in EXAMPLES.glob("*.py") if "__main__" in path.read_text()]
        self.assertGreater(len(scripts), 6)
        for path in scripts:
            with self.subTest(script=path.name):
                text = path.read_text()
                described = ast.get_docstring(ast.parse(text)) or ""
                self.assertIn(f"python3 {path.name}", described)
                self.assertIn("description=__doc__", text)
                self.assertIn(path.name, readme)


if __name__ == "__main__":
    unittest.main()
