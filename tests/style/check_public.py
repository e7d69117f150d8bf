# SPDX-License-Identifier: Apache-2.0
"""The modules that docs/reference/python.md calls public are there, and docs and examples use no other."""

import re
import unittest

import sources

_PACKAGE = sources.ROOT / "runtime/python"
_IMPORT = re.compile(r"\b(?:from|import) (hvd(?:\.\w+)*)(?: import ([\w, ]+))?")


def public_modules() -> set[str]:
    """Those of the table."""
    page = (sources.ROOT / "docs/reference/python.md").read_text()
    table = page.split("## Public modules")[1].split("\n## ")[0]
    rows = [line.split("|")[1] for line in table.splitlines() if line.startswith("| `")]
    return set(re.findall(r"`([\w.]+)`", " ".join(rows)))


def is_module(name: str) -> bool:
    path = _PACKAGE.joinpath(*name.split("."))
    return path.with_suffix(".py").exists() or (path / "__init__.py").exists()


def imported_by(text: str) -> set[str]:
    """Modules of hvd that a text imports."""
    found = set()
    for module, names in _IMPORT.findall(text):
        found.add(module)
        each = [f"{module}.{name.split()[0]}" for name in names.split(",") if name.strip()]
        found |= {name for name in each if is_module(name)}
    return found


class TestPublic(unittest.TestCase):
    def test_every_public_module_is_there(self):
        self.assertGreater(len(public_modules()), 20)
        self.assertEqual({name for name in public_modules() if not is_module(name)}, set())

    def test_nothing_internal_is_public(self):
        self.assertEqual({name for name in public_modules() if "._" in name}, set())

    def test_docs_and_examples_use_public_modules_only(self):
        for path in sources.tracked("docs/*.md", "docs/*.rst", "examples/*", "README.md"):
            if path.suffix not in (".md", ".rst", ".py", ".ipynb"):
                continue
            used = imported_by((sources.ROOT / path).read_text())
            self.assertEqual(used - public_modules(), set(), path)

    def test_api_pages_show_public_modules_only(self):
        shown = set()
        for path in sources.tracked("docs/api/*.rst"):
            text = (sources.ROOT / path).read_text()
            shown |= set(re.findall(r"automodule:: (hvd[\w.]*)", text))
        self.assertGreater(len(shown), 10)
        self.assertEqual(shown - public_modules(), set())

    def test_a_planted_import_is_found(self):
        planted = (
            "from hvd import _core, data\nimport hvd.torch.reducer\nfrom hvd.torch import size"
        )
        self.assertEqual(
            imported_by(planted), {"hvd", "hvd._core", "hvd.data", "hvd.torch.reducer", "hvd.torch"}
        )


if __name__ == "__main__":
    unittest.main()
