# SPDX-License-Identifier: Apache-2.0
"""Sphinx makes the reference of the Python interface from the docstrings: tests/style/check_api.py FOLDER."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "runtime" / "python"), str(ROOT / "runtime" / "horovod")]

project = "hvd"
author = "the authors of hvdrun"
version = re.search(r"version: '([^']+)'", (ROOT / "meson.build").read_text()).group(1)  # type: ignore[union-attr]
release = version
extensions = ["sphinx.ext.autodoc", "sphinx.ext.napoleon"]
exclude_patterns: list[str] = []
html_theme = "alabaster"
html_show_copyright = False
html_copy_source = False

autodoc_default_options = {"members": True}
autodoc_member_order = "groupwise"
autodoc_typehints = "none"  # the signature has them; again in the text they only take room
autodoc_preserve_defaults = True
# What is missing here is imagined: its types are names in signatures, no more.
autodoc_mock_imports = [
    name for name in ("numpy", "torch", "cloudpickle") if importlib.util.find_spec(name) is None
]
napoleon_google_docstring = False
