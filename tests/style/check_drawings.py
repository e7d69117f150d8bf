# SPDX-License-Identifier: Apache-2.0
"""Each drawing of docs was made from the text beside it, and a page shows it."""

import hashlib
import unittest

import sources

_FOLDER = sources.ROOT / "docs/explanation/drawings"


class TestDrawings(unittest.TestCase):
    def test_each_was_made_from_its_text(self):
        texts = sorted(_FOLDER.glob("*.dot"))
        self.assertGreaterEqual(len(texts), 3)
        for text in texts:
            digest = hashlib.sha256(text.read_bytes()).hexdigest()
            drawing = text.with_suffix(".svg")
            self.assertTrue(drawing.exists(), f"{drawing} is missing: run scripts/drawings.sh")
            self.assertIn(digest, drawing.read_text(), f"{drawing} is old: run scripts/drawings.sh")

    def test_each_is_shown_by_a_page(self):
        pages = "".join(
            (sources.ROOT / path).read_text() for path in sources.tracked("docs/*.md", "README.md")
        )
        for drawing in sorted(_FOLDER.glob("*.svg")):
            self.assertIn(f"drawings/{drawing.name}", pages)


if __name__ == "__main__":
    unittest.main()
